package reputation_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

type court struct {
	*nodetest.Node
	decide   func(func(*dispute.Decision)) string
	one, two string
}

func newCourt(t *testing.T, edits ...func(*reputation.Options)) *court {
	t.Helper()
	k := gatetest.New(t)
	c := new(court)
	root, decide := nodetest.Arbiter(t, k)
	c.Node, c.decide = nodetest.New(t, k, nil, append([]func(*reputation.Options){func(o *reputation.Options) {
		o.Disputes.Court.First = dispute.Panel{{Root: root}}
	}}, edits...)...), decide
	c.one, c.two = c.Agent(t, "agent:one").String(), c.Agent(t, "agent:two").String()
	return c
}

// say publishes a signal or files a dispute.
func (c *court) say(t *testing.T, d dispute.Document) error {
	t.Helper()
	if _, ok := d.(dispute.Signal); ok {
		_, err := c.Publish(t.Context(), c.Says(t, d))
		return err
	}
	_, err := c.File(t.Context(), c.Says(t, d))
	return err
}

func (c *court) published(t *testing.T, id string) reputation.Signal {
	t.Helper()
	said := c.Says(t, c.SignalOf(c.one, id))
	s, err := c.Publish(t.Context(), said)
	must(t, err)
	for _, get := range []func() (reputation.Signal, error){
		func() (reputation.Signal, error) { return c.Signal(t.Context(), id) },
		func() (reputation.Signal, error) { return c.Publish(t.Context(), said) },
	} {
		again, err := get()
		must(t, err)
		check.WantEqual(t, again, s)
	}
	return s
}

func (c *court) disputed(t *testing.T, id, signal string) reputation.Dispute {
	t.Helper()
	d, err := c.File(t.Context(), c.Says(t, c.Contract(c.two, id, signal)))
	must(t, err)
	return d
}

func (c *court) reputation(t *testing.T, agent string) accrual.Claims {
	t.Helper()
	answer, err := c.Reputation(t.Context(), agent)
	must(t, err)
	claims, err := evidence.UnverifiedClaims(accrual.Kind, answer.Token)
	must(t, err)
	return claims
}

// entries are those of the disputes' log, from which the stored state follows.
func (c *court) entries(t *testing.T) (all []dispute.Entry) {
	t.Helper()
	book := dispute.NewBook()
	steps, err := c.Store.Steps(t.Context(), 1, store.MaxEntries)
	must(t, err)
	for _, text := range steps {
		e, err := dispute.ParseEntry([]byte(text))
		must(t, err)
		_, err = book.Add(e)
		must(t, err)
		all = append(all, e)
	}
	must(t, c.Check(t.Context()))
	stored := c.Store.Look(t.Context()) // the state follows from the log
	for _, r := range book.Changed() {
		want, err := json.Marshal(r.Value)
		must(t, err)
		got, err := stored.Read(r.ID)
		must(t, err)
		check.WantEqual(t, got, []dispute.Stored{{ID: r.ID, Text: string(want)}})
		if r.Queue != "" {
			waiting, err := stored.Queued(r.Queue, r.Due, 1000)
			must(t, err)
			check.WantEqual(t, slices.Contains(waiting, r.Waiting), true)
		}
	}
	return all
}

func (c *court) log(t *testing.T) (happened []string) {
	t.Helper()
	for _, e := range c.entries(t) {
		raw, err := e.Encode()
		must(t, err)
		var members map[string]json.RawMessage
		must(t, json.Unmarshal(raw, &members))
		delete(members, "at")
		happened = slices.AppendSeq(happened, maps.Keys(members))
	}
	return happened
}

