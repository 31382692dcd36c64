package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/probes"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { pgtest.Main(m) }

func each(t *testing.T, test func(t *testing.T, one, two *store.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		s := opened(t)(store.Open(t.Context(), filepath.Join(t.TempDir(), "reputation.db"), ""))
		test(t, s, s)
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := pgtest.Database(t)
		test(t, opened(t)(store.Open(t.Context(), "", dsn)), opened(t)(store.Open(t.Context(), "", dsn)))
	})
}

func opened(t *testing.T) func(*store.Store, error) *store.Store {
	return func(s *store.Store, err error) *store.Store {
		t.Helper()
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	}
}

var must = check.Must

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
}

func addition(session string, from, to int64) store.Addition {
	a := store.Addition{Owner: "o", Session: session, Agent: "agent:a", At: start, MaxSessions: 100, MaxReceipts: 1000}
	for n := from; n <= to; n++ {
		a.Receipts = append(a.Receipts, store.Receipt{
			Number: n, Hash: fmt.Sprintf("hash of %s %d", session, n), Request: fmt.Sprintf("post_%d", n),
			Token: fmt.Sprintf("token of %s %d", session, n),
		})
	}
	return a
}

func TestClock(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		if one == two {
			if one.Clock() != nil {
				t.Error("a file has a clock")
			}
			return
		}
		first, err := one.Clock()(t.Context())
		must(t, err)
		second, err := two.Clock()(t.Context())
		must(t, err)
		if second.Before(first) || first.IsZero() {
			t.Errorf("%s, then %s", first, second)
		}
	})
}

func TestReceipts(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		_, err := one.Session(ctx, "o", "s")
		wantErr(t, err, store.ErrNotFound)
		must(t, one.Append(ctx, addition("s", 1, 250)))
		wantErr(t, two.Append(ctx, addition("s", 1, 1)), store.ErrMoved)
		wantErr(t, two.Append(ctx, addition("s", 250, 251)), store.ErrMoved)
		wantErr(t, two.Append(ctx, addition("s", 252, 252)), store.ErrMoved)
		again := addition("s", 251, 252)
		again.Receipts[1].Request = "post_7"
		wantErr(t, two.Append(ctx, again), store.ErrDuplicate)
		last := addition("s", 251, 251)
		last.Closing = true
		must(t, two.Append(ctx, last))

		state, err := one.Session(ctx, "o", "s")
		must(t, err)
		if state.Next != 252 || !state.Closed || state.Forked || state.Agent != "agent:a" || !state.Updated.Equal(start) {
			t.Errorf("%+v", state)
		}
		got, err := two.Receipts(ctx, "o", "s", 200, store.MaxReceipts)
		must(t, err)
		if len(got) != 52 || got[0].Number != 200 || got[51].Token != "token of s 251" {
			t.Errorf("%d receipts", len(got))
		}
		r, err := two.Receipt(ctx, "hash of s 7")
		must(t, err)
		if r.Session != "s" || r.Number != 7 || r.Owner != "o" {
			t.Errorf("%+v", r)
		}
		held, err := two.Held(ctx, []string{"hash of s 9", "other", "hash of s 251"})
		must(t, err)
		if len(held) != 2 || held[0].Number != 251 || held[1].Number != 9 || held[1].Token != "token of s 9" ||
			!held[0].Updated.Equal(start) {
			t.Errorf("%+v", held)
		}
		if none, err := two.Held(ctx, nil); err != nil || len(none) != 0 {
			t.Errorf("%+v, %v", none, err)
		}
		_, err = two.Receipt(ctx, "other")
		wantErr(t, err, store.ErrNotFound)
		must(t, one.Append(ctx, func() store.Addition {
			a := addition("s", 1, 1)
			a.Owner, a.Receipts[0].Hash = "p", "hash of p"
			return a
		}()))
		of, err := one.Sessions(ctx, "", "s", 10)
		must(t, err)
		if len(of) != 2 || of[0].Owner != "o" || of[1].Owner != "p" {
			t.Errorf("%+v", of)
		}
	})
}

