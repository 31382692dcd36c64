// Package own holds what an agent may ask about its own session: what it may call, and what its event pays for yet. It says nothing that the
// answers to its calls would not tell it: no credentials, no conditions, and nothing of another session.
package own

import (
	"slices"

	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/trigger"
)

// Refusals is the answer to GET /v1/refusals.
type Refusals struct {
	Session  string            `json:"session"`
	Refusals []session.Refusal `json:"refusals"` // the newest first, session.MaxRefusals at most
}

// Rules is the answer to GET /v1/rules.
type Rules struct {
	Session string `json:"session"`
	Event   string `json:"event"`
	// Posts is how many posts of each action the event pays for; nil where the trigger service does not say.
	Posts *int   `json:"posts"`
	Rules []Rule `json:"rules"`
	More  bool   `json:"more,omitempty"` // there are more rules than are shown
}

// Kinds of rules.
const (
	Post   = "post"   // each call needs its evidence
	Egress = "egress" // a call that posts nothing
)

// Rule is a rule as agents see it.
type Rule struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Methods []string `json:"methods"`
	URL     string   `json:"url"`
	// Action is a post's, and Left how many posts of it the event pays for yet; nil where the trigger service does not say. Rules of one
	// action share them.
	Action string `json:"action,omitempty"`
	Left   *int   `json:"left,omitempty"`
	// What the call's message may be, where the rule is about messages: tools and other methods of an MCP server, fields of a GraphQL operation.
	Tools      []string `json:"tools,omitempty"`
	MCPMethods []string `json:"mcpMethods,omitempty"`
	GraphQL    string   `json:"graphql,omitempty"`
	Fields     []string `json:"fields,omitempty"`
	WebSocket  bool     `json:"websocket,omitempty"`
}

// MaxRules bounds the rules of one answer.
const MaxRules = 1000

// About returns r with what its calls are. tools and operations are nil for a rule that is not about such messages.
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

// Show returns rules as the answer begins, before anything is known of a session.
func Show(rules []Rule) Rules {
	return Rules{Rules: slices.Clip(rules[:min(len(rules), MaxRules)]), More: len(rules) > MaxRules}
}

// Of returns the rules for a session.
func (r Rules) Of(s *session.Session) Rules {
	r.Session, r.Event = s.ID, s.Event.ID
	return r
}

// Paid returns the rules with what the event pays for yet.
func (r Rules) Paid(b trigger.Budget) Rules {
	r.Posts, r.Rules = &b.Posts, slices.Clone(r.Rules)
	for i, rule := range r.Rules {
		if rule.Kind == Post {
			left := max(0, b.Posts-b.Spent[rule.Action])
			r.Rules[i].Left = &left
		}
	}
	return r
}