func TestGeneralDispute(t *testing.T) {
	c := newCourt(t)
	ctx := t.Context()
	s := c.published(t, "sig-1")
	if s.Status != reputation.StatusProvisional || s.Number != 1 {
		t.Errorf("%+v", s)
	}
	d := c.disputed(t, "con-1", "sig-1")
	if d.Status != dispute.StatusPending || !d.Provisional || d.Number != 2 {
		t.Errorf("%+v", d)
	}
	if r := c.reputation(t, c.one); r.DisputesPending != 1 || r.ChallengesReceived != 1 || r.Disputed {
		t.Errorf("%+v", r)
	}
	token := c.decide(func(of *dispute.Decision) { of.DisputeID, of.Document = d.DisputeID, documentOf(t, d) })
	for range 2 {
		got, err := c.Arbitrate(ctx, d.DisputeID, token)
		must(t, err)
		if got.Status != dispute.StatusResolved || got.Outcome != accrual.ChallengerWins ||
			got.Resolver != dispute.ResolverArbiter || !got.Provisional {
			t.Errorf("%+v", got)
		}
		o, err := evidence.Open(c.Kit.Verifier, dispute.ResolutionKind, got.Resolution, evidence.Expected{
			Issuers: []string{"appraiser"}, Audiences: []string{"relying-party"}, KeyIDs: []string{"appraiser-key"},
			MaxAge: time.Hour,
		})
		must(t, err)
		if r := o.Claims(); r.DisputeID != d.DisputeID || r.Log.Entries != 4 || !slices.Equal(r.Decisions, []string{evidence.HashToken(token)}) ||
			r.Target != c.one {
			t.Errorf("%+v", r)
		}
	}
	if r := c.reputation(t, c.one); r.ChallengesLost != 0 || r.DisputesPending != 1 {
		t.Errorf("a provisional outcome counts: %+v", r)
	}
	c.Kit.Clock.Advance(24*time.Hour - time.Second)
	must(t, c.Settle(ctx))
	if got, err := c.Signal(ctx, "sig-1"); err != nil || got.Status != reputation.StatusProvisional {
		t.Errorf("%+v, %v", got, err)
	}
	c.Kit.Clock.Advance(time.Second)
	must(t, c.Settle(ctx))
	must(t, c.Settle(ctx))
	if got, err := c.Signal(ctx, "sig-1"); err != nil || got.Status != reputation.StatusFinal {
		t.Errorf("%+v, %v", got, err)
	}
	got, err := c.Dispute(ctx, d.DisputeID)
	must(t, err)
	if got.Provisional {
		t.Errorf("%+v", got)
	}
	if r := c.reputation(t, c.one); r.ChallengesLost != 1 || r.DisputesPending != 0 || !r.Disputed {
		t.Errorf("%+v", r)
	}
	if r := c.reputation(t, c.two); r.DisputesWon != 1 {
		t.Errorf("%+v", r)
	}
	check.WantEqual(t, c.log(t), []string{"signal", "opened", "voted", "resolved", "final"})
}

func documentOf(t *testing.T, d reputation.Dispute) string {
	t.Helper()
	e, err := dispute.ParseEntry(d.Opened)
	must(t, err)
	return e.Opened.Document
}

func TestStatements(t *testing.T) {
	c := newCourt(t)
	stranger, other := nodetest.NewStranger(t), nodetest.NewStranger(t)
	mine := func(id string) dispute.Signal { return c.SignalOf(c.one, id) }
	with := func(edit func(*reputation.Spoken)) reputation.Spoken {
		s := c.Says(t, mine("s-3"))
		edit(&s)
		return s
	}
	stating := func(id string, edit func(*interaction.Statement)) reputation.Spoken {
		return with(func(s *reputation.Spoken) { s.Statement = c.Statement(t, mine(id), edit) })
	}
	anothers := func(of *interaction.Statement) { of.Agent = "agent:two" }
	changed := func(edit func(*dispute.Signal)) reputation.Spoken {
		s := mine("s-3")
		edit(&s)
		return c.Says(t, s)
	}
	for name, row := range map[string]struct {
		from reputation.Spoken
		code string
	}{
		"a sidecar's agent":  {c.Says(t, mine("s-1")), ""},
		"an agent elsewhere": {stranger.Says(t, c.SignalOf(stranger.ID, "s-2")), ""},
		"no statement":       {with(func(s *reputation.Spoken) { s.Statement = "" }), "statement_signature"},
		"no caller":          {with(func(s *reputation.Spoken) { s.By = nil }), "caller_invalid"},
		"neither":            {with(func(s *reputation.Spoken) { s.By, s.Statement = nil, "" }), "statement_signature"},
		"another caller":     {with(func(s *reputation.Spoken) { s.By.Agent = "agent:two" }), "statement_mismatch"},
		"another session":    {with(func(s *reputation.Spoken) { s.By.Session = "ses_2" }), "statement_mismatch"},
		"another document":   {stating("s-4", nil), "statement_mismatch"},
		"another kind": {stating("s-3", func(of *interaction.Statement) { of.Kind = interaction.StatesContract }),
			"statement_mismatch"},
		"another's statement": {stating("s-3", anothers), "statement_mismatch"},
		"another's document": {with(func(s *reputation.Spoken) {
			s.By.Agent, s.Statement = "agent:two", c.Statement(t, mine("s-3"), anothers)
		}), "statement_mismatch"},
		"a wrong signature": {with(func(s *reputation.Spoken) {
			s.Statement = nodetest.Resigned(s.Statement, c.Statement(t, mine("s-4"), nil))
		}), "signature_invalid"},
		"signed twice":            {changed(func(s *dispute.Signal) { s.Signature = "mine" }), "statement_malformed"},
		"a stranger for another":  {other.Says(t, c.SignalOf(stranger.ID, "s-3")), "statement_signature"},
		"a stranger for an agent": {stranger.Says(t, mine("s-3")), "statement_signature"},
		"an old document":         {changed(func(s *dispute.Signal) { s.Timestamp -= 301 }), "clock_skew"},
		"the id of another signal": {changed(func(s *dispute.Signal) { s.SignalID, s.Statement = "s-0", "Another." }),
			"id_taken"},
		"no JSON": {reputation.Spoken{Document: []byte("{")}, "statement_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			if row.code == "id_taken" {
				c.published(t, "s-0")
			}
			_, err := c.Publish(t.Context(), row.from)
			if row.code == "" {
				must(t, err)
				return
			}
			wantCode(t, err, row.code)
		})
	}
}

