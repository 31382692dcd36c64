package policy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// Message is what a call does, where its rule is about messages. Exactly one of the two is set.
type Message struct {
	MCP     *MCP     `json:"mcp,omitempty"`
	GraphQL *GraphQL `json:"graphql,omitempty"`
}

// MCP is a call of a tool by the Model Context Protocol.
type MCP struct {
	// Server is the endpoint of the server: host and path.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Arguments are the tool's arguments, a JSON object. Without them no condition on args holds: they are left out where they
	// have more than [MaxArguments] bytes.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// GraphQL are the operations of a GraphQL document.
type GraphQL struct {
	Type   string   `json:"type"`   // query or mutation
	Fields []string `json:"fields"` // the names of the fields at the top of the operations, sorted
}

// Bounds on a message.
const (
	MaxArguments = 16 << 10 // bytes
	maxFields    = 64
)

// Does returns what the message does, as it stands behind method and path in the resource that the evidence is bound to. It is
// empty for a call without a message.
func (m *Message) Does() string {
	switch {
	case m == nil:
		return ""
	case m.MCP != nil:
		return "tools/call " + m.MCP.Tool
	case m.GraphQL != nil:
		return m.GraphQL.Type + " " + strings.Join(m.GraphQL.Fields, ",")
	}
	return ""
}

// check refuses a message that leaves open what it does.
func (m *Message) check() error {
	if m == nil {
		return nil
	}
	ok := false
	switch {
	case m.MCP != nil && m.GraphQL != nil:
	case m.MCP != nil:
		ok = isText(m.MCP.Server, maxPath) && isText(m.MCP.Tool, maxText) && len(m.MCP.Arguments) <= MaxArguments
	case m.GraphQL != nil:
		ok = isText(m.GraphQL.Type, maxText) && len(m.GraphQL.Fields) > 0 && len(m.GraphQL.Fields) <= maxFields
		for _, f := range m.GraphQL.Fields {
			ok = ok && isText(f, maxText)
		}
	}
	if !ok {
		return refusal.New("query_malformed", "call.message does not say what the call does, or says too much")
	}
	return nil
}

func isText(s string, most int) bool { return s != "" && len(s) <= most }

// MCP returns the call of a tool; of any other call its texts are empty.
func (c Call) MCP() MCP {
	if c.Message == nil || c.Message.MCP == nil {
		return MCP{}
	}
	return *c.Message.MCP
}

// GraphQL returns the GraphQL operations; of any other call they are empty.
func (c Call) GraphQL() GraphQL {
	if c.Message == nil || c.Message.GraphQL == nil {
		return GraphQL{}
	}
	return *c.Message.GraphQL
}

// Arguments returns the arguments of a tool, with integers as int64; nil where there are none to judge.
func (c Call) Arguments() (map[string]any, error) {
	raw := c.MCP().Arguments
	if len(raw) == 0 {
		return nil, nil
	}
	var args map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&args); err != nil || args == nil {
		return nil, refusal.New("query_malformed", "call.message.mcp.arguments is not a JSON object")
	}
	for name, v := range args {
		args[name] = native(v)
	}
	return args, nil
}

// native returns a JSON value as conditions have it: a number is an int64 where it is an integer that fits, and otherwise a float64.
func native(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = native(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = native(v[name])
		}
	}
	return v
}
