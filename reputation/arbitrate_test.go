package reputation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/nodetest"
)

const wins, loses, nobody = accrual.ChallengerWins, accrual.TargetWins, accrual.Inconclusive

// bench is a court of three arbiters, and of three for appeals.
type bench struct {
	*court
	decide [6]func(func(*dispute.Decision)) string
}

func newBench(t *testing.T, appeals bool) *bench {
	t.Helper()
	b := new(bench)
	b.court = newCourt(t, func(o *reputation.Options) {
		var panel dispute.Panel
		for i := range b.decide {
			a := dispute.Arbiter{}
			a.Root, b.decide[i] = nodetest.NamedArbiter(t, string(rune('a'+i)), o.Now)
			panel = append(panel, a)
		}
		panel[2].Owner = strings.Repeat("o", 43)
		o.Disputes.Court = dispute.Court{First: panel[:3]}
		if appeals {
			o.Disputes.Court.Appeal = panel[3:]
		}
	})
	return b
}

// vote lets an arbiter decide.
func (b *bench) vote(t *testing.T, arbiter int, d reputation.Dispute, outcome string) (reputation.Dispute, error) {
	t.Helper()
	return b.Arbitrate(t.Context(), d.DisputeID, b.decide[arbiter](func(of *dispute.Decision) {
		of.DisputeID, of.Document, of.Outcome = d.DisputeID, documentOf(t, d), outcome
	}))
}

func (b *bench) votes(t *testing.T, d reputation.Dispute, outcome string, arbiters ...int) (got reputation.Dispute) {
	t.Helper()
	for _, a := range arbiters {
		var err error
		got, err = b.vote(t, a, d, outcome)
		must(t, err)
	}
	return got
}

// A court with a key of two names, or a name of two arbiters, is refused at the start: one could decide alone.
func TestTwins(t *testing.T) {
	newCourt(t, func(o *reputation.Options) {
		one, _ := nodetest.NamedArbiter(t, "a", o.Now)
		renamed := one
		renamed.KeyID = "b"
		for name, twin := range map[string]evidence.Root{"one name": one, "two names": renamed} {
			t.Run(name, func(t *testing.T) {
				with, disputes := *o, *o.Disputes
				disputes.Court = dispute.Court{First: dispute.Panel{{Root: one}, {Root: twin}}}
				with.Disputes = &disputes
				_, err := reputation.New(with)
				wantCode(t, err, "trust_malformed")
			})
		}
	})
}

// An operator's key that cannot be pinned is refused at the start too, and not when the clock must be set back.
func TestOperatorOfSmallOrder(t *testing.T) {
	newCourt(t, func(o *reputation.Options) {
		with, disputes := *o, *o.Disputes
		disputes.Operator = &evidence.Root{KeyID: "operator", Public: make([]byte, 32), Purpose: evidence.PurposeArbiter}
		with.Disputes = &disputes
		_, err := reputation.New(with)
		wantCode(t, err, "trust_malformed")
	})
}

// More than half of the arbiters decide: no single one does.
func TestMajority(t *testing.T) {
	b := newBench(t, false)
	b.published(t, "s-1")
	d := b.disputed(t, "con-1", "s-1")
	if got := b.votes(t, d, wins, 0); got.Status != dispute.StatusPending {
		t.Errorf("one arbiter decides alone: %+v", got)
	}
	_, err := b.vote(t, 0, d, loses)
	wantCode(t, err, "dispute_closed") // it has decided
	_, err = b.vote(t, 3, d, wins)
	wantCode(t, err, "key_unknown") // no arbiter of this node
	if got := b.votes(t, d, loses, 1); got.Status != dispute.StatusPending {
		t.Errorf("two arbiters of two minds decide: %+v", got)
	}
	got := b.votes(t, d, wins, 2)
	check.WantEqual(t, verdict{got.Status, got.Outcome, got.Resolver, ""},
		verdict{dispute.StatusResolved, wins, dispute.ResolverArbiter, ""})
	check.WantEqual(t, b.log(t), []string{"signal", "opened", "voted", "voted", "voted", "resolved"})
	e, err := dispute.ParseEntry(got.Resolved)
	must(t, err)
	check.WantEqual(t, len(e.Resolved.Decisions), 2)

	b = newBench(t, false)
	b.published(t, "s-1")
	d = b.disputed(t, "con-1", "s-1")
	b.votes(t, d, wins, 0)
	b.votes(t, d, loses, 1)
	b.votes(t, d, nobody, 2)
	b.Kit.Clock.Advance(72 * time.Hour)
	must(t, b.Settle(t.Context()))
	check.WantEqual(t, b.verdict(t, d.DisputeID),
		verdict{dispute.StatusResolved, nobody, dispute.ResolverDeadline, dispute.ReasonNoArbiter})
}