func TestBasis(t *testing.T) {
	c := newCourt(t)
	author := c.Kit.Agent(t).String()
	of := func(session string) []string {
		return []string{evidence.HashToken(closed(t, c.Node, session, 2).Receipts[0])}
	}
	forked := of("ses_b")
	wantCode(t, c.Deliver(t, c.Calls(t, "ses_b", 2).Receipts...).Err, "chain_broken")
	for name, row := range map[string]struct {
		author   string
		receipts []string
		want     dispute.Published
	}{
		"held":          {author, of("ses_a"), dispute.Published{Basis: dispute.BasisObserved, Sources: true}},
		"not held":      {author, []string{evidence.HashBytes(nil)}, dispute.Published{Basis: dispute.BasisDeclared}},
		"of another":    {c.one, of("ses_c"), dispute.Published{Basis: dispute.BasisDeclared, Cites: []string{author}}},
		"of two chains": {author, forked, dispute.Published{Basis: dispute.BasisDeclared}},
	} {
		t.Run(name, func(t *testing.T) {
			signal := c.SignalOf(row.author, strings.ReplaceAll(name, " ", "-"))
			signal.RestsOn = &dispute.RestsOn{Receipts: row.receipts}
			got, err := c.Publish(t.Context(), c.Says(t, signal))
			must(t, err)
			e, err := dispute.ParseEntry(got.Entry)
			must(t, err)
			check.WantEqual(t, dispute.Published{Basis: e.Signal.Basis, Sources: e.Signal.Sources, Cites: e.Signal.Cites},
				row.want)
		})
	}
}

func (c *court) challenge(t *testing.T, by, kind string, s *gatetest.Session, numbers ...int) dispute.Challenge {
	t.Helper()
	of := dispute.Challenge{ChallengerID: by, TargetID: c.Kit.Agent(t).String(), ChallengeType: kind}
	for _, n := range numbers {
		of.TargetReceipts = append(of.TargetReceipts, evidence.HashToken(s.Receipts[n-1]))
	}
	return of
}

func (c *court) filed(t *testing.T, d dispute.Document) string {
	t.Helper()
	got, err := c.File(t.Context(), c.Says(t, d))
	must(t, err)
	return got.DisputeID
}

func (c *court) challenged(t *testing.T, kind string, s *gatetest.Session, numbers ...int) string {
	t.Helper()
	return c.filed(t, c.challenge(t, c.two, kind, s, numbers...))
}

// verdict is how a dispute has ended, or its status alone.
type verdict struct{ status, outcome, resolver, reason string }

func (c *court) verdict(t *testing.T, id string) verdict {
	t.Helper()
	got, err := c.Dispute(t.Context(), id)
	must(t, err)
	v := verdict{got.Status, got.Outcome, got.Resolver, ""}
	if got.Resolved != nil {
		e, err := dispute.ParseEntry(got.Resolved)
		must(t, err)
		v.reason = e.Resolved.Reason
	}
	return v
}

func TestReceiptsDecide(t *testing.T) {
	over := func(t *testing.T, c *court) *gatetest.Session { return closed(t, c.Node, "ses_a", 5) }
	open := func(t *testing.T, c *court) *gatetest.Session {
		s := c.Calls(t, "ses_a", 5)
		c.Delivered(t, 6, s.Receipts...)
		return s
	}
	wait := func(d time.Duration) func(*testing.T, *court, *gatetest.Session) {
		return func(_ *testing.T, c *court, _ *gatetest.Session) { c.Kit.Clock.Advance(d) }
	}
	const timing, consistency, general = dispute.TypeTiming, dispute.TypeConsistency, dispute.TypeGeneral
	by := func(outcome, resolver, reason string) verdict {
		return verdict{dispute.StatusResolved, outcome, resolver, reason}
	}
	for name, row := range map[string]struct {
		kind   string
		before func(t *testing.T, c *court) *gatetest.Session
		after  func(t *testing.T, c *court, s *gatetest.Session)
		want   verdict
	}{
		"nothing is found": {timing, over, nil, by(accrual.TargetWins, dispute.ResolverRules, dispute.ReasonNothingFound)},
		"a forked chain": {consistency, func(t *testing.T, c *court) *gatetest.Session {
			s := over(t, c)
			wantCode(t, c.Deliver(t, c.Calls(t, "ses_a", 2).Receipts...).Err, "chain_broken")
			return s
		}, nil, by(accrual.ChallengerWins, dispute.ResolverRules, dispute.ReasonForked)},
		"an open session": {timing, open, nil, verdict{status: dispute.StatusReviewing}},
		"a session that is closed later": {timing, open, func(t *testing.T, c *court, s *gatetest.Session) {
			s.Close(t)
			c.Delivered(t, 7, s.Receipts...)
			must(t, c.Settle(t.Context())) // too soon after the last try
			check.WantEqual(t, c.verdict(t, c.entries(t)[0].Opened.DisputeID).status, dispute.StatusReviewing)
			c.Kit.Clock.Advance(time.Minute)
		}, by(accrual.TargetWins, dispute.ResolverRules, dispute.ReasonNothingFound)},
		"a session that is never closed": {timing, open, wait(72 * time.Hour),
			by(accrual.Inconclusive, dispute.ResolverDeadline, dispute.ReasonSessionOpen)},
		"no arbiter in time": {general, over, wait(72 * time.Hour),
			by(accrual.Inconclusive, dispute.ResolverDeadline, dispute.ReasonNoArbiter)},
		"an arbiter that still can": {general, over, wait(72*time.Hour - time.Second),
			verdict{status: dispute.StatusPending}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			s := row.before(t, c)
			id := c.challenged(t, row.kind, s, 1, 2)
			must(t, c.Settle(t.Context()))
			if row.after != nil {
				row.after(t, c, s)
				must(t, c.Settle(t.Context()))
			}
			check.WantEqual(t, c.verdict(t, id), row.want)
			c.log(t)
		})
	}
}