func TestFork(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		_, err := one.Forked(ctx, "o", "s")
		wantErr(t, err, store.ErrNotFound)
		wantErr(t, one.Fork(ctx, store.Receipt{Owner: "o", Session: "s", Number: 1, Token: "other"}, start),
			store.ErrNotFound)
		must(t, one.Append(ctx, addition("s", 1, 2)))
		must(t, one.Fork(ctx, store.Receipt{Owner: "o", Session: "s", Number: 1, Token: "other"}, start))
		must(t, two.Fork(ctx, store.Receipt{Owner: "o", Session: "s", Number: 2, Token: "second"}, start))
		r, err := two.Forked(ctx, "o", "s")
		must(t, err)
		if r.Token != "other" || r.Number != 1 {
			t.Errorf("%+v", r)
		}
		wantErr(t, two.Append(ctx, addition("s", 3, 3)), store.ErrMoved)
	})
}

func TestBounds(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		bounded := func(session string, from, to int64) store.Addition {
			a := addition(session, from, to)
			a.MaxSessions, a.MaxReceipts = 2, 5
			return a
		}
		must(t, one.Append(ctx, bounded("a", 1, 2)))
		must(t, two.Append(ctx, bounded("b", 1, 2)))
		wantErr(t, one.Append(ctx, bounded("c", 1, 1)), store.ErrFull)
		wantErr(t, two.Append(ctx, bounded("b", 3, 4)), store.ErrFull)
		must(t, one.Append(ctx, bounded("b", 3, 3)))
		if _, err := one.Session(ctx, "o", "c"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a session that was refused is there: %v", err)
		}
		must(t, one.Prune(ctx, store.Old{Sessions: start.Add(time.Second), Tokens: start, Samples: 100}))
		must(t, two.Append(ctx, bounded("c", 1, 5)))
	})
}

func TestAtOnce(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		for from := int64(1); from < 40; from += 10 {
			check.WantEqual(t, check.Together(t, 8, func(i int) error {
				return []*store.Store{one, two}[i%2].Append(ctx, addition("s", from, from+9))
			}, store.ErrMoved), 1)
		}
		got, err := one.Receipts(ctx, "o", "s", 1, store.MaxReceipts)
		must(t, err)
		if len(got) != 40 {
			t.Errorf("%d receipts", len(got))
		}
	})
}

func TestChallenges(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		ms := start.UnixMilli()
		c := store.Challenge{
			Challenge: autonomy.Challenge{Nonce: "n1", Issued: ms, Probes: [][2]string{{"p1", "p2"}}},
			Owner:     "o", Session: "s", Agent: "agent:a", Number: 1, Expires: ms + 1000,
			Asked: []probes.Probe{{ID: "p2", Prompt: "?"}, {ID: "p1", Prompt: "??"}},
		}
		must(t, one.Issue(ctx, c, 100))
		other := c
		other.Nonce, other.Asked = "n2", nil
		wantErr(t, two.Issue(ctx, other, 100), store.ErrMoved)
		other.Number = 2
		must(t, two.Issue(ctx, other, 100))
		c.Commitment, c.Committed = "h", ms+1
		must(t, one.Change(ctx, c))
		wantErr(t, two.Change(ctx, c), store.ErrMoved)
		wantErr(t, two.Change(ctx, store.Challenge{}), store.ErrMoved)
		c.Version, c.Revealed, c.Salt = 1, ms+2, "salt"
		c.Strategy = &strategy.Strategy{Model: "m", Tools: []string{}, Hosts: []string{}}
		must(t, two.Change(ctx, c))
		wantErr(t, one.Change(ctx, c), store.ErrMoved)
		c.Version = 2

		all, err := one.Challenges(ctx, "o", "s")
		must(t, err)
		check.WantEqual(t, all, []store.Challenge{c, other})
		got, err := two.Challenge(ctx, "n2")
		must(t, err)
		check.WantEqual(t, got, other)
		_, err = two.Challenge(ctx, "none")
		wantErr(t, err, store.ErrNotFound)
		for _, row := range []struct {
			c    store.Challenge
			open bool
		}{
			{store.Challenge{Expires: ms + 1}, true}, {store.Challenge{Expires: ms}, false},
			{store.Challenge{Challenge: autonomy.Challenge{Commitment: "h"}}, true},
			{store.Challenge{Challenge: autonomy.Challenge{Commitment: "h"}, Revealed: ms}, false},
		} {
			if row.c.Open(start) != row.open {
				t.Errorf("%+v", row)
			}
		}
	})
}