// Settle ends what a majority has decided, if a crash came between.
func TestMajorityAfterACrash(t *testing.T) {
	b := newBench(t, false)
	ctx := t.Context()
	b.published(t, "s-1")
	d := b.disputed(t, "con-1", "s-1")
	b.votes(t, d, wins, 0)
	must(t, b.Store.Turn(ctx, func(turn *store.Turn) error {
		return turn.Add(dispute.Entry{At: b.Kit.Clock.Now().Unix(), Voted: &dispute.Voted{DisputeID: d.DisputeID,
			Arbiter: "b:v1", Decision: evidence.HashBytes(nil), Outcome: wins, Reason: "It is so."}})
	}))
	must(t, b.Settle(ctx))
	check.WantEqual(t, b.verdict(t, d.DisputeID).outcome, wins)
}

func (b *bench) appeal(by, against, document string) dispute.Challenge {
	return dispute.Challenge{ChallengerID: by, TargetID: against, ChallengeType: dispute.TypeAppeal,
		TargetReceipts: []string{document}, Evidence: "They pass."}
}

// The loser can appeal once, to another panel, and until then nothing counts.
func TestAppeal(t *testing.T) {
	for name, row := range map[string]struct {
		arbiters []int // of the second panel, for the target
		outcome  string
		resolver string
	}{
		"won":               {[]int{3, 5}, loses, dispute.ResolverArbiter},
		"one of two minds":  {[]int{4}, wins, dispute.ResolverDeadline},
		"nobody decides it": {nil, wins, dispute.ResolverDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, true)
			ctx := t.Context()
			b.published(t, "s-1")
			d := b.disputed(t, "con-1", "s-1")
			_, err := b.vote(t, 3, d, wins)
			wantCode(t, err, "dispute_refused") // of the other panel
			first := b.votes(t, d, wins, 0, 1)
			b.Kit.Clock.Advance(72*time.Hour - time.Second) // the window has closed meanwhile
			must(t, b.Settle(ctx))
			if got, err := b.Dispute(ctx, d.DisputeID); err != nil || !got.Provisional || got.Outcome != wins {
				t.Errorf("%+v, %v", got, err)
			}
			if r := b.reputation(t, b.one); r.ChallengesLost != 0 || r.Disputed {
				t.Errorf("what can be appealed counts: %+v", r)
			}
			wantCode(t, b.say(t, b.appeal(b.two, b.one, documentOf(t, d))), "dispute_refused")
			appeal := b.appeal(b.one, b.two, documentOf(t, d))
			for range 2 {
				got, err := b.File(ctx, b.Says(t, appeal))
				must(t, err)
				if got.DisputeID != d.DisputeID || got.Status != dispute.StatusReviewing || got.Outcome != "" ||
					got.Resolution != "" || len(got.Appeal) == 0 {
					t.Errorf("%+v", got)
				}
			}
			_, err = b.vote(t, 2, d, wins)
			wantCode(t, err, "dispute_refused") // of the first panel
			b.votes(t, d, loses, row.arbiters...)
			b.Kit.Clock.Advance(72 * time.Hour)
			must(t, b.Settle(ctx))
			got, err := b.Dispute(ctx, d.DisputeID)
			must(t, err)
			if got.Provisional || got.Outcome != row.outcome || got.Resolver != row.resolver || got.Resolution == "" ||
				got.Resolution == first.Resolution {
				t.Errorf("%+v", got)
			}
			lost := b.reputation(t, b.one).ChallengesLost
			check.WantEqual(t, lost == 1, row.outcome == wins)
			must(t, b.say(t, appeal)) // the same
			appeal.Evidence = "They pass now."
			wantCode(t, b.say(t, appeal), "dispute_closed")
			b.log(t)
		})
	}
	t.Run("none", func(t *testing.T) {
		b := newBench(t, true)
		b.published(t, "s-1")
		d := b.disputed(t, "con-1", "s-1")
		b.votes(t, d, wins, 1, 2)
		b.Kit.Clock.Advance(72 * time.Hour)
		wantCode(t, b.say(t, b.appeal(b.one, b.two, documentOf(t, d))), "dispute_closed")
		must(t, b.Settle(t.Context()))
		if got, err := b.Dispute(t.Context(), d.DisputeID); err != nil || got.Provisional {
			t.Errorf("%+v, %v", got, err)
		}
		check.WantEqual(t, b.reputation(t, b.one).ChallengesLost, int64(1))
		check.WantEqual(t, b.log(t), []string{"signal", "opened", "voted", "voted", "resolved", "final", "final"})
	})
}