func TestSlowClock(t *testing.T) {
	for name, row := range map[string]struct {
		behind  time.Duration // when the challenge is issued
		later   time.Duration // set back by so much afterwards
		outcome string
	}{
		"as far behind as the node takes it": {61 * time.Second, 0, accrual.TargetWins},
		"set back afterwards":                {61 * time.Second, 2 * time.Minute, accrual.ChallengerWins},
	} {
		t.Run(name, func(t *testing.T) {
			c, body := newCourt(t), []byte("{}")
			c.Kit.Clock.Advance(time.Hour)
			c.Kit.Clock.Advance(-row.behind)
			token := c.CallerToken(t, "ses_a", "/v1/challenge/issue", body, nil)
			c.Kit.Clock.Advance(row.behind)
			by, err := c.Caller(t.Context(), token, http.MethodPost, "/v1/challenge/issue", body)
			must(t, err)
			issued, err := c.Issue(t.Context(), by)
			must(t, err)
			back := row.behind + row.later
			c.Kit.Clock.Advance(-back)
			s := c.Kit.Session(t, "ses_a")
			s.Call(t, func(r *interaction.Receipt) {
				r.Challenge = &interaction.ChallengeRef{ChallengeNonce: issued.Nonce}
			})
			s.Close(t)
			c.Kit.Clock.Advance(back)
			c.Delivered(t, 3, s.Receipts...)
			id := c.challenged(t, dispute.TypeTiming, s, 1)
			must(t, c.Settle(t.Context()))
			check.WantEqual(t, c.verdict(t, id).outcome, row.outcome)
		})
	}
}

func TestBrought(t *testing.T) {
	c := newCourt(t)
	s := closed(t, c.Node, "ses_a", 5)
	other := c.Calls(t, "ses_a", 2)
	of := c.challenge(t, c.two, dispute.TypeConsistency, s, 1)
	of.Evidence = "It has signed another one: " + other.Receipts[1]
	id := c.filed(t, of)
	must(t, c.Settle(t.Context()))
	check.WantEqual(t, c.verdict(t, id).outcome, accrual.ChallengerWins)
	if r := c.reputation(t, c.Kit.Agent(t).String()); !r.Disputed || r.ChallengesLost != 1 {
		t.Errorf("%+v", r)
	}
	forged := nodetest.Resigned(other.Receipts[1], other.Receipts[0])
	of.TargetReceipts, of.Evidence = []string{evidence.HashToken(forged)}, forged
	wantCode(t, c.say(t, of), "dispute_receipts")
}

func TestATrialThatFails(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "reputation.db")
	open := func(k *gatetest.Kit) *nodetest.Node {
		s, err := store.Open(ctx, path, "")
		must(t, err)
		return nodetest.New(t, k, s)
	}
	c := &court{Node: open(gatetest.New(t))}
	c.one, c.two = c.Agent(t, "agent:one").String(), c.Agent(t, "agent:two").String()
	c.published(t, "sig-1")
	s := closed(t, c.Node, "ses_a", 5)
	must(t, c.Store.Issue(ctx, store.Challenge{Owner: c.Kit.Owner(t), Session: "ses_a"}, 9))
	id := c.challenged(t, dispute.TypeTiming, s, 1)
	must(t, c.Store.Close())
	changed(t, path, `UPDATE challenges SET body = 'no challenge'`)
	c.Node = open(c.Kit)
	defer c.Store.Close()
	c.Kit.Clock.Advance(72 * time.Hour)
	for range 2 {
		if err := c.Settle(ctx); err == nil {
			t.Error("the trial was held")
		}
		if got, err := c.Signal(ctx, "sig-1"); err != nil || got.Status != reputation.StatusFinal {
			t.Errorf("%+v, %v", got, err)
		}
		must(t, c.Settle(ctx)) // too soon after the last try
		check.WantEqual(t, c.verdict(t, id), verdict{status: dispute.StatusPending})
		c.Kit.Clock.Advance(time.Minute)
	}
	c.Kit.Clock.Advance(24*time.Hour - 2*time.Minute)
	must(t, c.Settle(ctx))
	check.WantEqual(t, c.verdict(t, id),
		verdict{dispute.StatusResolved, accrual.Inconclusive, dispute.ResolverDeadline, dispute.ReasonFailed})
}

