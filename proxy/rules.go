package proxy

import (
	"fmt"

	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Content kinds of an action: how its body is normalised before it is hashed.
const (
	ContentJSON = "json" // RFC 8785 canonical JSON
	ContentRaw  = "raw"  // the bytes as they are
)

// Action is a rule for calls that post: each is forwarded only with the whole chain of evidence.
type Action struct {
	Name  string
	Match match.Match
	// Subject and Action go into the binding. The resource is the method, the path and the query of the call itself.
	Subject, Action string
	Content         string // ContentJSON or ContentRaw
	// MaxBody bounds the body, in bytes.
	MaxBody int64
	// AllowQuery admits a query; it then is part of the resource.
	AllowQuery bool
	// Headers are the agent's headers that go out besides the usual ones, in canonical form: a call with another is
	// refused. Nil takes all; no evidence covers any of them.
	Headers []string
	// Credential is injected in place of whatever the agent sent; nil injects none.
	Credential *forward.Credential
	// MCP names tools of an MCP server, and GraphQL mutations of a GraphQL endpoint; nil for an action about neither.
	MCP     *mcp.Rule
	GraphQL *graphql.Rule
	// Gate issues the challenge and verifies the chain.
	Gate Gate
	// TakesPart says that the gate is the API's own: the forwarded call carries the capability and the request proof.
	TakesPart bool
	// AgentSolves leaves the challenge to the agent; otherwise the runtime solves it.
	AgentSolves bool
}

// Egress is a rule for calls that are no posts: reads, and writes named as such. They need a session and leave a
// record, but no evidence.
type Egress struct {
	Name       string
	Match      match.Match
	Credential *forward.Credential
	// WebSocket admits handshakes of WebSockets too. What passes after one is not looked into.
	WebSocket bool
	// MCP names messages to an MCP server, and GraphQL queries to a GraphQL endpoint; nil for a rule about neither.
	MCP     *mcp.Rule
	GraphQL *graphql.Rule
	// Observe says how the calls to a model are read; nil if they are not.
	Observe *inference.Rule
	// Generate offers the rule's models to agents that ask the mediator itself; nil offers none.
	Generate *generate.Rule
}

// rule is what a match leads to: exactly one of the two.
type rule struct {
	action *Action
	egress *Egress
}

// kind returns the kind of messages that the rule is about; nil for a rule about origin, method and path alone.
func (r rule) kind() *kind {
	for _, k := range kinds {
		if k.is(r) {
			return k
		}
	}
	return nil
}

// graphQL returns which operations of a GraphQL endpoint the rule is for; nil if it is about none.
func (r rule) graphQL() *graphql.Rule {
	if r.action != nil {
		return r.action.GraphQL
	}
	return r.egress.GraphQL
}

// mcp returns which messages to an MCP server the rule is for; nil if it is about none.
func (r rule) mcp() *mcp.Rule {
	if r.action != nil {
		return r.action.MCP
	}
	return r.egress.MCP
}

// endpoint is what a call reaches: one rule, or rules of one kind of which the call's message chooses one.
type endpoint struct {
	kind  *kind // nil for one rule about origin, method and path alone
	rules []rule
}

// of returns what each of rules says of messages of one kind.
func of[T any](rules []rule, say func(rule) *T) []*T {
	all := make([]*T, len(rules))
	for i, r := range rules {
		all[i] = say(r)
	}
	return all
}

// webSocket reports whether a call may ask for a WebSocket.
func (e *endpoint) webSocket() bool {
	return e.kind == nil && e.rules[0].egress != nil && e.rules[0].egress.WebSocket
}

// Rules finds the rules for a call. It is built once and never changes.
type Rules struct {
	matches   *match.Rules
	endpoints map[*match.Endpoint]*endpoint
	models    generate.Models
	shown     own.Rules // to agents that ask
}

// NewRules builds the rules and refuses those that contradict each other or leave a way around an action.
func NewRules(actions []Action, egress []Egress) (*Rules, error) {
	var matches []*match.Rule
	rules := make(map[*match.Rule]rule)
	add := func(m match.Rule, to rule) {
		if k := to.kind(); k != nil {
			m.Kind = k.name
		}
		matches = append(matches, &m)
		rules[&m] = to
	}
	for i, a := range actions {
		add(match.Rule{Name: a.Name, Match: a.Match, Post: true}, rule{action: &actions[i]})
	}
	for i, e := range egress {
		add(match.Rule{Name: e.Name, Match: e.Match, WebSocket: e.WebSocket}, rule{egress: &egress[i]})
	}
	for _, m := range matches {
		if err := checkForNode(rules[m], m.Match); err != nil {
			return nil, fmt.Errorf("proxy: %w", &match.RuleError{Rule: m, Err: err})
		}
	}
	matches = append(matches, readsByGraphQL(matches)...)
	found, err := match.New(matches)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	r := &Rules{matches: found, endpoints: make(map[*match.Endpoint]*endpoint)}
	for _, e := range egress {
		if e.Generate == nil {
			continue
		}
		if err := r.models.Add(*e.Generate, e.Observe, e.Match); err != nil {
			of := &match.Rule{Name: e.Name, Match: e.Match}
			return nil, fmt.Errorf("proxy: %w", &match.RuleError{Rule: of, Err: fmt.Errorf("generate: %w", err)})
		}
	}
	r.shown = show(actions, egress)
	for _, e := range found.Endpoints() {
		to := &endpoint{kind: kindOf(e.Kind)}
		for _, m := range e.Rules {
			if r, ok := rules[m]; ok { // readsByGraphQL's are none
				to.rules = append(to.rules, r)
			}
		}
		if to.kind == nil {
			r.endpoints[e] = to
			continue
		}
		if i, err := to.kind.check(to.rules); err != nil {
			return nil, fmt.Errorf("proxy: %w", &match.RuleError{Rule: e.Rules[i], Err: err})
		}
		r.endpoints[e] = to
	}
	return r, nil
}

// Find returns what a call to target reaches, or why it reaches nothing. escapedPath is the path as it will be sent.
func (r *Rules) Find(target upstream.Target, method, escapedPath string) (*endpoint, error) {
	found, err := r.matches.Find(target, method, escapedPath)
	return r.endpoints[found], err
}

// Knows reports whether any rule could match a call to target: whether a CONNECT to it makes sense.
func (r *Rules) Knows(scheme, host string, port uint16) bool {
	return r.matches.Knows(scheme, host, port)
}
