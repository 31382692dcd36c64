package reputation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func reputed(t *testing.T, n *nodetest.Node) accrual.Claims {
	t.Helper()
	answer, err := n.Reputation(t.Context(), n.Kit.Agent(t).String())
	must(t, err)
	o, err := evidence.Open(n.Kit.Verifier, accrual.Kind, answer.Token, evidence.Expected{
		Issuers: []string{"appraiser"}, Audiences: []string{"relying-party"}, KeyIDs: []string{"appraiser-key"},
		MaxAge: accrual.Lifetime,
	})
	must(t, err)
	var shown accrual.Claims
	must(t, json.Unmarshal(answer.Reputation, &shown))
	c := o.Claims()
	if shown.ID != c.ID || shown.Log != c.Log || c.Expires-c.IssuedAt > int64(accrual.Lifetime/time.Second) {
		t.Errorf("%s, and the token has %+v", answer.Reputation, c)
	}
	return c
}

func closed(t testing.TB, n *nodetest.Node, id string, calls int) *gatetest.Session {
	t.Helper()
	s := n.Calls(t, id, calls)
	s.Close(t)
	n.Delivered(t, int64(calls)+2, s.Receipts...)
	return s
}

func TestReputation(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	ctx := t.Context()
	fresh := reputed(t, n)
	if fresh.Tier != accrual.TierNew || fresh.Log.Entries != 0 || fresh.FirstSeen != 0 || !fresh.Provisional {
		t.Errorf("%+v", fresh)
	}
	open := n.Calls(t, "ses_1", 12)
	n.Delivered(t, 13, open.Receipts...)
	must(t, n.Enter(ctx))
	if c := reputed(t, n); c.ID != fresh.ID {
		t.Errorf("an open session counts: %+v", c)
	}
	open.Close(t)
	n.Delivered(t, 14, open.Receipts...)
	must(t, n.Enter(ctx))
	c, score := reputed(t, n), n.Scored(t, "ses_1")
	if c.Log.Entries != 1 || c.TotalSessions != 1 || c.TotalInteractions != 1 || c.FirstSeen != n.Kit.Clock.Now().Unix() ||
		c.ScoringHash != autonomy.ScoringHash {
		t.Errorf("%+v", c)
	}
	if len(c.ScoreHistory) != 1 || c.ScoreHistory[0].SessionID != "ses_1" ||
		c.CurrentScore != accrual.Round(score.Composite) || c.Coverage != accrual.Round(score.Coverage.Share) {
		t.Errorf("%+v; the score is %v, %v", c, score.Composite, score.Coverage.Share)
	}
	for range 2 {
		n.Sampled(t) // a baseline that comes later changes nothing that was entered
	}
	if again := reputed(t, n); again.ID != c.ID {
		t.Errorf("it was entered again: %+v", again)
	}
	n.Kit.Clock.Advance(5 * time.Minute) // half of its time
	if again := reputed(t, n); again.ID == c.ID || again.Log != c.Log {
		t.Errorf("%+v, want another token of the same log as %+v", again, c)
	}
	entries, err := n.Store.Entries(ctx, n.Kit.Agent(t).String(), 1)
	must(t, err)
	e, err := accrual.ParseEntry([]byte(entries[0].Text))
	must(t, err)
	if len(entries) != 1 || e.Session.EventID != first(t, open).EventID || e.Session.Interactions != 12 ||
		len(e.Session.Hosts) != 1 || e.Session.Hosts[0] != nodetest.Host {
		t.Errorf("%+v, %+v", entries, e.Session)
	}
}

func TestReputationOfVerified(t *testing.T) {
	var passed *accrual.Verified
	var failed error
	k := gatetest.New(t)
	n := nodetest.New(t, k, nil, func(o *reputation.Options) {
		o.Verified = func(_ context.Context, agent accrual.Agent) (*accrual.Verified, error) {
			if agent != k.Agent(t) {
				t.Errorf("asked for %v", agent)
			}
			return passed, failed
		}
	})
	before := reputed(t, n)
	if before.Verification != nil {
		t.Errorf("%+v", before.Verification)
	}
	passed = k.Verified()
	passed.Expires = passed.At + 60
	after := reputed(t, n)
	if after.ID == before.ID || after.Verification == nil || *after.Verification != *passed {
		t.Errorf("%+v", after)
	}
	same := *passed
	passed = &same
	if again := reputed(t, n); again.ID != after.ID {
		t.Error("the same was signed again")
	}
	k.Clock.Advance(time.Minute)
	if over := reputed(t, n); over.ID == after.ID || over.Verification != nil {
		t.Errorf("%+v", over)
	}
	failed = errors.New("away")
	if answer, err := n.Reputation(t.Context(), k.Agent(t).String()); !errors.Is(err, failed) {
		t.Errorf("without the store: %s, %v", answer.Reputation, err)
	}
}