func TestUse(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		check.WantEqual(t, check.Together(t, 8, func(i int) error {
			return []*store.Store{one, two}[i%2].Use(ctx, "jti", start)
		}, store.ErrUsed), 1)
		must(t, one.Prune(ctx, store.Old{Sessions: start, Tokens: start, Samples: 100}))
		wantErr(t, two.Use(ctx, "jti", start), store.ErrUsed)
		must(t, one.Prune(ctx, store.Old{Sessions: start, Tokens: start.Add(time.Second), Samples: 100}))
		must(t, two.Use(ctx, "jti", start))
	})
}

func sampleOf(name string) *autonomy.Sample {
	return &autonomy.Sample{Models: []autonomy.ModelSample{{Host: name}}}
}

func TestBaselines(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		for i, session := range []string{"a", "b", "c", "open"} {
			a := addition(session, 1, 1)
			a.Closing, a.At = session != "open", start.Add(time.Duration(i)*time.Second)
			must(t, one.Append(ctx, a))
		}
		left, err := two.Unentered(ctx, "o", 10)
		must(t, err)
		for _, s := range left {
			sample := sampleOf(s.Session)
			if s.Session == "b" {
				sample = nil // it gives none
			}
			must(t, one.Enter(ctx, s, sample, nil))
			wantErr(t, two.Enter(ctx, s, sampleOf("another"), nil), store.ErrMoved)
		}
		late := addition("a", 2, 2)
		late.Closing, late.At = true, start.Add(time.Hour)
		must(t, one.Append(ctx, late))
		again, err := two.Unentered(ctx, "o", 10)
		must(t, err)
		must(t, two.Enter(ctx, again[0], sampleOf("another"), nil))
		samples, err := two.Samples(ctx, "o", 100)
		must(t, err)
		check.WantEqual(t, samples, []autonomy.Sample{*sampleOf("c"), *sampleOf("a")})
		grown, err := one.Grown(ctx)
		must(t, err)
		if !slices.Equal(grown, []store.Grown{{Owner: "o", Samples: 2}}) {
			t.Errorf("%+v", grown)
		}
		_, err = one.LastBaseline(ctx, "o")
		wantErr(t, err, store.ErrNotFound)
		first := store.Baseline{Hash: "h1", Owner: "o", Number: 1, Made: start, Samples: 2, Document: "{}"}
		must(t, one.AddBaseline(ctx, first))
		wantErr(t, two.AddBaseline(ctx, store.Baseline{Hash: "h2", Owner: "o", Number: 1, Made: start}), store.ErrMoved)
		must(t, two.AddBaseline(ctx, store.Baseline{Hash: "h2", Owner: "o", Number: 2, Made: start}))
		if last, err := one.LastBaseline(ctx, "o"); err != nil || last.Hash != "h2" {
			t.Errorf("%+v, %v", last, err)
		}
		if b, err := two.Baseline(ctx, "h1"); err != nil || b != first {
			t.Errorf("%+v, %v", b, err)
		}
		_, err = two.Baseline(ctx, "h3")
		wantErr(t, err, store.ErrNotFound)
	})
}

