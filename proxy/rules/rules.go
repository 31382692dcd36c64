// Package rules finds the rule of a call: step 2 of the pipeline. At some URLs the call's message chooses among several
// rules; package proxy reads the message.
package rules

import (
	"fmt"
	"net/http"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Content kinds: how to normalise an action's body before hashing it.
const (
	ContentJSON = "json" // RFC 8785 canonical JSON
	ContentRaw  = "raw"  // the bytes as sent
)

// Action is a rule for posts. They are forwarded only with the whole chain of evidence.
type Action struct {
	Name    string
	Purpose match.Purpose
	Match   match.Match
	// Subject and Action are the binding's. Its resource is the call's own method, path and query.
	Subject, Action string
	Content         string // ContentJSON or ContentRaw
	MaxBody         int64
	// AllowQuery allows a query, as part of the resource.
	AllowQuery bool
	// Headers lists, in canonical form, the agent's headers to forward besides the usual ones; others are refused. Nil
	// forwards all. No evidence covers headers.
	Headers []string
	// Credential replaces the agent's own; nil injects none.
	Credential *credential.Credential
	// Certificate authenticates its calls by mutual TLS, those to the API's gate included; nil for none.
	Certificate *credential.Certificate
	// Sign signs what is sent; nil signs none.
	Sign *botauth.Signer
	// MCP names an MCP server's tools, GraphQL names mutations; both nil if the action ignores messages.
	MCP     *mcp.Rule
	GraphQL *graphql.Rule
	Gate    Gate
	// Via is the way that its calls must go, those to the API's gate included; empty for the upstream proxy's own
	// choice.
	Via upstream.Via
	// TakesPart marks the gate as the API's own: the forwarded call carries the capability and the request proof.
	TakesPart bool
	// AnswerKeys are the API's, with which it signs its answers; others are not relayed. Nil verifies none.
	AnswerKeys httpsig.Keys
	// AgentSolves has the agent solve the challenge instead of the runtime.
	AgentSolves bool
}

// Egress is a rule for calls that are not posts: reads, and writes that it names. They need a session and leave a
// record, but no evidence.
type Egress struct {
	Name        string
	Purpose     match.Purpose
	Match       match.Match
	Credential  *credential.Credential
	Certificate *credential.Certificate // as an Action's
	Sign        *botauth.Signer         // as an Action's
	Via         upstream.Via            // as an Action's
	// WebSocket also allows WebSocket handshakes. Their traffic is not inspected.
	WebSocket bool
	// MCP names messages to an MCP server, GraphQL names queries; both nil if the rule ignores messages.
	MCP     *mcp.Rule
	GraphQL *graphql.Rule
	// Observe sets how model calls are read; nil reads none.
	Observe *inference.Rule
	// Generate offers the rule's models at the mediator's own name; nil offers none.
	Generate *generate.Rule
}

// Rule is the rule that matched: exactly one of the two.
type Rule struct {
	Action *Action
	Egress *Egress
}

// Name returns the rule's name, or "" for the rule of a learning session.
func (r Rule) Name() string {
	if r.Action != nil {
		return r.Action.Name
	}
	return r.Egress.Name
}

// Purpose says what the rule is for.
func (r Rule) Purpose() match.Purpose {
	if r.Action != nil {
		return r.Action.Purpose
	}
	return r.Egress.Purpose
}

// Match returns the calls that the rule is about.
func (r Rule) Match() match.Match {
	if r.Action != nil {
		return r.Action.Match
	}
	return r.Egress.Match
}

// GraphQL returns the operations that the rule names, or nil.
func (r Rule) GraphQL() *graphql.Rule {
	if r.Action != nil {
		return r.Action.GraphQL
	}
	return r.Egress.GraphQL
}

// MCP returns the messages that the rule names, or nil.
func (r Rule) MCP() *mcp.Rule {
	if r.Action != nil {
		return r.Action.MCP
	}
	return r.Egress.MCP
}

// Endpoint is a call's destination: one rule, or rules of one kind among which the message chooses.
type Endpoint struct {
	Kind  Kind // empty if the message does not matter
	Rules []Rule
}

// WebSocket reports whether the endpoint allows WebSocket handshakes.
func (e *Endpoint) WebSocket() bool {
	return e.Kind == "" && e.Rules[0].Egress != nil && e.Rules[0].Egress.WebSocket
}

// Rules finds a call's rules. It never changes.
type Rules struct {
	matches   *match.Rules
	endpoints map[*match.Endpoint]*Endpoint
	models    generate.Models
	denied    *match.Denied
	shown     own.Rules // as agents see them
}

// New refuses rules that contradict each other, leave a way around an action, or are for a denied host.
func New(actions []Action, egress []Egress, denied *match.Denied) (*Rules, error) {
	var matches []*match.Rule
	rules := make(map[*match.Rule]Rule)
	add := func(m match.Rule, to Rule) {
		m.Kind = string(to.kind())
		matches = append(matches, &m)
		rules[&m] = to
	}
	for i, a := range actions {
		add(match.Rule{Name: a.Name, Match: a.Match, Post: true}, Rule{Action: &actions[i]})
	}
	for i, e := range egress {
		add(match.Rule{Name: e.Name, Match: e.Match, WebSocket: e.WebSocket}, Rule{Egress: &egress[i]})
	}
	refuse := func(m *match.Rule, err error) (*Rules, error) {
		return nil, fmt.Errorf("rules: %w", &match.RuleError{Rule: m, Err: err})
	}
	r := &Rules{endpoints: make(map[*match.Endpoint]*Endpoint), denied: denied}
	for _, m := range matches {
		t := upstream.Target{Scheme: m.Match.Scheme, Host: m.Match.Host, Port: m.Match.Port}
		if err := r.denied.CheckHost(t); err != nil {
			return refuse(m, fmt.Errorf("no call would pass: %w", err))
		}
		if err := checkForNode(rules[m], m.Match); err != nil {
			return refuse(m, err)
		}
	}
	matches = append(matches, guards(matches)...)
	found, err := match.New(matches)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r.matches = found
	for _, e := range egress {
		if e.Generate == nil {
			continue
		}
		if err := r.models.Add(*e.Generate, e.Observe, e.Match); err != nil {
			return refuse(&match.Rule{Name: e.Name, Match: e.Match}, fmt.Errorf("generate: %w", err))
		}
	}
	r.shown = show(actions, egress)
	for _, e := range found.Endpoints() {
		to := &Endpoint{Kind: Kind(e.Kind)}
		for _, m := range e.Rules {
			if r, ok := rules[m]; ok { // guards have none
				to.Rules = append(to.Rules, r)
			}
		}
		if i, err := to.check(); err != nil {
			return refuse(e.Rules[i], err)
		}
		r.endpoints[e] = to
	}
	return r, nil
}

// guards returns rules that give reads at the URLs of messages to their endpoint, which refuses those that no rule
// names. Otherwise a read rule for the whole host would let a GraphQL mutation in a URL pass, or an MCP server's stream
// unread.
func guards(rules []*match.Rule) (all []*match.Rule) {
	for _, r := range rules {
		if r.Kind == string(GraphQL) || r.Kind == string(MCP) {
			m := r.Match
			m.Methods = []string{http.MethodGet, http.MethodHead}
			all = append(all, &match.Rule{Match: m, Kind: r.Kind})
		}
	}
	return all
}

// Find returns the endpoint of a call to target, or why there is none. escapedPath is the path as sent.
func (r *Rules) Find(target upstream.Target, method, escapedPath string) (*Endpoint, error) {
	if err := r.denied.Check(target, escapedPath); err != nil {
		return nil, err
	}
	found, err := r.matches.Find(target, method, escapedPath)
	return r.endpoints[found], err
}

// CheckHost refuses a host that is denied for every path.
func (r *Rules) CheckHost(t upstream.Target) error { return r.denied.CheckHost(t) }

// Knows reports whether any rule or denial could match a call to this host and port, so that a CONNECT makes sense.
func (r *Rules) Knows(t upstream.Target) bool {
	return r.denied.Knows(t) || r.matches.Knows("https", t.Host, t.Port) || r.matches.Knows("http", t.Host, t.Port)
}

// Model returns the model that rules offer by this name.
func (r *Rules) Model(name string) (generate.Model, error) { return r.models.Find(name) }

// Shown returns the rules as agents see them.
func (r *Rules) Shown() own.Rules { return r.shown }

func show(actions []Action, egress []Egress) own.Rules {
	all := make([]own.Rule, 0, len(actions)+len(egress))
	for _, a := range actions {
		shown := own.Rule{Name: a.Name, Purpose: a.Purpose, Kind: own.Post, Action: a.Action}
		all = append(all, shown.About(a.Match, a.MCP, a.GraphQL))
	}
	for _, e := range egress {
		shown := own.Rule{Name: e.Name, Purpose: e.Purpose, Kind: own.Egress, WebSocket: e.WebSocket}
		all = append(all, shown.About(e.Match, e.MCP, e.GraphQL))
	}
	return own.Show(all)
}