func TestWaitsOfTrials(t *testing.T) {
	c := newCourt(t)
	s := c.Calls(t, "ses_a", 5)
	c.Delivered(t, 6, s.Receipts...)
	id := c.challenged(t, dispute.TypeTiming, s, 1)
	must(t, c.Settle(t.Context()))
	for _, minutes := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 360} {
		c.Kit.Clock.Advance(minutes * time.Minute)
		must(t, c.Settle(t.Context()))
	}
	s.Close(t)
	c.Delivered(t, 7, s.Receipts...)
	c.Kit.Clock.Advance(6*time.Hour - time.Minute)
	for _, status := range []string{dispute.StatusReviewing, dispute.StatusResolved} {
		must(t, c.Settle(t.Context()))
		check.WantEqual(t, c.verdict(t, id).status, status)
		c.Kit.Clock.Advance(time.Minute)
	}
}

func TestTurnsOfTrials(t *testing.T) {
	c := newCourt(t)
	s, last := closed(t, c.Node, "ses_a", 2), ""
	of := c.challenge(t, "", dispute.TypeTiming, s, 1)
	of.Timestamp = c.Kit.Clock.Now().Unix()
	for i := range 4 {
		of.ChallengerID = c.Agent(t, fmt.Sprint("agent:", i)).String()
		last = max(last, c.filed(t, of))
	}
	for id := ""; id < last; { // the other one's would be the last by its id
		stranger := nodetest.NewStranger(t)
		of.ChallengerID = stranger.ID
		hash, err := dispute.HashOf(of)
		must(t, err)
		if id = dispute.DisputeID(hash); id > last {
			_, err = c.File(t.Context(), stranger.Says(t, of))
			must(t, err)
		}
	}
	must(t, c.Settle(t.Context()))
	var resolved []string
	for _, e := range c.entries(t) {
		if e.Resolved != nil {
			resolved = append(resolved, e.Resolved.DisputeID)
		}
	}
	hash, err := dispute.HashOf(of)
	must(t, err)
	check.WantEqual(t, []int{len(resolved), slices.Index(resolved, dispute.DisputeID(hash))}, []int{5, 1})
}

func TestATrialThatTakesTooLong(t *testing.T) {
	c := newCourt(t, func(o *reputation.Options) { o.Disputes.TrialTime = 1 })
	id := c.challenged(t, dispute.TypeTiming, closed(t, c.Node, "ses_a", 5), 1)
	if err := c.Settle(t.Context()); err == nil {
		t.Error("the trial was held")
	}
	c.Kit.Clock.Advance(72 * time.Hour)
	must(t, c.Settle(t.Context()))
	check.WantEqual(t, c.verdict(t, id),
		verdict{dispute.StatusResolved, accrual.Inconclusive, dispute.ResolverDeadline, dispute.ReasonTooLong})
}

func TestWindowsBetweenTrials(t *testing.T) {
	var trial atomic.Int64 // how often the clock is yet read until a trial is under way; below that nothing happens
	var c *court
	c = newCourt(t, func(o *reputation.Options) {
		now := o.Now
		o.Now = func() time.Time {
			if trial.Add(-1) == 0 {
				c.Kit.Clock.Advance(time.Second)
			}
			return now()
		}
	})
	first, second := closed(t, c.Node, "ses_a", 5), closed(t, c.Node, "ses_b", 5)
	c.published(t, "sig-1")
	c.Kit.Clock.Advance(24*time.Hour - time.Second)
	c.challenged(t, dispute.TypeTiming, first, 1)
	c.filed(t, c.challenge(t, c.one, dispute.TypeTiming, second, 1))
	trial.Store(5) // two to find the first dispute and to note its trial, and then one for each receipt
	must(t, c.Settle(t.Context()))
	check.WantEqual(t, c.log(t), []string{"signal", "opened", "opened", "resolved", "final", "resolved"})
}

// Evidence that comes in time, but after a trial has read the session, decides once the deadline has passed.
func TestEvidenceDuringATrial(t *testing.T) {
	var trial atomic.Int64 // as in TestWindowsBetweenTrials
	var c *court
	var s *gatetest.Session
	c = newCourt(t, func(o *reputation.Options) {
		now := o.Now
		o.Now = func() time.Time {
			if trial.Add(-1) == 0 {
				c.Delivered(t, 7, s.Receipts...)
				c.Kit.Clock.Advance(time.Second)
			}
			return now()
		}
	})
	s = c.Calls(t, "ses_a", 5)
	c.Delivered(t, 6, s.Receipts...)
	s.Close(t)
	id := c.challenged(t, dispute.TypeTiming, s, 1)
	c.Kit.Clock.Advance(72*time.Hour - time.Second)
	trial.Store(7) // the trial has read the session, and opens its last receipt
	for range 2 {
		must(t, c.Settle(t.Context()))
	}
	if trial.Load() > 0 {
		t.Fatal("no trial was under way")
	}
	check.WantEqual(t, c.verdict(t, id),
		verdict{dispute.StatusResolved, accrual.TargetWins, dispute.ResolverRules, dispute.ReasonNothingFound})
}

