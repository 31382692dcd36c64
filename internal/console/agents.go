package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// agent is an agent at the node, or on record.
type agent struct {
	accrual.Reputation
	Known    bool // at the node
	Sessions int  // of the newest calls on record
	Calls    int
	Refused  int
	Signals  []signal // of the last scored session
	Unscored string   // why there are none
}

// signal is one of the five signals of a session's score.
type signal struct {
	Name string
	autonomy.Signal
}

// Of returns the greatest score that the signal can have.
func (s signal) Of() (most float64) {
	for _, part := range s.Parts {
		most += part.Of
	}
	return most
}

// maxAgents bounds the agents on the page, and the scores that it asks for.
const maxAgents = 50

type agentsPage struct {
	Agents []agent
	Err    string // of the node
	More   bool
	Node   bool
}

func (s *Server) agents(r *http.Request) (view, error) {
	p := agentsPage{Node: s.Node != ""}
	sum := ask[admin.Summary](r.Context(), s.Admin, "/v1/summary")
	local := byAgent(sum.Is)
	if p.Node {
		known := ask[struct {
			Agents []accrual.Reputation `json:"agents"`
		}](r.Context(), s.Node, "/v1/reputation?after=")
		p.Err, p.More = known.Err, len(known.Is.Agents) > maxAgents
		for _, one := range known.Is.Agents[:min(len(known.Is.Agents), maxAgents)] {
			a := agent{Reputation: one, Known: true}
			if l := local[one.Agent]; l != nil {
				a.Sessions, a.Calls, a.Refused = l.Sessions, l.Calls, l.Refused
				delete(local, one.Agent)
			}
			s.addSignals(r.Context(), &a)
			p.Agents = append(p.Agents, a)
		}
	}
	for _, a := range local {
		p.Agents = append(p.Agents, *a)
	}
	slices.SortStableFunc(p.Agents, func(a, b agent) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Agent, b.Agent))
	})
	return view{"agents", "Agents", p}, nil
}

func byAgent(sum admin.Summary) map[string]*agent {
	all := make(map[string]*agent)
	for _, s := range sum.Sessions {
		if s.Agent == "" {
			continue
		}
		a := all[s.Agent]
		if a == nil {
			a = &agent{Reputation: accrual.Reputation{Agent: s.Agent}}
			all[s.Agent] = a
		}
		a.Sessions++
		a.Calls += s.Calls
		a.Refused += s.States[ledger.StateRefused]
	}
	return all
}

func (s *Server) addSignals(ctx context.Context, a *agent) {
	if len(a.ScoreHistory) == 0 {
		a.Unscored = "no session has a score yet"
		return
	}
	last := a.ScoreHistory[len(a.ScoreHistory)-1].SessionID
	scored := ask[struct {
		Score struct {
			Signals autonomy.Signals `json:"signals"`
		} `json:"score"`
	}](ctx, s.Node, link("/v1/sessions/"+url.PathEscape(last)+"/score", "owner", a.Owner))
	if a.Unscored = scored.Err; scored.Err != "" {
		return
	}
	of := scored.Is.Score.Signals
	a.Signals = []signal{{"timing", of.Timing.Signal}, {"recursion", of.Recursion.Signal},
		{"knowledge", of.Knowledge.Signal}, {"entropy", of.Entropy.Signal}, {"challenge", of.Challenge.Signal}}
}
