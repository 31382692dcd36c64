package mcp

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// Rule names the messages that may pass. All others are refused.
type Rule struct {
	Tools []string
	// nil means usualMethods
	Methods []string
	// allow a human's or a model's answers to a server
	Elicitation, Sampling bool
	// by tool, the required hash of its definition: hex SHA-256 of its canonical JSON
	Pin map[string]string
	// the client sees all tools that the server lists, also those that no rule names
	ListAll bool
	// calling the tools posts; such a rule allows nothing else
	Post bool
	// the operator's promise that the server answers posts on their own connection, which the client need not show to
	// expect
	SameConnection bool
}

// usualMethods are a rule's default methods: sessions, lists and reads, but no tool calls.
var usualMethods = []string{
	initialize, "notifications/initialized", discover, "ping", "notifications/cancelled",
	"notifications/progress", "notifications/roots/list_changed",
	listTools, "prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read",
	"resources/subscribe", "resources/unsubscribe",
	"subscriptions/listen", "completion/complete", "logging/setLevel",
}

func (r *Rule) methods() []string {
	switch {
	case r.Post:
		return nil
	case r.Methods == nil:
		return usualMethods
	}
	return r.Methods
}

// IsUsual reports whether a rule that names no methods allows this one.
func IsUsual(method string) bool { return slices.Contains(usualMethods, method) }

// isToolName reports whether rules can name a tool. A name in quotes could be another one in a record: see [printable].
func isToolName(name string) bool {
	return name != "" && len(name) <= 128 && name[0] != '"' &&
		strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// Check refuses a malformed rule.
func (r *Rule) Check() error {
	for _, tool := range r.Tools {
		if !isToolName(tool) || tool == "*" {
			return fmt.Errorf("%q is not the name of a tool: 1 to 128 visible ASCII characters, no quote first, no wildcards",
				tool)
		}
	}
	for tool, hash := range r.Pin {
		if !slices.Contains(r.Tools, tool) {
			return fmt.Errorf("it pins the tool %q, which it does not name", tool)
		}
		if !evidence.IsHash(hash) {
			return fmt.Errorf("it pins %q, which is not a lowercase hex SHA-256", hash)
		}
	}
	if slices.Contains(r.Methods, callTool) {
		return fmt.Errorf("it names the method %s: name the tools", callTool)
	}
	if r.ListAll && !slices.Contains(r.methods(), listTools) {
		return fmt.Errorf("it sets list, but does not name the method %s", listTools)
	}
	if r.Post && len(r.Tools) == 0 {
		return fmt.Errorf("an action must name its tools")
	}
	return nil
}

// CheckRules refuses rules of one endpoint that name the same message, or tools that differ only in case, and returns
// the second one's index.
func CheckRules(rules []*Rule) (i int, err error) {
	named := make(map[string]string)
	for i, r := range rules {
		for _, tool := range r.Tools {
			key := jsonread.Fold(tool)
			if other, taken := named[key]; taken {
				return i, fmt.Errorf("two rules of one MCP server name the tools %q and %q", other, tool)
			}
			named[key] = tool
		}
		for _, method := range r.methods() {
			if _, taken := named["method "+method]; taken {
				return i, fmt.Errorf(
					"two rules of one MCP server name the method %q; a rule that leaves out methods "+
						"names the usual ones", method)
			}
			named["method "+method] = method
		}
	}
	return 0, nil
}

// Verdict says which rule allows a message.
type Verdict struct {
	Rule  int  // index of the rule that allows it
	Human bool // it may carry a human's answer: no more posts in the session

	answered *question // nil if it answers none
}

// Choose returns the index of the rule that names a message with a method.
func Choose(m *Message, rules []*Rule) (int, error) {
	i := slices.IndexFunc(rules, func(r *Rule) bool { return r.names(m) })
	switch {
	case i < 0 && m.Method == callTool:
		return i, refusal.New("action_unmatched", "no rule names the tool %.128q", m.Name)
	case i < 0:
		return i, refusal.New("mcp_method_refused", "no rule names the method %.128q", m.Method)
	}
	return i, nil
}

// Judge closes the question that the message answers.
func Judge(m *Message, header http.Header, rules []*Rule, peer Peer, memory *Memory) (Verdict, error) {
	if m.Method == "" {
		return memory.answer(m, peer, rules)
	}
	i, err := Choose(m, rules)
	switch {
	case err != nil:
		return Verdict{}, err
	case m.Method == callTool && m.ID == "":
		return Verdict{}, malformed("the tool call has no id, so nothing would show its result")
	case !rules[i].Post || rules[i].SameConnection:
	case header.Get("Mcp-Protocol-Version") == oldTransport:
		return Verdict{},
			refusal.New("mcp_transport_unsupported",
				"posts are not allowed over revision %s of the protocol, where answers come on another connection",
				oldTransport)
	case !streams(header):
		return Verdict{},
			refusal.New("mcp_transport_unsupported",
				"a post must accept both forms of answer: send the header Accept: application/json, "+
					"text/event-stream. Clients that use the transport of revision %s cannot: they get answers "+
					"on another connection",
				oldTransport)
	}
	v := Verdict{Rule: i}
	if m.Method == callTool {
		if err := memory.checkTool(m, header, peer, rules[i].Pin[m.Name]); err != nil {
			return v, err
		}
	}
	if !m.isRetry() {
		var err error
		v.Human, err = memory.repeats(m, rules)
		return v, err
	}
	answer, err := memory.answer(m, peer, rules)
	answer.Rule = i
	return answer, err
}

func (r *Rule) names(m *Message) bool {
	if m.Method == callTool {
		return slices.Contains(r.Tools, m.Name)
	}
	return slices.Contains(r.methods(), m.Method)
}

func (r *Rule) answers(method string) bool {
	switch method {
	case elicitation:
		return r.Elicitation
	case sampling:
		return r.Sampling
	}
	return !r.Post
}

// streams reports whether a request accepts both forms of answer on its own connection, as Streamable HTTP demands.
// Clients of the older transport do not.
func streams(header http.Header) bool {
	var json, events bool
	for _, line := range header["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			t, _, err := mime.ParseMediaType(part)
			json = json || err == nil && t == "application/json"
			events = events || err == nil && t == "text/event-stream"
		}
	}
	return json && events
}