func TestAContinuedSession(t *testing.T) {
	for outcome, edit := range map[string]func(*interaction.Receipt){
		accrual.TargetWins:     nil,
		accrual.ChallengerWins: func(r *interaction.Receipt) { r.Model.Figures.Duration = interaction.Observed(99_000) },
	} {
		t.Run(outcome, func(t *testing.T) {
			c := newCourt(t)
			s, target := c.Calls(t, "ses_a", 1), c.Kit.Agent(t).String()
			s.Call(t, func(r *interaction.Receipt) { r.Model.Figures.Duration = interaction.Observed(99_000) })
			c.Delivered(t, 3, s.Receipts...)
			c.filed(t, c.challenge(t, c.one, dispute.TypeTiming, s, 1))
			must(t, c.Settle(t.Context()))
			if r := c.reputation(t, target); r.ChallengesLost != 1 {
				t.Fatalf("%+v", r)
			}
			s.Call(t, edit)
			s.Close(t)
			c.Delivered(t, 5, s.Receipts...)
			id := c.challenged(t, dispute.TypeTiming, s, 3)
			must(t, c.Settle(t.Context()))
			check.WantEqual(t, c.verdict(t, id).outcome, outcome)
		})
	}
}

func TestBroughtOfOtherSessions(t *testing.T) {
	c := newCourt(t)
	s, target := closed(t, c.Node, "ses_a", 5), c.Kit.Agent(t).String()
	other := c.Calls(t, "ses_a", 2)
	of := c.challenge(t, c.one, dispute.TypeConsistency, s, 1)
	of.Evidence = other.Receipts[1]
	c.filed(t, of)
	must(t, c.Settle(t.Context()))
	c.Kit.Clock.Advance(time.Hour)
	later := closed(t, c.Node, "ses_b", 5)
	again := of
	again.ChallengerID = c.two
	wantCode(t, c.say(t, again), "dispute_receipts")
	again.TargetReceipts = []string{evidence.HashToken(later.Receipts[0])}
	id := c.filed(t, again)
	must(t, c.Settle(t.Context()))
	check.WantEqual(t, c.verdict(t, id).outcome, accrual.TargetWins)
	if r := c.reputation(t, target); r.ChallengesLost != 1 {
		t.Errorf("%+v", r)
	}
}

func TestViolations(t *testing.T) {
	c := newCourt(t, func(o *reputation.Options) {
		o.Disputes.Registered = nodetest.Registered(o.Now().Add(23 * 24 * time.Hour)) // for a week: one dispute
	})
	ctx := t.Context()
	for _, id := range []string{"s-1", "s-2"} {
		c.published(t, id)
	}
	first := c.Contract(c.two, "con-1", "s-1")
	d, err := c.File(ctx, c.Says(t, first))
	must(t, err)
	again, err := c.File(ctx, c.Says(t, first))
	must(t, err)
	check.WantEqual(t, again, d)
	check.WantEqual(t, c.log(t), []string{"signal", "signal", "opened"})

	identical := first
	identical.ChallengeID = "con-2"
	for range 2 {
		wantCode(t, c.say(t, identical), "dispute_closed")
	}
	wantCode(t, c.say(t, c.Contract(c.two, "con-3", "s-2")), "dispute_rate")
	unsigned := c.Says(t, c.Contract(c.two, "con-4", "s-2"))
	unsigned.Statement = nodetest.Resigned(unsigned.Statement, c.Statement(t, first, nil))
	_, err = c.File(ctx, unsigned)
	wantCode(t, err, "signature_invalid")
	c.Kit.Clock.Advance(24 * time.Hour)
	wantCode(t, c.say(t, c.Contract(c.two, "con-5", "s-2")), "dispute_closed")
	check.WantEqual(t, c.log(t), []string{"signal", "signal", "opened", "violation", "violation", "violation"})
}

