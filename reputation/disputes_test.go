package reputation_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

// court is a node with an arbiter, and two agents of its owner.
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
	c.Node, c.decide = nodetest.New(t, k, nil, append([]func(*reputation.Options){func(o *reputation.Options) { o.Disputes.Arbiter = &root }}, edits...)...), decide
	c.one, c.two = c.Agent(t, "agent:one").String(), c.Agent(t, "agent:two").String()
	return c
}

// published publishes a signal of the first agent.
func (c *court) published(t *testing.T, id string) reputation.Signal {
	t.Helper()
	s, err := c.Publish(t.Context(), c.Says(t, c.SignalOf(c.one, id)))
	must(t, err)
	return s
}

// disputed has the second agent dispute a signal.
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

// log returns what happened, in its order, and verifies that the log is one.
func (c *court) log(t *testing.T) (happened []string) {
	t.Helper()
	book := dispute.NewBook()
	for {
		entries, err := c.DisputeLog(t.Context(), book.Log().Entries)
		must(t, err)
		if len(entries) == 0 {
			return happened
		}
		for _, one := range entries {
			e, err := dispute.ParseEntry(one.Entry)
			must(t, err)
			_, err = book.Add(e)
			must(t, err)
			if book.Log() != (accrual.Log{Entries: one.Number, Head: one.Head}) {
				t.Fatalf("entry %d is not in its place", one.Number)
			}
			var members map[string]json.RawMessage
			must(t, json.Unmarshal(one.Entry, &members))
			delete(members, "at")
			for name := range members {
				happened = append(happened, name)
			}
		}
	}
}

// TestGeneralDispute goes the whole way of a general dispute: published, disputed, decided by the arbiter, and counted once the window has closed.
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
		if got.Status != dispute.StatusResolved || got.Outcome != accrual.ChallengerWins || got.Resolver != dispute.ResolverArbiter || !got.Provisional {
			t.Errorf("%+v", got)
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
	o, err := evidence.Open(c.Kit.Verifier, dispute.ResolutionKind, got.Resolution, evidence.Expected{
		Issuers: []string{"appraiser"}, Audiences: []string{"relying-party"}, KeyIDs: []string{"appraiser-key"}, MaxAge: dispute.ResolutionKind.MaxLifetime,
	})
	if err == nil && (o.Claims().DisputeID != d.DisputeID || o.Claims().Log.Entries != 3 || o.Claims().Decision != evidence.HashToken(token)) {
		t.Errorf("%+v", o.Claims())
	}
	check.WantEqual(t, c.log(t), []string{"signal", "opened", "resolved", "final"})
}

func documentOf(t *testing.T, d reputation.Dispute) string {
	t.Helper()
	e, err := dispute.ParseEntry(d.Opened)
	must(t, err)
	return e.Opened.Document
}

// TestStatements: a document counts only with the word of its author: the sidecar's statement, or the signature of an agent elsewhere.
func TestStatements(t *testing.T) {
	c := newCourt(t)
	stranger, other := nodetest.NewStranger(t), nodetest.NewStranger(t)
	mine := func(id string) dispute.Signal { return c.SignalOf(c.one, id) }
	with := func(d dispute.Document, edit func(*reputation.Spoken)) reputation.Spoken {
		s := c.Says(t, d)
		edit(&s)
		return s
	}
	for name, row := range map[string]struct {
		from reputation.Spoken
		code string
	}{
		"a sidecar's agent":  {c.Says(t, mine("s-1")), ""},
		"an agent elsewhere": {stranger.Says(t, c.SignalOf(stranger.ID, "s-2")), ""},
		"no statement":       {with(mine("s-3"), func(s *reputation.Spoken) { s.Statement = "" }), "statement_missing"},
		"no caller":          {with(mine("s-3"), func(s *reputation.Spoken) { s.By = nil }), "caller_missing"},
		"neither":            {with(mine("s-3"), func(s *reputation.Spoken) { s.By, s.Statement = nil, "" }), "statement_signature"},
		"another caller":     {with(mine("s-3"), func(s *reputation.Spoken) { s.By.Agent = "agent:two" }), "statement_author"},
		"another session":    {with(mine("s-3"), func(s *reputation.Spoken) { s.By.Session = "ses_2" }), "statement_author"},
		"another document":   {with(mine("s-3"), func(s *reputation.Spoken) { s.Statement = c.Statement(t, mine("s-4"), nil) }), "statement_document"},
		"another kind": {with(mine("s-3"), func(s *reputation.Spoken) {
			s.Statement = c.Statement(t, mine("s-3"), func(of *interaction.Statement) { of.Kind = interaction.StatesContract })
		}), "statement_document"},
		"another's statement": {with(mine("s-3"), func(s *reputation.Spoken) {
			s.Statement = c.Statement(t, mine("s-3"), func(of *interaction.Statement) { of.Agent = "agent:two" })
		}), "statement_author"},
		"a wrong signature": {with(mine("s-3"), func(s *reputation.Spoken) {
			s.Statement = nodetest.Resigned(s.Statement, c.Statement(t, mine("s-4"), nil))
		}), "signature_invalid"},
		"signed twice":             {c.Says(t, func() dispute.Signal { s := mine("s-3"); s.Signature = "mine"; return s }()), "statement_malformed"},
		"a stranger for another":   {other.Says(t, c.SignalOf(stranger.ID, "s-3")), "statement_signature"},
		"a stranger for an agent":  {stranger.Says(t, mine("s-3")), "statement_signature"},
		"an old document":          {c.Says(t, func() dispute.Signal { s := mine("s-3"); s.Timestamp -= 301; return s }()), "statement_time"},
		"the id of another signal": {c.Says(t, func() dispute.Signal { s := mine("s-0"); s.Statement = "Another."; return s }()), "statement_exists"},
		"no JSON":                  {reputation.Spoken{Document: []byte("{")}, "statement_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			if row.code == "statement_exists" {
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