func TestOldSamples(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		for i := range 8 {
			a := addition(fmt.Sprint("s", i), 1, 1)
			a.Closing, a.At = true, start.Add(time.Duration(i)*time.Second)
			must(t, one.Append(ctx, a))
			closed, err := two.Session(ctx, "o", a.Session)
			must(t, errors.Join(err, two.Enter(ctx, closed, sampleOf(a.Session), nil)))
		}
		for range 2 {
			must(t, two.Prune(ctx, store.Old{Sessions: start, Tokens: start, Samples: 5}))
			samples, err := one.Samples(ctx, "o", 100)
			must(t, err)
			if len(samples) != 5 || samples[4].Models[0].Host != "s3" {
				t.Errorf("%+v", samples)
			}
		}
		if newest, err := one.Samples(ctx, "o", 1); err != nil || len(newest) != 1 || newest[0].Models[0].Host != "s7" {
			t.Errorf("%+v, %v", newest, err)
		}
		if grown, err := one.Grown(ctx); err != nil || grown[0].Samples != 8 {
			t.Errorf("%+v, %v", grown, err)
		}
	})
}

func challenge(nonce, session string, issued time.Time) store.Challenge {
	return store.Challenge{Challenge: autonomy.Challenge{Nonce: nonce, Issued: issued.UnixMilli()}, Owner: "o",
		Session: session, Number: 1}
}

func TestPrune(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		for i := range 40 {
			a := addition(fmt.Sprintf("s%02d", i), 1, 3)
			a.At = start.Add(time.Duration(i) * time.Second)
			must(t, one.Append(ctx, a))
			must(t, one.Issue(ctx, challenge("n"+a.Session, a.Session, start), 100))
		}
		must(t, one.Issue(ctx, challenge("lone", "lone", start), 100))
		must(t, one.Issue(ctx, challenge("new", "new", start.Add(time.Hour)), 100))
		must(t, one.Fork(ctx, store.Receipt{Owner: "o", Session: "s00", Number: 1, Token: "other"}, start))
		must(t, two.Prune(ctx, store.Old{Sessions: start.Add(35 * time.Second), Tokens: start, Samples: 100}))
		for i := range 40 {
			session := fmt.Sprintf("s%02d", i)
			_, err := one.Session(ctx, "o", session)
			receipts, err2 := one.Receipts(ctx, "o", session, 1, 10)
			challenges, err3 := one.Challenges(ctx, "o", session)
			must(t, errors.Join(err2, err3))
			if kept := err == nil; kept != (i >= 35) || kept != (len(receipts) == 3) || kept != (len(challenges) == 1) {
				t.Errorf("%s: %v, %d receipts, %d challenges", session, err, len(receipts), len(challenges))
			}
		}
		_, err := one.Forked(ctx, "o", "s00")
		wantErr(t, err, store.ErrNotFound)
		_, err = one.Challenge(ctx, "lone")
		wantErr(t, err, store.ErrNotFound)
		_, err = one.Challenge(ctx, "new")
		must(t, err)
		// Six challenges are left, and count.
		more := challenge("more", "more", start)
		wantErr(t, two.Issue(ctx, more, 6), store.ErrFull)
		_, err = one.Challenge(ctx, "more")
		wantErr(t, err, store.ErrNotFound)
		must(t, two.Issue(ctx, more, 7))
	})
}