func TestFilingsThatAreRefused(t *testing.T) {
	unregistered := nodetest.NewStranger(t)
	c := newCourt(t, func(o *reputation.Options) {
		all := o.Disputes.Registered
		o.Disputes.Registered = func(ctx context.Context, a accrual.Agent) (time.Time, bool, error) {
			switch a.Subject {
			case unregistered.ID, "agent:new":
				return time.Time{}, false, nil
			case "agent:young":
				return o.Now(), true, nil
			}
			return all(ctx, a)
		}
	})
	c.published(t, "s-1")
	as := func(subject string) string { return c.Agent(t, subject).String() }
	for name, row := range map[string]struct {
		from reputation.Spoken
		code string
	}{
		"an unregistered agent": {c.Says(t, c.Contract(as("agent:new"), "c-1", "s-1")), "dispute_refused"},
		"a young one":           {c.Says(t, c.Contract(as("agent:young"), "c-1", "s-1")), "dispute_refused"},
		"no receipt": {
			c.Says(t, dispute.Challenge{ChallengerID: c.two, TargetID: c.one, ChallengeType: dispute.TypeTiming,
				TargetReceipts: []string{evidence.HashBytes(nil)}}), "dispute_receipts"},
		"an unregistered stranger": {unregistered.Says(t, c.Contract(unregistered.ID, "c-1", "s-1")), "dispute_refused"},
		"one with an old document": {unregistered.Says(t, dispute.Contract{ // looked at no further
			ChallengeID: "c-1", OriginalSignalID: "s-1", ChallengerAgentID: unregistered.ID, CounterClaim: "No.",
			ReasoningTrace: "No.", Timestamp: 1,
		}), "dispute_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.File(t.Context(), row.from)
			wantCode(t, err, row.code)
		})
	}
	_, err := c.Publish(t.Context(), unregistered.Says(t, c.SignalOf(unregistered.ID, "s-9")))
	wantCode(t, err, "dispute_refused")
	check.WantEqual(t, c.log(t), []string{"signal"})
}

func TestDecisions(t *testing.T) {
	c := newCourt(t)
	c.published(t, "s-1")
	d := c.disputed(t, "con-1", "s-1")
	right := func(of *dispute.Decision) { of.DisputeID, of.Document = d.DisputeID, documentOf(t, d) }
	but := func(edit func(*dispute.Decision)) string {
		return c.decide(func(of *dispute.Decision) { right(of); edit(of) })
	}
	_, stranger := nodetest.Arbiter(t, c.Kit)
	for name, row := range map[string]struct{ token, id, code string }{
		"another key":     {stranger(right), d.DisputeID, "signature_invalid"},
		"another node":    {but(func(of *dispute.Decision) { of.Audience = "other" }), d.DisputeID, "not_allowed"},
		"another issuer":  {but(func(of *dispute.Decision) { of.Issuer = "other" }), d.DisputeID, "not_allowed"},
		"another dispute": {c.decide(right), "dsp_" + evidence.HashBytes(nil)[:32], "not_found"},
		"another document": {but(func(of *dispute.Decision) { of.Document = of.Document[:60] + "0000" }), d.DisputeID,
			"dispute_refused"},
		"no token": {"", d.DisputeID, "artifact_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Arbitrate(t.Context(), row.id, row.token)
			wantCode(t, err, row.code)
		})
	}
	_, err := c.Arbitrate(t.Context(), d.DisputeID, c.decide(right))
	must(t, err)
	_, err = c.Arbitrate(t.Context(), d.DisputeID, but(func(of *dispute.Decision) { of.Outcome = accrual.TargetWins }))
	wantCode(t, err, "dispute_closed")
	n := nodetest.New(t, c.Kit, c.Store)
	_, err = n.Arbitrate(t.Context(), d.DisputeID, c.decide(right))
	wantCode(t, err, "not_configured")
}

func TestDisputesAfterARestart(t *testing.T) {
	c := newCourt(t)
	ctx := t.Context()
	c.published(t, "s-1")
	d := c.disputed(t, "con-1", "s-1")
	c.Kit.Clock.Advance(72 * time.Hour)
	c.Node = nodetest.New(t, c.Kit, c.Store)
	must(t, c.Settle(ctx))
	got, err := c.Dispute(ctx, d.DisputeID)
	must(t, err)
	if got.Outcome != accrual.Inconclusive || got.Provisional || got.Resolver != dispute.ResolverDeadline {
		t.Errorf("%+v", got)
	}
	before := c.checkpoint(t)
	c.Node = nodetest.New(t, c.Kit, c.Store)
	if after := c.checkpoint(t); after != before || after.Size != 4 {
		t.Errorf("%+v, then %+v", before, after)
	}
	check.WantEqual(t, c.log(t), []string{"signal", "opened", "resolved", "final"})
}

func (c *court) checkpoint(t *testing.T) ledger.Checkpoint {
	t.Helper()
	log, err := c.DisputeLog()
	must(t, err)
	_, signed, err := log.TreeHead(t.Context())
	must(t, err)
	check.WantEqual(t, signed.Signed, signed.Accepted)
	return signed.Accepted
}

// counted counts the signatures of a key.
type counted struct {
	signer.Key
	signatures int
}

func (k *counted) Current(ctx context.Context) (custody.Version, error) {
	v, err := k.Key.Current(ctx)
	if err != nil {
		return v, err
	}
	return custody.NewVersion("key", 1, v.Public(), func(ctx context.Context, m []byte) ([]byte, error) {
		k.signatures++
		return v.Sign(ctx, m)
	}), nil
}

