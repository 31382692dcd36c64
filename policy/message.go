package policy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// Message describes a call whose rule is about messages. Exactly one field is set.
type Message struct {
	MCP     *MCP     `json:"mcp,omitempty"`
	GraphQL *GraphQL `json:"graphql,omitempty"`
}

// MCP is a tool call.
type MCP struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Arguments are the tool's arguments, a JSON object. Beyond [MaxArguments] bytes they are absent, and no condition
	// on args holds.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// GraphQL are the operations of a GraphQL document.
type GraphQL struct {
	Type   string   `json:"type"`   // query or mutation
	Fields []string `json:"fields"` // of the top fields, sorted
}

// Bounds on a message.
const (
	MaxArguments = 16 << 10 // bytes
	maxFields    = 64
)

// Does returns the text that follows method and path in the bound resource; empty without a message.
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
		return refusal.New("query_malformed",
			"call.message must have either mcp or graphql, and no member may be missing or too long")
	}
	return nil
}

func isText(s string, most int) bool { return s != "" && len(s) <= most }

// MCP returns the tool call, or an empty one.
func (c Call) MCP() MCP {
	if c.Message == nil || c.Message.MCP == nil {
		return MCP{}
	}
	return *c.Message.MCP
}

// GraphQL returns the GraphQL operations, or empty ones.
func (c Call) GraphQL() GraphQL {
	if c.Message == nil || c.Message.GraphQL == nil {
		return GraphQL{}
	}
	return *c.Message.GraphQL
}

// Arguments returns a tool's arguments with integers as int64, or nil.
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

// native converts a JSON value for conditions. Numbers become int64 if they fit, else float64.
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
