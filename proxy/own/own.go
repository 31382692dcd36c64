// Package own answers an agent's questions about its own session: what it may call, and why calls were refused. It
// reveals nothing that the answers to its calls would not: no credentials, no conditions, no other session.
package own

import (
	"slices"

	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Refusals is the answer to GET /v1/refusals.
type Refusals struct {
	Session  string            `json:"session"`
	Refusals []session.Refusal `json:"refusals"` // newest first, at most session.MaxRefusals
}

// Rules is the answer to GET /v1/rules.
type Rules struct {
	Session string `json:"session"`
	Event   string `json:"event"`
	Rules   []Rule `json:"rules"`
	More    bool   `json:"more,omitempty"` // there are more than MaxRules
}

// Kinds of rules.
const (
	Post   = "post"   // needs evidence for each call
	Egress = "egress" // posts nothing
)

// Rule is a rule as agents see it.
type Rule struct {
	Name string `json:"name"`
	match.Purpose
	Kind    string   `json:"kind"`
	Methods []string `json:"methods"`
	URL     string   `json:"url"`
	Action  string   `json:"action,omitempty"` // of a post
	// Messages that the rule names: an MCP server's tools and other methods, or a GraphQL operation's fields.
	Tools      []string `json:"tools,omitempty"`
	MCPMethods []string `json:"mcpMethods,omitempty"`
	GraphQL    string   `json:"graphql,omitempty"`
	Fields     []string `json:"fields,omitempty"`
	WebSocket  bool     `json:"websocket,omitempty"`
}

// MaxRules bounds the rules in one answer.
const MaxRules = 1000

// About adds the calls that the rule is about. tools and operations may be nil.
func (r Rule) About(m match.Match, tools *mcp.Rule, operations *graphql.Rule) Rule {
	r.URL, r.Methods = upstream.Target{Scheme: m.Scheme, Host: m.Host, Port: m.Port}.String()+m.Path, m.Methods
	if tools != nil {
		r.Tools, r.MCPMethods = tools.Tools, tools.Methods
	}
	if operations != nil {
		r.GraphQL, r.Fields = operations.Type, operations.Fields
	}
	return r
}

// Show makes the answer without a session.
func Show(rules []Rule) Rules {
	return Rules{Rules: slices.Clip(rules[:min(len(rules), MaxRules)]), More: len(rules) > MaxRules}
}
