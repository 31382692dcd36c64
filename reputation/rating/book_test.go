package rating_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/rating"
	"github.com/actionproof/mediator/test/check"
)

// node is a log of disputes in the making. Every agent was registered long ago.
type node struct {
	t    *testing.T
	book *dispute.Book
	now  time.Time
	n    int
}

func newNode(t *testing.T) *node {
	return &node{t: t, book: dispute.NewBook(), now: time.Unix(midnight, 0)}
}

func (n *node) add(e dispute.Entry) {
	n.t.Helper()
	_, err := n.book.Add(e)
	check.Must(n.t, err)
}

var by = dispute.By{Registered: time.Unix(1, 0), Tier: accrual.TierVerified}

// receipt is the hash of a receipt of an agent's.
func receipt(of accrual.Agent) string { return evidence.HashBytes([]byte(of.String())) }

// publish publishes a signal that rests on one receipt, which the node holds if it was observed.
func (n *node) publish(agent accrual.Agent, observed bool) string {
	n.t.Helper()
	n.n++
	id := fmt.Sprint("signal-", n.n)
	e, err := n.book.Publish(dispute.DefaultRules, dispute.Publication{By: by, Observed: observed, Signal: dispute.Signal{
		SignalID: id, AgentID: agent.String(), Statement: "so it is", Horizon: dispute.HorizonShort, Timestamp: n.now.Unix(), RestsOn: &dispute.RestsOn{Receipts: []string{receipt(agent)}},
	}}, n.now)
	check.Must(n.t, err)
	n.add(*e)
	return id
}

// contest files a dispute, whether it is taken or is a violation, and returns its id.
func (n *node) contest(f dispute.Filing, target accrual.Agent) string {
	n.t.Helper()
	id, e, err := n.book.File(dispute.DefaultRules, dispute.Filed{Filing: f, By: by, Receipts: []dispute.Known{{Hash: receipt(target), Agent: target.String(), Session: "ses_1", At: midnight}}}, n.now)
	if e == nil {
		n.t.Fatalf("nothing is entered: %v", err)
	}
	n.add(*e)
	return id
}

// contract disputes a signal.
func (n *node) contract(challenger accrual.Agent, signal string) dispute.Filing {
	n.n++
	return dispute.Filing{Contract: &dispute.Contract{
		ChallengeID: fmt.Sprint("contract-", n.n), OriginalSignalID: signal, ChallengerAgentID: challenger.String(), CounterClaim: "so it is not", ReasoningTrace: "because",
		Timestamp: n.now.Unix(), ChallengeType: dispute.TypeTiming,
	}}
}

// end ends a dispute.
func (n *node) end(id string, f dispute.Finding) {
	n.t.Helper()
	e, err := n.book.End(id, f, n.now)
	check.Must(n.t, err)
	n.add(e)
}

// pass lets time pass, and finalises signals.
func (n *node) pass(d time.Duration) {
	n.t.Helper()
	n.now = n.now.Add(d)
	for _, id := range n.book.Closing(n.now) {
		e, err := n.book.Finalise(id, n.now)
		check.Must(n.t, err)
		n.add(e)
	}
}

// TestRecorded: each thing that the log of disputes says of an agent is a fact about it, from when on it counts, and nothing that it says of others.
func TestRecorded(t *testing.T) {
	n, other, third := newNode(t), of("1"), of("2")
	want := func(name string, agent accrual.Agent, facts ...rating.Fact) {
		t.Helper()
		got, err := rating.Recorded(n.book, agent)
		check.Must(t, err)
		if show(got) != show(facts) {
			t.Errorf("%s: %s\nwant %s", name, show(got), show(facts))
		}
	}
	declared := whole
	declared.Trace, declared.Sources = false, false
	distant := declared
	distant.Context = false
	won := dispute.Finding{Outcome: accrual.ChallengerWins, Reason: dispute.ReasonOverlap}
	kept := dispute.Finding{Outcome: accrual.TargetWins, Reason: dispute.ReasonNothingFound}

	want("nothing", agent)
	first, second := n.publish(agent, true), n.publish(agent, false)
	n.publish(elsewhere, false)
	closes := midnight + day
	signals := []rating.Fact{{At: closes, Signal: &whole}, {At: closes, Signal: &declared}}
	want("its signals, by what they rest on", agent, signals...)
	want("the signal of an agent elsewhere", elsewhere, rating.Fact{At: closes, Signal: &distant})
	want("nothing of another's", other)

	n.pass(time.Hour)
	lost, stood := n.contest(n.contract(other, first), agent), n.contest(n.contract(other, second), agent)
	n.end(lost, won)
	n.end(stood, kept)
	want("what has ended counts once the window of the signal has closed", agent, signals...)
	want("and not for the other one either", other)
	n.pass(24 * time.Hour)
	ended := n.now.Unix()
	want("then it counts", agent, append(signals,
		rating.Fact{At: ended, Dispute: &rating.Dispute{ID: lost, About: first, Other: other, Outcome: accrual.ChallengerWins}},
		rating.Fact{At: ended, Dispute: &rating.Dispute{ID: stood, About: second, Other: other, Outcome: accrual.TargetWins}})...)
	raised := []rating.Fact{
		{At: ended, Dispute: &rating.Dispute{ID: lost, About: first, Challenger: true, Other: agent, Outcome: accrual.ChallengerWins}},
		{At: ended, Dispute: &rating.Dispute{ID: stood, About: second, Challenger: true, Other: agent, Outcome: accrual.TargetWins}},
	}
	want("for both", other, raised...)
	want("and for nobody else", third)

	n.contest(n.contract(other, first), agent) // too late
	want("a violation", other, append(raised, rating.Fact{At: ended, Violation: dispute.RuleWindow})...)

	challenge := dispute.Filing{Challenge: &dispute.Challenge{
		ChallengerID: third.String(), TargetID: other.String(), TargetReceipts: []string{receipt(other)}, ChallengeType: dispute.TypeConsistency, Timestamp: n.now.Unix(),
	}}
	id := n.contest(challenge, other)
	malicious := kept
	malicious.Malicious = true
	n.end(id, malicious)
	want("a dispute about receipts counts at once, and one on forged evidence is a violation", third,
		rating.Fact{At: ended, Dispute: &rating.Dispute{ID: id, About: receipt(other), Challenger: true, Other: other, Outcome: accrual.TargetWins}},
		rating.Fact{At: ended, Violation: dispute.RuleMalicious})
}

// show writes facts with what their pointers lead to.
func show(facts []rating.Fact) (text string) {
	for _, f := range facts {
		text += fmt.Sprintf("\n%d %+v %+v %q", f.At, f.Signal, f.Dispute, f.Violation)
	}
	return text
}