func first(t *testing.T, s *gatetest.Session) interaction.Receipt {
	t.Helper()
	c, err := evidence.UnverifiedClaims(interaction.Kind, s.Receipts[0])
	must(t, err)
	return c
}

func TestReputationsThatAreRefused(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	for id, code := range map[string]string{"": "query_malformed", "agent:a": "query_malformed",
		n.Kit.Owner(t) + ":": "query_malformed", n.Kit.Owner(t) + ":\x00": "query_malformed",
		n.Kit.Owner(t) + ":\xff": "query_malformed", fmt.Sprintf("%043d:agent:a", 0): "owner_unknown"} {
		_, err := n.Reputation(t.Context(), id)
		wantCode(t, err, code)
	}
	closed(t, n, "ses_1", 3)
	must(t, n.Enter(t.Context()))
	entries, err := n.Store.Entries(t.Context(), n.Kit.Agent(t).String(), 1)
	must(t, err)
	for name, edit := range map[string]func(*store.Entry){
		"another head":   func(e *store.Entry) { e.Number, e.Head = 2, evidence.HashBytes(nil) },
		"a gap":          func(e *store.Entry) { e.Number = 3 },
		"the same again": func(e *store.Entry) { e.Number = 2 },
		"no entry":       func(e *store.Entry) { e.Number, e.Text = 2, "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "reputation.db"), "")
			must(t, err)
			t.Cleanup(func() { s.Close() })
			of := nodetest.New(t, n.Kit, s)
			for i := range 2 {
				session := of.Calls(t, fmt.Sprint("ses_", i), 1)
				session.Close(t)
				of.Delivered(t, 3, session.Receipts...)
			}
			due, err := s.Unentered(t.Context(), n.Kit.Owner(t), 2)
			must(t, err)
			must(t, s.Enter(t.Context(), due[0], nil, &entries[0]))
			bad := entries[0]
			edit(&bad)
			must(t, s.Enter(t.Context(), due[1], nil, &bad))
			if got, err := of.Reputation(t.Context(), n.Kit.Agent(t).String()); err == nil {
				t.Errorf("%s", got.Reputation)
			}
		})
	}
}

func TestEnterWithoutTheOwner(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	for i := range 3 {
		closed(t, n, fmt.Sprint("ses_", i), 2)
	}
	must(t, n.Believe(reputation.Believed{Hosts: []string{nodetest.Host}}))
	must(t, n.Enter(t.Context()))
	_, err := n.Reputation(t.Context(), n.Kit.Agent(t).String())
	wantCode(t, err, "owner_unknown")
	n = nodetest.New(t, n.Kit, n.Store)
	if c := reputed(t, n); c.Log.Entries != 0 {
		t.Errorf("%+v", c)
	}
	must(t, n.Enter(t.Context()))
	want := reputed(t, n)
	if want.Log.Entries != 3 || want.TotalSessions != 3 {
		t.Errorf("%+v", want)
	}
	n = nodetest.New(t, n.Kit, n.Store)
	must(t, n.Enter(t.Context()))
	if c := reputed(t, n); c.Log != want.Log {
		t.Errorf("%+v after a restart, want %+v", c, want)
	}
}

func TestEnterReplicas(t *testing.T) {
	k := gatetest.New(t)
	replicas := together(t, k, func(o *reputation.Options) { o.Log = zap.NewNop() })
	const sessions = 40
	var all sync.WaitGroup
	for i := range sessions {
		s := replicas[0].Calls(t, fmt.Sprint("ses_", i), 2)
		s.Close(t)
		replicas[i%2].Delivered(t, 4, s.Receipts...)
		if i%10 != 9 {
			continue
		}
		for _, n := range replicas {
			all.Go(func() {
				if err := n.Enter(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	must(t, replicas[0].Enter(t.Context())) // what both have left to each other
	one, two := reputed(t, replicas[0]), reputed(t, replicas[1])
	if one.Log.Entries != sessions || one.Log != two.Log {
		t.Errorf("%+v and %+v", one.Log, two.Log)
	}
	seen := make(map[string]bool)
	entries, err := replicas[0].Store.Entries(t.Context(), k.Agent(t).String(), 1)
	must(t, err)
	for _, text := range entries {
		e, err := accrual.ParseEntry([]byte(text.Text))
		must(t, err)
		if seen[e.Session.ID] {
			t.Errorf("%s is entered twice", e.Session.ID)
		}
		seen[e.Session.ID] = true
	}
}
