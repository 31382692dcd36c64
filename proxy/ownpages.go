package proxy

import (
	"context"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

// What an agent may ask about its own session: why it was refused, and what it may call. It learns nothing there that the answers to its
// calls would not tell it: of rules neither credentials nor conditions, of refusals what package problem lets it read, and nothing of
// another session.

// refusalsDocument is the answer to GET /v1/refusals.
type refusalsDocument struct {
	Session  string            `json:"session"`
	Refusals []session.Refusal `json:"refusals"` // the newest first, session.MaxRefusals at most
}

func (p *Pipeline) ownRefusals(route intercept.Route) (any, error) {
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return nil, err
	}
	return refusalsDocument{Session: s.ID, Refusals: s.Refusals()}, nil
}

// remember keeps why a call of a known session failed, for its agent to ask. Many clients show nothing of a refused CONNECT, and none can be
// told anything when its TLS handshake has failed.
func (c *call) remember() {
	if c.session == nil || c.told.Code == "" || c.record.Flow == flowInternal {
		return
	}
	c.session.Remember(session.Refusal{
		Time: c.record.Finished, Post: c.record.ID, Method: clip(c.record.Method, maxRefusedMethod), Host: c.record.Host, Path: clip(c.record.Path, maxRememberedPath),
		Code: c.told.Code, Detail: clip(c.told.Detail, maxRememberedDetail), Remedy: c.told.Remedy, State: string(c.record.State),
	})
}

// maxRememberedPath and maxRememberedDetail bound what a session remembers of a refusal, in bytes.
const maxRememberedPath, maxRememberedDetail = 256, 512

// tell notes what the agent may read of a refusal.
func (c *call) tell(err error) { c.told = problem.ForAgent(err, c.record.ID) }

// rulesDocument is the answer to GET /v1/rules.
type rulesDocument struct {
	Session string `json:"session"`
	Event   string `json:"event"`
	// Posts is how many posts of each action the event pays for; nil where the trigger service does not say.
	Posts *int           `json:"posts"`
	Rules []ruleDocument `json:"rules"`
	More  bool           `json:"more,omitempty"` // there are more rules than are shown
}

// ruleDocument is a rule as agents see it.
type ruleDocument struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // post or egress
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

// maxRulesShown bounds the rules of one answer.
const maxRulesShown = 1000

// ownRules says what the agent may call. Its event's budget is the trigger service's to say: what it does not say is left out.
func (p *Pipeline) ownRules(ctx context.Context, route intercept.Route) (any, error) {
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return nil, err
	}
	if err := p.load.session(s); err != nil { // because it asks the trigger service
		return nil, err
	}
	d := rulesDocument{Session: s.ID, Event: s.Event.ID, Rules: p.o.Rules.shown, More: p.o.Rules.more}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	budget, err := p.o.Triggers.Budget(ctx, s.Event.ID)
	if err != nil {
		return d, nil
	}
	d.Posts = &budget.Posts
	d.Rules = append([]ruleDocument(nil), d.Rules...)
	for i, r := range d.Rules {
		if r.Kind == flowPost {
			left := max(0, budget.Posts-budget.Spent[r.Action])
			d.Rules[i].Left = &left
		}
	}
	return d, nil
}

// show returns the rules as agents see them, and whether there are more.
func show(actions []Action, egress []Egress) (shown []ruleDocument, more bool) {
	shown = []ruleDocument{}
	for _, a := range actions {
		d := ruleDocument{Name: a.Name, Kind: flowPost, Action: a.Action}
		shown = append(shown, d.about(rule{action: &a}, upstream.Target{Scheme: a.Match.Scheme, Host: a.Match.Host, Port: a.Match.Port}, a.Match.Path, a.Match.Methods))
	}
	for _, e := range egress {
		d := ruleDocument{Name: e.Name, Kind: flowEgress, WebSocket: e.WebSocket}
		shown = append(shown, d.about(rule{egress: &e}, upstream.Target{Scheme: e.Match.Scheme, Host: e.Match.Host, Port: e.Match.Port}, e.Match.Path, e.Match.Methods))
	}
	return shown[:min(len(shown), maxRulesShown)], len(shown) > maxRulesShown
}

// about returns d with what the rule is about.
func (d ruleDocument) about(r rule, t upstream.Target, path string, methods []string) ruleDocument {
	d.URL, d.Methods = t.String()+path, methods
	if m := r.mcp(); m != nil {
		d.Tools, d.MCPMethods = m.Tools, m.Methods
	}
	if g := r.graphQL(); g != nil {
		d.GraphQL, d.Fields = g.Type, g.Fields
	}
	return d
}