func TestEntries(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		unentered := func(want ...string) []store.Session {
			t.Helper()
			due, err := two.Unentered(ctx, "o", 10)
			must(t, err)
			var got []string
			for _, s := range due {
				got = append(got, s.Session)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
			return due
		}
		must(t, one.Append(ctx, addition("open", 1, 2)))
		for i, id := range []string{"a", "b", "c", "forked"} {
			closed := addition(id, 1, 2)
			closed.Closing, closed.At = true, start.Add(time.Duration(i)*time.Second)
			must(t, one.Append(ctx, closed))
		}
		must(t, one.Fork(ctx, store.Receipt{Owner: "o", Session: "forked", Number: 1, Token: "other"}, start))
		if due, err := one.Unentered(ctx, "another", 10); err != nil || len(due) != 0 {
			t.Errorf("%+v, %v", due, err)
		}
		due := unentered("a", "b", "c")

		// Both replicas enter all three at once. Each session and each number of the log is taken once.
		check.WantEqual(t, check.Together(t, 4, func(i int) error {
			s, of := []*store.Store{one, two}[i/2], due[i%2]
			return s.Enter(ctx, of, nil, &store.Entry{Agent: "o:a", Number: int64(i%2) + 1, Head: "h", Text: of.Session})
		}, store.ErrMoved), 2)
		due = unentered("c")
		wantErr(t, two.Enter(ctx, due[0], nil, &store.Entry{Agent: "o:a", Number: 2, Head: "h", Text: "c"}), store.ErrMoved)
		due = unentered("c") // neither happened
		stale := due[0]
		stale.Next--
		wantErr(t, two.Enter(ctx, stale, nil, nil), store.ErrMoved)
		must(t, two.Enter(ctx, due[0], nil, nil))
		unentered()

		// What comes late makes the session due again.
		late := addition("c", 3, 3)
		late.Closing = true
		must(t, one.Append(ctx, late))
		must(t, one.Enter(ctx, unentered("c")[0], nil, &store.Entry{Agent: "p:a", Number: 1, Head: "h", Text: "c"}))
		unentered()

		// A session of which another replica learns that it has two chains, after it was read as due, has no place in a log
		// any more.
		caught := addition("caught", 1, 2)
		caught.Closing = true
		must(t, one.Append(ctx, caught))
		due = unentered("caught")
		must(t, one.Fork(ctx, store.Receipt{Owner: "o", Session: "caught", Number: 1, Token: "other"}, start))
		wantErr(t, two.Enter(ctx, due[0], nil, &store.Entry{Agent: "o:a", Number: 3, Head: "h", Text: "caught"}), store.ErrMoved)
		unentered()

		entries, err := two.Entries(ctx, "o:a", 1)
		must(t, err)
		if len(entries) != 2 || entries[0].Text != "a" ||
			entries[1] != (store.Entry{Agent: "o:a", Number: 2, Head: "h", Text: "b"}) {
			t.Errorf("%+v", entries)
		}
		if entries, err = two.Entries(ctx, "o:a", 3); err != nil || len(entries) != 0 {
			t.Errorf("%+v, %v", entries, err)
		}
		for after, want := range map[string][]string{"": {"o:a", "p:a"}, "o:a": {"p:a"}, "p:a": nil} {
			if got, err := one.Agents(ctx, after, 10); err != nil || !slices.Equal(got, want) {
				t.Errorf("after %q: %q, %v", after, got, err)
			}
		}
		must(t, one.Prune(ctx, store.Old{Sessions: start.Add(time.Hour), Tokens: start, Samples: 10}))
		if entries, err = one.Entries(ctx, "o:a", 1); err != nil || len(entries) != 2 {
			t.Errorf("the log was pruned: %+v, %v", entries, err)
		}
	})
}

func TestClosed(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "reputation.db"), "")
	must(t, err)
	must(t, s.Close())
	_, lookErr := s.Session(context.Background(), "o", "s")
	for _, err := range []error{s.Append(context.Background(), addition("s", 1, 1)), lookErr} {
		var unavailable *ledger.Error
		if !errors.As(err, &unavailable) {
			t.Errorf("%v", err)
		}
	}
}

// TestOpenExisting: a reader of a wrong path or database makes no empty store there, and changes none in a database.
func TestOpenExisting(t *testing.T) {
	path, dsn := filepath.Join(t.TempDir(), "reputation.db"), pgtest.Database(t)
	for range 2 { // the first makes none
		for _, at := range [][2]string{{path, ""}, {"", dsn}} {
			if s, err := store.OpenExisting(t.Context(), at[0], at[1]); err == nil {
				t.Errorf("there is a store in %v", at)
				must(t, s.Close())
			}
		}
	}
	for _, at := range [][2]string{{path, ""}, {"", dsn}} {
		made, err := store.Open(t.Context(), at[0], at[1])
		must(t, err)
		must(t, made.Close())
		opened(t)(store.OpenExisting(t.Context(), at[0], at[1]))
	}
	s := opened(t)(store.OpenExisting(t.Context(), "", dsn))
	if err := s.Turn(t.Context(), func(turn *store.Turn) error {
		add(t, turn, 1)
		return nil
	}); err == nil {
		t.Error("it was changed")
	}
}