func TestCheckpointIsSignedOnce(t *testing.T) {
	key := new(counted)
	c := newCourt(t, func(o *reputation.Options) {
		key.Key = o.Disputes.Key
		o.Disputes.Key = key
	})
	for i, happens := range []func(){
		func() {},
		func() { c.published(t, "s-1") },
		func() { c.Kit.Rotate(t, evidence.PurposeAppraiser) },
	} {
		happens()
		first := c.checkpoint(t)
		check.WantEqual(t, c.checkpoint(t), first)
		check.WantEqual(t, key.signatures, i+1)
		log, err := c.DisputeLog()
		must(t, err)
		named, err := log.Key(t.Context())
		must(t, err)
		by, err := note.NewVerifier(named.String())
		must(t, err)
		_, err = note.Open([]byte(first.Note), note.VerifierList(by))
		must(t, err)
	}
}

func TestReplicaAhead(t *testing.T) {
	c, ctx := newCourt(t), t.Context()
	c.published(t, "s-1")
	d := c.disputed(t, "con-1", "s-1")
	shared := c.Kit.Clock.Now
	ahead := nodetest.New(t, c.Kit, c.Store, func(o *reputation.Options) {
		o.Now = func() time.Time { return shared().Add(100 * time.Hour) }
		o.Disputes.Now = func(context.Context) (time.Time, error) { return shared(), nil }
	})
	must(t, ahead.Settle(ctx))
	check.WantEqual(t, c.log(t), []string{"signal", "opened"})
	_, err := ahead.File(ctx, c.Says(t, c.Contract(c.Agent(t, "agent:three").String(), "con-2", "s-1")))
	must(t, err)
	c.Kit.Clock.Advance(72 * time.Hour)
	must(t, ahead.Settle(ctx))
	if got, err := c.Dispute(ctx, d.DisputeID); err != nil || got.Resolver != dispute.ResolverDeadline {
		t.Errorf("%+v, %v", got, err)
	}
	for _, e := range c.entries(t)[3:] {
		check.WantEqual(t, e.At, shared().Unix())
	}
	broken := nodetest.New(t, c.Kit, c.Store, func(o *reputation.Options) {
		o.Disputes.Now = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no clock") }
	})
	if err := broken.Settle(ctx); err == nil {
		t.Error("windows are closed by no clock")
	}
}

// changed changes a closed store.
func changed(t *testing.T, path, edit string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), edit)
	must(t, errors.Join(err, db.Close()))
}

func TestALogThatWasChanged(t *testing.T) {
	for name, edit := range map[string]string{
		"another entry": `UPDATE steps SET step = '{}' WHERE number = 2`,
		"a gap":         `DELETE FROM steps WHERE number = 2`,
		"a row of old":  `UPDATE state SET text = '' WHERE id = 'log'`,
		"the same":      `UPDATE steps SET number = number`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "reputation.db")
			s, err := store.Open(t.Context(), path, "")
			must(t, err)
			c := &court{Node: nodetest.New(t, gatetest.New(t), s)}
			c.one = c.Agent(t, "agent:one").String()
			c.published(t, "s-1")
			c.published(t, "s-2")
			must(t, s.Close())
			changed(t, path, edit)
			s, err = store.Open(t.Context(), path, "")
			must(t, err)
			t.Cleanup(func() { must(t, s.Close()) })
			err = nodetest.New(t, c.Kit, s).Check(t.Context())
			if (err == nil) != (name == "the same") {
				t.Error(err)
			}
		})
	}
}

func TestDisputesOff(t *testing.T) {
	c := newCourt(t, func(o *reputation.Options) { o.Disputes = nil })
	wantCode(t, c.say(t, c.SignalOf(c.one, "s-1")), "not_configured")
	wantCode(t, c.say(t, c.Contract(c.two, "c-1", "s-1")), "not_configured")
	_, err := c.Arbitrate(t.Context(), "dsp", "")
	wantCode(t, err, "not_configured")
	_, err = c.DisputeLog()
	wantCode(t, err, "not_configured")
	must(t, c.Settle(t.Context()))
}

func TestRating(t *testing.T) {
	c := newCourt(t)
	ctx, agent := t.Context(), c.Kit.Agent(t).String()
	must(t, c.say(t, c.SignalOf(agent, "s-1")))
	for i := range 10 {
		closed(t, c.Node, fmt.Sprint("ses_", i), 2)
	}
	must(t, c.Enter(ctx))
	if r := c.reputation(t, agent); r.Rating != nil {
		t.Errorf("rated by a provisional signal: %+v", r.Rating)
	}
	c.Kit.Clock.Advance(48 * time.Hour)
	must(t, c.Settle(ctx))
	c.Kit.Clock.Advance(24 * time.Hour)
	r := c.reputation(t, agent)
	if r.Rating == nil || r.Rating.R <= 0 || r.Rating.Tier == "" {
		t.Fatalf("%+v", r.Rating)
	}
	c.Node = nodetest.New(t, c.Kit, c.Store)
	check.WantEqual(t, c.reputation(t, agent).Rating, r.Rating)
}
