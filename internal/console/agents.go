package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

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
	Signals  Node // of the last scored session, or why there are none
}

// maxAgents bounds the agents on the page, and the scores that it asks for.
const maxAgents = 50

func (s *Server) agents(r *http.Request) (view, error) {
	var all []agent
	var failed string
	var more bool
	sum := ask[admin.Summary](r.Context(), s.Admin, "/v1/summary")
	local := byAgent(sum.Is)
	if s.Node != "" {
		known := ask[struct {
			Agents []accrual.Reputation `json:"agents"`
		}](r.Context(), s.Node, "/v1/reputation?after=")
		failed, more = known.Err, len(known.Is.Agents) > maxAgents
		for _, one := range known.Is.Agents[:min(len(known.Is.Agents), maxAgents)] {
			a := agent{Reputation: one, Known: true, Signals: s.signals(r.Context(), one)}
			if l := local[one.Agent]; l != nil {
				a.Sessions, a.Calls, a.Refused = l.Sessions, l.Calls, l.Refused
				delete(local, one.Agent)
			}
			all = append(all, a)
		}
	}
	for _, a := range local {
		all = append(all, *a)
	}
	slices.SortStableFunc(all, func(a, b agent) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Agent, b.Agent))
	})
	return view{"/agents", "Agents", Group{
		H1(Text("Agents")),
		dim(Text("Scores say how likely it is that nobody steered a session, and prove nothing."),
			If(s.Node == "", Text(" The console knows no node: it shows only the record."))),
		If(failed != "", alert("The node does not answer: %s", failed)),
		list(all, "No agent is known yet.", Div, "agents", agent.show),
		If(more, P(Text("More agents: "), code("mediator reputation show agents")))}}, nil
}

func (a agent) show() Node {
	return Section(Class("card"), label(a.Agent),
		H2(bdi(a.Agent), If(a.Tier != "", Group{space, Span(Class("tier"), say("tier %s", a.Tier))})),
		If(a.Known, dim(code(a.AgentID))),
		Dl(pair("On record", A(to(link("/feed", "agent", a.Agent)), say("%d calls", a.Calls)),
			say(" in %d sessions, %d refused, of the newest calls", a.Sessions, a.Refused)), If(a.Known, Group{
			pair("Score", say("%.1f of 100, %s", a.CurrentScore, a.ScoreTrend), If(a.Provisional, Text(", provisional")),
				say(", from %d sessions", a.TotalSessions),
				If(a.Disputed, Text("; 0 until it has recovered from a lost dispute"))),
			pair("Disputes", say("accused %d times: %d won, %d lost, %d open; accuser: %d won, %d lost; %d points",
				a.ChallengesReceived, a.ChallengesWon, a.ChallengesLost, a.DisputesPending, a.DisputesWon,
				a.DisputesLost, a.DisputePoints)),
			pair("Signals", a.Signals)})))
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

func (s *Server) signals(ctx context.Context, a accrual.Reputation) Node {
	if len(a.ScoreHistory) == 0 {
		return Text("no session has a score yet")
	}
	last := a.ScoreHistory[len(a.ScoreHistory)-1].SessionID
	scored := ask[struct {
		Score struct {
			Signals autonomy.Signals `json:"signals"`
		} `json:"score"`
	}](ctx, s.Node, string(link("/v1/sessions/"+url.PathEscape(last)+"/score", "owner", a.Owner)))
	if scored.Err != "" {
		return text(scored.Err)
	}
	of := scored.Is.Score.Signals
	return Group{Ul(Class("signals"), signal("timing", of.Timing.Signal), signal("recursion", of.Recursion.Signal),
		signal("knowledge", of.Knowledge.Signal), signal("entropy", of.Entropy.Signal),
		signal("challenge", of.Challenge.Signal)), dim(Text("Of its last scored session."))}
}

func signal(name string, s autonomy.Signal) Node {
	most, score := 0.0, fmt.Sprintf("%.1f", s.Score)
	for _, part := range s.Parts {
		most += part.Of
	}
	return Li(Span(Text(name)), space, Meter(Min("0"), Max(fmt.Sprint(most)), Value(fmt.Sprint(s.Score)),
		Aria("label", name), Text(score)), space, B(Text(score)), say(" of %.0f ", most),
		Span(Class("how"), text(strings.ReplaceAll(s.State, "_", " "))))
}
