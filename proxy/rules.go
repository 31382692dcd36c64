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

// Content kinds: how an action's body is normalised before it is hashed.
const (
	ContentJSON = "json" // RFC 8785 canonical JSON
	ContentRaw  = "raw"  // the bytes as they are
)

// Action is a rule for posts. Each is forwarded only with the whole chain of evidence.
type Action struct {
	Name  string
	Match match.Match
	// Subject and Action go into the binding. The resource is the call's own method, path and query.
	Subject, Action string
	Content         string // ContentJSON or ContentRaw
	// MaxBody bounds the body, in bytes.
	MaxBody int64
	// AllowQuery admits a query, which becomes part of the resource.
	AllowQuery bool
	// Headers lists, in canonical form, the agent's headers that go out besides the usual ones; others are refused. Nil
	// admits all. No evidence covers headers.
	Headers []string
	// Credential replaces the agent's own; nil injects none.
	Credential *forward.Credential
	// MCP names tools of an MCP server, GraphQL names mutations; nil for an action about neither.
	MCP     *mcp.Rule
	GraphQL *graphql.Rule
	// Gate issues the challenge and verifies the chain.
	Gate Gate
	// TakesPart marks the gate as the API's own: the forwarded call carries the capability and the request proof.
	TakesPart bool
	// AgentSolves leaves the challenge to the agent; otherwise the runtime solves it.
	AgentSolves bool
}

// Egress is a rule for calls that are not posts: reads, and writes that the rule names. They need a session and leave a
// record, but no evidence.
type Egress struct {
	Name       string
	Match      match.Match
	Credential *forward.Credential
	// WebSocket also admits WebSocket handshakes. Their traffic is not inspected.
	WebSocket bool
	// MCP names messages to an MCP server, GraphQL names queries; nil for a rule about neither.
	MCP     *mcp.Rule
	GraphQL *graphql.Rule
	// Observe says how calls to a model are read; nil reads none.
	Observe *inference.Rule
	// Generate offers the rule's models at the mediator's own name; nil offers none.
	Generate *generate.Rule
}

// rule is the result of a match: exactly one of the two.
type rule struct {
	action *Action
	egress *Egress
}

// kind returns the kind of messages that the rule looks at, or nil.
func (r rule) kind() *kind {
	for _, k := range kinds {
		if k.is(r) {
			return k
		}
	}
	return nil
}

func (r rule) graphQL() *graphql.Rule {
	if r.action != nil {
		return r.action.GraphQL
	}
	return r.egress.GraphQL
}

func (r rule) mcp() *mcp.Rule {
	if r.action != nil {
		return r.action.MCP
	}
	return r.egress.MCP
}

// endpoint is the destination of a call: one rule, or rules of one kind from which the message chooses.
type endpoint struct {
	kind  *kind // nil for a rule about origin, method and path alone
	rules []rule
}

// of returns the part of each rule that say selects.
func of[T any](rules []rule, say func(rule) *T) []*T {
	all := make([]*T, len(rules))
	for i, r := range rules {
		all[i] = say(r)
	}
	return all
}

func (e *endpoint) webSocket() bool {
	return e.kind == nil && e.rules[0].egress != nil && e.rules[0].egress.WebSocket
}

// Rules finds the rules for a call. It never changes.
type Rules struct {
	matches   *match.Rules
	endpoints map[*match.Endpoint]*endpoint
	models    generate.Models
	shown     own.Rules // as agents see them
}

// NewRules refuses rules that contradict each other or leave a way around an action.
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
			if r, ok := rules[m]; ok { // guards of readsByGraphQL have none
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

// Find returns the endpoint of a call to target, or why there is none. escapedPath is the path as sent.
func (r *Rules) Find(target upstream.Target, method, escapedPath string) (*endpoint, error) {
	found, err := r.matches.Find(target, method, escapedPath)
	return r.endpoints[found], err
}

// Knows reports whether any rule could match a call to this origin, so that a CONNECT makes sense.
func (r *Rules) Knows(scheme, host string, port uint16) bool {
	return r.matches.Knows(scheme, host, port)
}
