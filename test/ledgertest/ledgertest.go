// Package ledgertest tests the behaviour of every ledger.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// Now is the clock that open must give to the store.
func Now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func key(kind, id string) ledger.Key {
	return ledger.Key{Kind: kind, ID: id, Expires: Now().Add(time.Minute)}
}

func post(id string) ledger.Record {
	return ledger.Record{ID: id, Flow: "post", Session: "ses_1", Started: Now(),
		Checks: []ledger.Check{{Name: "grant", OK: true}}, Artifacts: []ledger.Artifact{artifact}}
}

var artifact = ledger.Artifact{Name: "grant", Token: "e30.e30.AA"}

// Run runs the suite. openKeeping returns a store for place, which must hold what was durable there, and which keeps
// records for that long.
func Run(t *testing.T, openKeeping func(t *testing.T, place string, retention time.Duration) ledger.Store) {
	ctx := context.Background()
	open := func(t *testing.T, place string) ledger.Store { return openKeeping(t, place, 0) }
	for name, run := range map[string]func(*testing.T, func(t *testing.T, place string) ledger.Store){
		"pruning": runPruning, "receipts": runReceipts, "key uses": runKeyUses, "lists by key": runKeyLists,
		"deliveries": runDeliveries, "lists": runLists,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T, place string) ledger.Store { return openKeeping(t, place, time.Hour) })
		})
	}
	t.Run("a key is consumed once", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Consume(ctx, key("capability", "a")))
		wantConsumed(t, s.Consume(ctx, key("capability", "a")), "a")
		if err := s.Consume(ctx, key("grant", "a")); err != nil {
			t.Errorf("the same id of another kind: %v", err)
		}
	})
	t.Run("one of many callers wins", func(t *testing.T) {
		s := open(t, t.TempDir())
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				err := s.Consume(ctx, key("own", fmt.Sprint(i)), key("shared", "x"))
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, ledger.ErrConsumed):
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d callers consumed the same key", won.Load())
		}
	})
	t.Run("all or none", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Consume(ctx, key("k", "b")))
		wantConsumed(t, s.Consume(ctx, key("k", "a"), key("k", "b"), key("k", "c")), "b")
		wantConsumed(t, s.Consume(ctx, key("k", "a"), key("k", "c"), key("k", "c")), "c") // twice in one call
		if err := s.Consume(ctx, key("k", "a"), key("k", "c")); err != nil {
			t.Errorf("a refused call consumed something: %v", err)
		}
	})
	t.Run("a replay is refused after reopening", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		check.Must(t, s.Begin(ctx, post("post_1"), key("k", "a")))
		check.Must(t, s.Close())
		s = open(t, place)
		wantConsumed(t, s.Begin(ctx, post("post_2"), key("k", "a")), "a")
		if _, err := s.Get(ctx, "post_2"); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a refused intent left a record: %v", err)
		}
	})
	t.Run("a post in flight when the process ended is indeterminate", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		check.Must(t, s.Begin(ctx, post("post_1")))
		check.Must(t, s.Close())
		p, err := open(t, place).Get(ctx, "post_1")
		if err != nil || p.State != ledger.StateIndeterminate || p.Code != "indeterminate" || len(p.Checks) != 1 ||
			len(p.Artifacts) != 1 || p.Artifacts[0] != artifact {
			t.Errorf("got %+v, %v", p, err)
		}
	})
	t.Run("an outcome is recorded once", func(t *testing.T) {
		s := open(t, t.TempDir())
		p := post("post_1")
		check.Must(t, s.Begin(ctx, p))
		p.State, p.Status, p.Artifacts = ledger.StateForwarded, 201, nil
		check.Must(t, s.Finish(ctx, p))
		p.State = ledger.StateFailed
		for _, p := range []ledger.Record{p, {ID: "post_9", State: ledger.StateForwarded},
			{ID: "post_1", State: ledger.StateRefused}} {
			if err := s.Finish(ctx, p); !errors.Is(err, ledger.ErrState) {
				t.Errorf("finish %s as %s: %v", p.ID, p.State, err)
			}
		}
		if got, err := s.Get(ctx, "post_1"); err != nil || got.State != ledger.StateForwarded || got.Status != 201 ||
			len(got.Artifacts) != 1 || got.Artifacts[0] != artifact {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("outcomes and records are written together, all or none", func(t *testing.T) {
		s := open(t, t.TempDir())
		begun := func(id string) (outcome ledger.Record) {
			check.Must(t, s.Begin(ctx, post(id)))
			outcome = post(id)
			outcome.State = ledger.StateForwarded
			return outcome
		}
		refused := func(id string) ledger.Record {
			r := post(id)
			r.State = ledger.StateRefused
			return r
		}
		one, two := begun("post_1"), begun("post_2")
		check.Must(t, s.Write(ctx, []ledger.Record{one, two}, []ledger.Record{refused("post_3")}))
		three := begun("post_4")
		for _, err := range []error{
			s.Write(ctx, []ledger.Record{three, one}, nil),
			s.Write(ctx, []ledger.Record{three}, []ledger.Record{refused("post_5"), post("post_6")}),
		} {
			if !errors.Is(err, ledger.ErrState) {
				t.Errorf("got %v", err)
			}
		}
		wantUnavailable(t, s.Write(ctx, []ledger.Record{three}, []ledger.Record{refused("post_5"), refused("post_3")}))
		for id, want := range map[string]ledger.State{
			"post_1": ledger.StateForwarded, "post_2": ledger.StateForwarded, "post_3": ledger.StateRefused,
			"post_4": ledger.StateForwarding,
		} {
			if got, err := s.Get(ctx, id); err != nil || got.State != want || len(got.Artifacts) != 1 {
				t.Errorf("%s: got %+v, %v, want %s", id, got, err, want)
			}
		}
		if got := all(t, s, ledger.Query{}); len(got) != 4 {
			t.Errorf("kept: %v", got)
		}
	})
	t.Run("records are listed newest first and found by their beginning", func(t *testing.T) {
		s := open(t, t.TempDir())
		for i := range 5 {
			p := post(fmt.Sprintf("post_%d0", i))
			p.State = ledger.StateRefused
			if i == 2 {
				p.Session = "ses_2"
			}
			check.Must(t, s.Add(ctx, p))
		}
		all, err := List(ctx, s, ledger.Query{Limit: 2})
		if err != nil || len(all) != 2 || all[0].ID != "post_40" {
			t.Errorf("got %+v, %v", all, err)
		}
		if err == nil && (len(all[1].Artifacts) != 1 || all[1].Artifacts[0] != artifact) {
			t.Errorf("the artifacts are %v", all[1].Artifacts)
		}
		some, err := List(ctx, s, ledger.Query{Session: "ses_2", State: ledger.StateRefused, Flow: "post"})
		if err != nil || len(some) != 1 || some[0].ID != "post_20" {
			t.Errorf("got %+v, %v", some, err)
		}
		for cursor, want := range map[string]int{"post_40": 4, "post_10": 1, "post_00": 0} {
			older, err := List(ctx, s, ledger.Query{Cursor: cursor})
			if err != nil || len(older) != want {
				t.Errorf("after %s: got %+v, %v", cursor, older, err)
			}
		}
		for _, cursor := range []string{"post_90", "post_9\x00", "\xff"} { // as if there were no more
			if none, err := List(ctx, s, ledger.Query{Cursor: cursor}); !errors.Is(err, ledger.ErrNotFound) || len(none) != 0 {
				t.Errorf("after %q: got %+v, %v", cursor, none, err)
			}
		}
		if none, err := List(ctx, s, ledger.Query{State: ledger.StateForwarded}); err != nil || len(none) != 0 {
			t.Errorf("got %+v, %v", none, err)
		}
		if p, err := s.Get(ctx, "post_3"); err != nil || p.ID != "post_30" {
			t.Errorf("got %+v, %v", p, err)
		}
		add := func(id string) {
			p := post(id)
			p.State = ledger.StateRefused
			check.Must(t, s.Add(ctx, p))
		}
		for n := 1; n <= 12; n++ {
			add("post_8" + string(rune('a'+n)))
			var several *ledger.SeveralError
			p, err := s.Get(ctx, "post_8")
			if n == 1 && p.ID != "post_8b" || n > 1 &&
				(!errors.As(err, &several) || len(several.IDs) != min(n, 10) || several.IDs[0] != "post_8b" ||
					several.More != (n > 10)) {
				t.Errorf("of %d: %+v, %v", n, p, err)
			}
		}
		add("post_8")
		if p, err := s.Get(ctx, "post_8"); err != nil || p.ID != "post_8" { // and not those that begin with it
			t.Errorf("got %+v, %v", p, err)
		}
		for _, id := range []string{"", "post", "post_", "post_9"} {
			if _, err := s.Get(ctx, id); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("Get(%q): %v", id, err)
			}
		}
	})
	t.Run("newest is what started last, whenever it was stored", func(t *testing.T) {
		s := open(t, t.TempDir())
		for _, at := range []int{3, 1, 4, 0, 2, 2} { // seconds
			p := post(fmt.Sprintf("post_%d_%d", at, len(all(t, s, ledger.Query{}))))
			p.State, p.Started = ledger.StateRefused, Now().Add(time.Duration(at)*time.Second)
			check.Must(t, s.Add(ctx, p))
		}
		// where two started together, the one stored last
		want := []string{"post_4_2", "post_3_0", "post_2_5", "post_2_4", "post_1_1", "post_0_3"}
		for _, q := range []ledger.Query{{}, {Session: "ses_1"}, {State: ledger.StateRefused}, {Flow: "post"}} {
			if got := all(t, s, q); !slices.Equal(got, want) {
				t.Errorf("%+v: got %v", q, got)
			}
			for i := range want {
				q.Cursor = want[i]
				if got := all(t, s, q); !slices.Equal(got, want[i+1:]) {
					t.Errorf("%+v: got %v", q, got)
				}
			}
			q.Cursor, q.OldestFirst = "", true
			slices.Reverse(want)
			if got := all(t, s, q); !slices.Equal(got, want) {
				t.Errorf("%+v: got %v", q, got)
			}
			slices.Reverse(want)
		}
	})
	t.Run("pruning keeps what could be replayed", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Consume(ctx, key("k", "a")))
		check.Must(t, s.Prune(ctx, Now().Add(2*time.Hour)))
		wantConsumed(t, s.Consume(ctx, key("k", "a")), "a")
		check.Must(t, s.Prune(ctx, Now().Add(48*time.Hour)))
		wantUnavailable(t, s.Consume(ctx, key("k", "a")))
		later := key("k", "b")
		later.Expires = later.Expires.Add(time.Second)
		if err := s.Consume(ctx, later); err != nil {
			t.Errorf("a key that expires after all that were removed: %v", err)
		}
	})
	t.Run("pruning forgets keys in whatever order they expire", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		const many = 300 // more than one transaction removes
		var short []ledger.Key
		for i := range 2 * many { // the first half expires after the second
			k := key("k", fmt.Sprint("short", i))
			k.Expires = k.Expires.Add(-time.Duration(i/many) * time.Minute)
			short = append(short, k)
		}
		long := key("k", "long")
		long.Expires = long.Expires.AddDate(1, 0, 0)
		for keys := range slices.Chunk(append([]ledger.Key{long}, short...), 50) {
			check.Must(t, s.Consume(ctx, keys...))
		}
		check.Must(t, s.Prune(ctx, Now().Add(48*time.Hour)))
		for range 2 {
			for _, k := range short {
				wantUnavailable(t, s.Consume(ctx, k)) // forgotten, but not free
			}
			wantConsumed(t, s.Consume(ctx, long), "long")
			check.Must(t, s.Close())
			s = open(t, place)
		}
	})
	t.Run("a caller that has gone consumes nothing", func(t *testing.T) {
		s := open(t, t.TempDir())
		gone, cancel := context.WithCancel(ctx)
		cancel()
		err := s.Consume(gone, key("k", "a"))
		wantUnavailable(t, err)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cause is lost: %v", err)
		}
		if err := s.Consume(ctx, key("k", "a")); err != nil {
			t.Error(err)
		}
	})
	t.Run("what is incomplete is refused", func(t *testing.T) {
		s := open(t, t.TempDir())
		whole := key("k", "a")
		for _, k := range []ledger.Key{{Kind: whole.Kind, ID: whole.ID}, {ID: whole.ID, Expires: whole.Expires},
			{Kind: whole.Kind, Expires: whole.Expires}} {
			wantUnavailable(t, s.Consume(ctx, k))
		}
		wantUnavailable(t, s.Begin(ctx, ledger.Record{Started: Now()}, whole))
		wantUnavailable(t, s.Begin(ctx, ledger.Record{ID: "post_1"}, whole))
		for _, state := range []ledger.State{"", "invented", ledger.StateForwarding} {
			p := post("post_1")
			p.State = state
			if err := s.Add(ctx, p); !errors.Is(err, ledger.ErrState) {
				t.Errorf("record as %q: %v", state, err)
			}
		}
		if err := s.Begin(ctx, post("post_1"), whole); err != nil {
			t.Errorf("a refused call left something: %v", err)
		}
	})
	t.Run("an id is used once", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Begin(ctx, post("post_1")))
		wantUnavailable(t, s.Begin(ctx, post("post_1"), key("k", "a")))
		p := post("post_1")
		p.State = ledger.StateRefused
		wantUnavailable(t, s.Add(ctx, p))
		if got, err := s.Get(ctx, "post_1"); err != nil || got.State != ledger.StateForwarding {
			t.Errorf("got %+v, %v", got, err)
		}
		if err := s.Consume(ctx, key("k", "a")); err != nil {
			t.Errorf("a refused intent consumed a key: %v", err)
		}
	})
	t.Run("a record is kept with all that it has", func(t *testing.T) {
		s := open(t, t.TempDir())
		var full ledger.Record
		fill(reflect.ValueOf(&full).Elem())
		full.ID, full.Flow, full.Session, full.State = "post_full", "post", "ses_1", ledger.StateForwarding
		full.Open = nil // which is kept beside the record: see RunReceipts
		other := post("post_other")
		other.State, other.Reason = ledger.StateRefused, "no UTF-8: \xff"
		check.Must(t, s.Begin(ctx, full), s.Add(ctx, other))
		if got, err := s.Get(ctx, full.ID); err != nil || !reflect.DeepEqual(got, full) {
			t.Errorf("got %+v, %v, want %+v", got, err, full)
		}
		if got, err := s.Get(ctx, other.ID); err != nil || got.Reason != "no UTF-8: \uFFFD" {
			t.Errorf("got %q, %v", got.Reason, err)
		}
		other.ID, other.Finished = "post_late", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no text for it
		wantUnavailable(t, s.Add(ctx, other))
	})
	t.Run("closed", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Close(), s.Close())
		if err := s.Consume(ctx, key("k", "a")); !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
