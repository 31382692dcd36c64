package ledgertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// RunIdentity tests that a replaced ledger is noticed. open is as for [Run], with a retention of an hour; fresh opens a
// new ledger in its place, and back puts it back to its state at the call of back.
func RunIdentity(t *testing.T, open func(t *testing.T, place string) ledger.Identified,
	fresh func(t *testing.T, place string) ledger.Identified, keep func(t *testing.T, place string) (back func())) {
	ctx := context.Background()
	watch := func(t *testing.T, s ledger.Identified, path string) (*ledger.Watched, error) {
		t.Helper()
		w, err := ledger.Watch(ctx, s, path, func(err error) { t.Errorf("noted: %v", err) })
		if err == nil {
			t.Cleanup(func() { w.Close() })
		}
		return w, err
	}
	use := func(t *testing.T, place, path, id string) {
		t.Helper()
		w, err := watch(t, open(t, place), path)
		check.Must(t, err)
		check.Must(t, w.Begin(ctx, post("post_"+id), key("k", id)))
		check.Must(t, w.Close())
	}
	t.Run("the same ledger is no other one", func(t *testing.T) {
		place, path := t.TempDir(), filepath.Join(t.TempDir(), "mark")
		use(t, place, path, "a")
		first, seen, err := ledger.LastSeen(path)
		if err != nil || !seen || first.ID == "" || first.Accepted != 0 {
			t.Fatalf("%+v, %t, %v", first, seen, err)
		}
		use(t, place, path, "b")
		if last, _, err := ledger.LastSeen(path); err != nil || last.ID != first.ID || last.Mark <= first.Mark {
			t.Errorf("%+v after %+v, %v", last, first, err)
		}
		check.Must(t, os.Remove(path)) // as a program did that kept none
		use(t, place, path, "c")
	})
	t.Run("everything pruned is no older copy", func(t *testing.T) {
		place, path := t.TempDir(), filepath.Join(t.TempDir(), "mark")
		s := open(t, place)
		mark := func() int64 {
			t.Helper()
			i, err := s.Identity(ctx)
			check.Must(t, err)
			return i.Mark
		}
		for i, at := range []int{3, 1, 5, 2, 4, 0} { // hours; the one stored last is pruned first
			r := post(string(rune('a' + i)))
			r.State, r.Started = ledger.StateRefused, Now().Add(time.Duration(at)*time.Hour)
			check.Must(t, s.Add(ctx, r))
		}
		before := mark()
		if before < 6 {
			t.Errorf("the mark of six records is %d", before)
		}
		for hours := range 8 {
			check.Must(t, s.Prune(ctx, Now().Add(time.Duration(hours)*time.Hour+time.Minute)))
			if m := mark(); m != before {
				t.Errorf("the mark is %d after a pruning, and was %d", m, before)
			}
			r := post("post_" + string(rune('a'+hours)))
			r.State, r.Started = ledger.StateRefused, Now().Add(-24*time.Hour) // so that it is pruned next
			check.Must(t, s.Add(ctx, r))
			if m := mark(); m <= before {
				t.Errorf("the mark is %d after another record, and was %d", m, before)
			}
			before = mark()
		}
		check.Must(t, s.Close())
		use(t, place, path, "b")
	})
	t.Run("a mark is never ahead of a ledger that ended at any time", func(t *testing.T) {
		place, path := t.TempDir(), filepath.Join(t.TempDir(), "mark")
		s := open(t, place)
		w, err := watch(t, s, path)
		check.Must(t, err)
		for i := range 3 {
			check.Must(t, w.Begin(ctx, post("post_"+string(rune('a'+i))), key("k", string(rune('a'+i)))))
		}
		check.Must(t, s.Close()) // without a last look
		use(t, place, path, "z")
	})
	for name, replace := range map[string]func(t *testing.T, place, path string) (s ledger.Identified, want string){
		"a new ledger": func(t *testing.T, place, path string) (ledger.Identified, string) {
			use(t, place, path, "a")
			return fresh(t, place), "the ledger is another one"
		},
		"an older copy": func(t *testing.T, place, path string) (ledger.Identified, string) {
			back := keep(t, place)
			use(t, place, path, "a")
			back()
			return open(t, place), "is an older copy: its mark is"
		},
		"a ledger that was accepted in the place of a third": func(t *testing.T, place, path string) (ledger.Identified,
			string) {
			use(t, place, path, "a")
			s := fresh(t, place)
			check.Must(t,
				s.Accept(ctx, ledger.Acceptance{At: Now(), Was: ledger.Identity{ID: "a third"}, Reason: "a drill elsewhere"},
					Now()))
			return s, "the ledger is another one"
		},
	} {
		t.Run(name, func(t *testing.T) {
			place, path := t.TempDir(), filepath.Join(t.TempDir(), "mark")
			use(t, place, path, "first")
			s, want := replace(t, place, path)
			_, err := watch(t, s, path)
			wantReplaced(t, err, want)

			// An accepted ledger is used, except for keys that the other one may have used.
			last, _, err := ledger.LastSeen(path)
			check.Must(t, err)
			found, err := s.Identity(ctx)
			check.Must(t, err)
			a := ledger.Acceptance{At: Now(), Was: last, Found: found, Reason: "a drill"}
			check.Must(t, s.Accept(ctx, a, Now().Add(10*time.Minute)))
			w, err := watch(t, s, path)
			check.Must(t, err)
			if all, err := w.Acceptances(ctx); err != nil || len(all) == 0 || !all[len(all)-1].At.Equal(a.At) ||
				all[len(all)-1].Was != last || all[len(all)-1].Found != found || all[len(all)-1].Reason != a.Reason {
				t.Errorf("got %+v, %v", all, err)
			}
			wantUnavailable(t, w.Consume(ctx, key("k", "a")))
			later := key("k", "a")
			later.Expires = Now().Add(10*time.Minute + time.Second)
			check.Must(t, w.Consume(ctx, later))
			check.Must(t, w.Close())
			if w, err = watch(t, open(t, place), path); err != nil {
				t.Fatalf("after a restart: %v", err)
			}
			wantUnavailable(t, w.Consume(ctx, key("k", "b")))
		})
	}
	t.Run("a ledger that is replaced while it is used", func(t *testing.T) {
		place, path := t.TempDir(), filepath.Join(t.TempDir(), "mark")
		h := &behind{Identified: open(t, place)}
		noted := make(chan error, 10)
		w, err := ledger.Watch(ctx, h, path, func(err error) { noted <- err })
		check.Must(t, err)
		defer w.Close()
		check.Must(t, w.Begin(ctx, post("post_a"), key("k", "a")))
		h.by.Store(1000)
		check.Must(t, w.Begin(ctx, post("post_b"), key("k", "b")))
		wantReplaced(t, <-noted, "older copy")
		for _, err := range []error{w.Consume(ctx, key("k", "c")), w.Begin(ctx, post("post_1"), key("k", "d"))} {
			wantReplaced(t, err, "older copy")
		}
		refused := post("post_2")
		refused.State = ledger.StateRefused
		check.Must(t, w.Add(ctx, refused)) // what happens is recorded nevertheless
	})
	t.Run("a mark that cannot be read", func(t *testing.T) {
		s, path := open(t, t.TempDir()), filepath.Join(t.TempDir(), "mark")
		for _, raw := range []string{"", "{}", "none", `{"mark":1}`, strings.Repeat(" ", 5<<10) + `{"id":"x","mark":1}`} {
			check.Must(t, os.WriteFile(path, []byte(raw), 0o600))
			_, err := watch(t, s, path)
			wantReplaced(t, err, "cannot be read")
		}
	})
}

// behind is a ledger whose mark can go back.
type behind struct {
	ledger.Identified
	by atomic.Int64
}

func (b *behind) Identity(ctx context.Context) (ledger.Identity, error) {
	i, err := b.Identified.Identity(ctx)
	i.Mark -= b.by.Load()
	return i, err
}

func wantReplaced(t *testing.T, err error, sentence string) {
	t.Helper()
	var r *ledger.ReplacedError
	if !errors.As(err, &r) || r.Code() != "ledger_replaced" || !strings.Contains(r.Error(), sentence) ||
		!strings.Contains(r.Error(), "mediator ledger accept") {
		t.Errorf("got %v, want ledger_replaced: %s", err, sentence)
	}
}

func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	var e *ledger.Error
	if !errors.As(err, &e) || e.Code() != "ledger_unavailable" {
		t.Errorf("got %v, want the code ledger_unavailable", err)
	}
}
