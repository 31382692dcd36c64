package proxy

import (
	"context"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/session"
)

func (p *Pipeline) ownRefusals(route intercept.Route) (any, error) {
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return nil, err
	}
	return own.Refusals{Session: s.ID, Refusals: s.Refusals()}, nil
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

// ownRules says what the agent may call. Its event's budget is the trigger service's to say: what it does not say is left out.
func (p *Pipeline) ownRules(ctx context.Context, route intercept.Route) (any, error) {
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return nil, err
	}
	if err := p.load.session(s); err != nil { // because it asks the trigger service
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	rules := p.o.Rules.shown.Of(s)
	if budget, err := p.o.Triggers.Budget(ctx, s.Event.ID); err == nil {
		rules = rules.Paid(budget)
	}
	return rules, nil
}

// show returns the rules as agents see them.
func show(actions []Action, egress []Egress) own.Rules {
	all := make([]own.Rule, 0, len(actions)+len(egress))
	for _, a := range actions {
		all = append(all, own.Rule{Name: a.Name, Kind: own.Post, Action: a.Action}.About(a.Match, a.MCP, a.GraphQL))
	}
	for _, e := range egress {
		all = append(all, own.Rule{Name: e.Name, Kind: own.Egress, WebSocket: e.WebSocket}.About(e.Match, e.MCP, e.GraphQL))
	}
	return own.Show(all)
}
