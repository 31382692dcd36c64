package dispute_test

import (
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

func (n *node) publishAs(s dispute.Signal, edit func(*dispute.Publication)) {
	n.t.Helper()
	p := dispute.Publication{Signal: s, By: n.by}
	edit(&p)
	e, err := n.book.Publish(n.rules, p, n.now)
	check.Must(n.t, err)
	n.enter(*e)
}

func (n *node) resting(agent, id string) dispute.Signal {
	s := signalOf(agent, id, n.now.Unix())
	s.RestsOn = &dispute.RestsOn{Receipts: []string{hashOf(id), hashOf(id, 2)}}
	return s
}

func TestNotesOfSignals(t *testing.T) {
	_, distant := keyOf("distant")
	n := newNode(t)
	n.publishAs(n.resting(alice, "observed"), func(p *dispute.Publication) { p.Observed, p.Sources = true, true })
	n.publishAs(n.resting(alice, "without-a-model"), func(p *dispute.Publication) { p.Observed = true })
	n.publishAs(n.resting(alice, "declared"), func(*dispute.Publication) {})
	n.publishAs(n.resting(alice, "unverified"), func(p *dispute.Publication) { p.By = dispute.By{} })
	n.publishAs(n.resting(distant, "elsewhere"), func(*dispute.Publication) {})
	if len(n.accounts) > 0 {
		t.Errorf("before the windows have closed there is %+v", n.accounts)
	}
	n.sleep(24 * time.Hour).finalise()
	found := func(id string, edit func(*accrual.Signal)) accrual.Entry {
		s := accrual.Signal{ID: id, Trace: true, Sources: true, Context: true, Verification: true, Timestamp: true,
			Schema: true}
		edit(&s)
		return accrual.Entry{At: n.now.Unix(), Signal: &s}
	}
	nothing := func(s *accrual.Signal) { s.Trace, s.Sources = false, false }
	want := []accrual.Entry{
		found("declared", nothing),
		found("observed", func(*accrual.Signal) {}),
		found("unverified", func(s *accrual.Signal) { nothing(s); s.Verification = false }),
		found("without-a-model", func(s *accrual.Signal) { s.Sources = false }),
	}
	got := n.accounts[alice]
	slices.SortFunc(got, func(a, b accrual.Entry) int {
		return slices.Compare([]string{a.Signal.ID}, []string{b.Signal.ID})
	})
	check.WantEqual(t, canonical(t, got), canonical(t, want))
	check.WantEqual(t, canonical(t, n.accounts[distant]),
		canonical(t, []accrual.Entry{found("elsewhere", func(s *accrual.Signal) {
			nothing(s)
			s.Context = false
		})}))
}

func TestNotesOfCitations(t *testing.T) {
	_, distant := keyOf("distant")
	n := newNode(t)
	publish := func(agent, id string, cites ...string) {
		n.publishAs(n.resting(agent, id), func(p *dispute.Publication) { p.Cites = cites })
	}
	publish(bob, "first", alice, carol)
	publish(bob, "second", alice)
	publish(agentOf("b", "agent:ben"), "third", alice)
	publish(anna, "of-one-owner", alice)
	publish(distant, "of-nobody", alice)
	publish(carol, "of-another", alice)
	n.sleep(24 * time.Hour).finalise()
	publish(bob, "later", alice)
	n.sleep(24 * time.Hour).finalise()
	cited := func(agent string) (by []string) {
		for _, e := range n.accounts[agent] {
			if e.Cited != nil {
				by = append(by, e.Cited.By+" "+e.Cited.SignalID)
			}
		}
		slices.Sort(by)
		return by
	}
	check.WantEqual(t, cited(alice), []string{bob + " first", carol + " of-another"})
	check.WantEqual(t, cited(carol), []string{bob + " first"})
}

func TestNotesOfDisputes(t *testing.T) {
	n := newNode(t).publish(alice, "s1").sleep(time.Minute)
	contract := contractOf(bob, "c1", "s1", n.now.Unix())
	contract.Contract.ChallengeType, contract.Contract.TargetReceipts = dispute.TypeTiming,
		[]string{hashOf("z"), hashOf("a")}
	about := n.open(contract)
	again := contract
	other := *contract.Contract
	other.ChallengeID, again.Contract = "c2", &other
	if _, err := n.file(again); check.CodeOf(err) != "dispute_closed" {
		t.Errorf("the same again: %v", err)
	}
	n.end(about, accrual.ChallengerWins)
	receipts := []string{hashOf("y"), hashOf("x")}
	malicious := n.open(challengeOf(bob, carol, dispute.TypeConsistency, receipts...))
	n.enter(n.book.End(malicious, dispute.Finding{Outcome: accrual.TargetWins, Reason: "forged", Malicious: true}, n.now))
	early := n.now.Unix()
	n.sleep(24 * time.Hour).finalise()
	late := n.now.Unix()
	smallest := min(receipts[0], receipts[1])
	check.WantEqual(t, canonical(t, n.accounts[bob]), canonical(t, []accrual.Entry{
		{At: early, Violation: &accrual.Violation{Rule: dispute.RuleIdentical}},
		{At: early, Raised: &accrual.Raised{ID: malicious, Outcome: accrual.TargetWins, Other: carol, About: smallest}},
		{At: early, Violation: &accrual.Violation{Rule: dispute.RuleMalicious}},
		{At: late, Raised: &accrual.Raised{ID: about, Outcome: accrual.ChallengerWins, Bonus: true, Other: alice,
			About: "s1"}},
	}))
	check.WantEqual(t, canonical(t, n.accounts[carol]), canonical(t, []accrual.Entry{
		{At: early, Dispute: &accrual.Dispute{ID: malicious}},
		{At: early, Dispute: &accrual.Dispute{ID: malicious, Outcome: accrual.TargetWins, Bonus: true, Other: bob,
			About: smallest}},
	}))
	check.WantEqual(t, canonical(t, n.accounts[alice][len(n.accounts[alice])-1]), canonical(t, accrual.Entry{
		At: late, Dispute: &accrual.Dispute{ID: about, Outcome: accrual.ChallengerWins, Other: bob, About: "s1"},
	}))
}
