package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t testing.TB, dir string) *sqlite.Ledger {
	t.Helper()
	l, err := sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db"), sqlite.Options{Now: ledgertest.Now})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

type lost struct {
	mu  sync.Mutex
	ids []string
}

func (l *lost) add(p ledger.Record, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, p.ID)
}

func TestQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	open := func(l *lost) *ledger.Queue {
		t.Helper()
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: time.Now})
		check.Must(t, err)
		return ledger.NewQueue(s, l.add)
	}
	post := func(id string, state ledger.State) ledger.Record {
		return ledger.Record{ID: id, Flow: "post", State: state, Started: time.Now()}
	}
	var lost lost
	q := open(&lost)
	want := make(map[string]ledger.State)
	for i := range 50 {
		begun, read := post(fmt.Sprintf("begun_%02d", i), ledger.StateForwarded),
			post(fmt.Sprintf("read_%02d", i), ledger.StateForwarded)
		check.Must(t, q.Begin(t.Context(), begun), q.FinishLater(begun),
			q.AddLater(read))
		want[begun.ID], want[read.ID] = ledger.StateForwarded, ledger.StateForwarded
		if got, err := q.Get(t.Context(), begun.ID); err != nil || got.State != ledger.StateForwarded {
			t.Fatalf("%v, %v", got.State, err)
		}
	}
	if posts, err := ledgertest.List(t.Context(), q, ledger.Query{}); err != nil || len(posts) != len(want) {
		t.Fatalf("%d records, %v", len(posts), err)
	}
	check.Must(t, q.FinishLater(post("unknown", ledger.StateForwarded)))
	check.Must(t, q.AddLater(post("last_of_all", ledger.StateFailed)), q.Close())
	if len(lost.ids) != 1 || lost.ids[0] != "unknown" {
		t.Errorf("told of %v, not of the post that never began", lost.ids)
	}
	if err := q.AddLater(post("late", ledger.StateFailed)); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	q = open(&lost)
	defer q.Close()
	if p, err := q.Get(t.Context(), "last_of_all"); err != nil || p.State != ledger.StateFailed {
		t.Errorf("%v, %v", p.State, err)
	}
}

func TestRefusedAfterItsIntent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	p := ledger.Record{ID: "post_1", Flow: "post", State: ledger.StateRefused, Code: "ledger_unavailable",
		Started: time.Now()}
	var lost lost
	for _, use := range []func(q *ledger.Queue) error{
		func(q *ledger.Queue) error {
			return errors.Join(q.Begin(t.Context(), p), q.AddLater(p))
		},
		func(q *ledger.Queue) error {
			kept, err := q.Get(t.Context(), p.ID)
			if kept.State != ledger.StateFailed || kept.Code != p.Code {
				t.Errorf("%s %s, want %s %s", kept.State, kept.Code, ledger.StateFailed, p.Code)
			}
			return err
		},
	} {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: time.Now})
		check.Must(t, err)
		q := ledger.NewQueue(s, lost.add)
		check.Must(t, use(q), q.Close())
	}
	if len(lost.ids) > 0 {
		t.Errorf("lost: %v", lost.ids)
	}
}

type stuck struct {
	ledger.Store
	let chan struct{}
}

func (s stuck) Write(context.Context, []ledger.Record, []ledger.Record, ...ledger.Receipt) error {
	<-s.let
	return nil
}

func (s stuck) Close() error { return nil }

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{let: make(chan struct{})}
		q := ledger.NewQueue(s, func(ledger.Record, error) { t.Error("one was lost") })
		check.Must(t, q.Reserve(ledger.Record{ID: "placed"}, "ses_1", 0))
		var err error
		taken := -1
		for ; err == nil; taken++ {
			err = q.AddLater(ledger.Record{})
		}
		check.WantCode(t, err, "ledger_unavailable")
		check.Must(t, q.Full())
		if taken != 1024 {
			t.Errorf("%d were taken", taken)
		}
		check.Must(t, q.AddLater(ledger.Record{ID: "placed"}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ledgertest.List(ctx, q, ledger.Query{}); err == nil {
			t.Error("a list was given while records were missing in it")
		}
		close(s.let)
		synctest.Wait()
		check.Must(t, q.AddLater(ledger.Record{}))
		check.Must(t, q.Close())
	})
}

// absent is a store that is away until it is back. An attempt may be stored although it fails.
type absent struct {
	ledger.Store
	mu        sync.Mutex
	back      bool
	surprises bool
	never     string // the id of a record that it does not take, also when it is back
	kept      map[string]ledger.State
}

func (a *absent) Finish(_ context.Context, p ledger.Record) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ended := a.kept[p.ID]; ended && a.kept[p.ID] != ledger.StateForwarding {
		return ledger.ErrState
	}
	back := a.back && p.ID != a.never
	if back || a.surprises {
		a.kept[p.ID] = p.State
	}
	if !back {
		return ledger.Unavailable("write the record", errors.New("the file is locked"))
	}
	return nil
}

func (a *absent) Write(ctx context.Context, outcomes, _ []ledger.Record, _ ...ledger.Receipt) error {
	for _, r := range outcomes {
		if err := a.Finish(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (a *absent) Get(_ context.Context, id string) (ledger.Record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if state, ok := a.kept[id]; ok {
		return ledger.Record{ID: id, State: state}, nil
	}
	return ledger.Record{}, ledger.ErrNotFound
}

func (a *absent) Records(context.Context, ledger.Query) iter.Seq2[ledger.Record, error] {
	return func(func(ledger.Record, error) bool) {}
}
func (a *absent) Close() error { return nil }

func TestQueueOutlastsTheStore(t *testing.T) {
	for name, tt := range map[string]struct {
		surprises   bool
		posts, away int // how long it is away, in seconds
		closed      bool
		full        bool // there is no room for more
		refused     int  // before they are sent
		lost        int
	}{
		"back after a minute":                       {posts: 50, away: 60},
		"back, and had stored them":                 {posts: 50, away: 60, surprises: true},
		"back when the mediator ends":               {posts: 50, closed: true},
		"all but one that there is room for":        {posts: 1023, away: 60},
		"no room, for those that were on their way": {posts: 3072, away: 60, full: true},
		"away for more than are kept":               {posts: 3100, away: 60, full: true, refused: 3100 - 3072},
		"not back when the mediator ends: all lost": {posts: 50, lost: 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost lost
				s := &absent{kept: make(map[string]ledger.State), surprises: tt.surprises}
				q := ledger.NewQueue(s, lost.add)
				refused := 0
				for i := range tt.posts {
					p := ledger.Record{ID: fmt.Sprintf("post_%04d", i), State: ledger.StateForwarded}
					if q.Reserve(p, p.ID, 1024) != nil {
						refused++
						continue
					}
					s.kept[p.ID] = ledger.StateForwarding
					check.Must(t, q.FinishLater(p))
					synctest.Wait()
				}
				var away *ledger.Error
				if err := q.Full(); errors.As(err, &away) != tt.full {
					t.Errorf("there is room: %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := ledgertest.List(ctx, q, ledger.Query{}); err != nil {
					t.Errorf("a list waits for what cannot be stored: %v", err)
				}
				time.Sleep(time.Duration(tt.away) * time.Second)
				s.mu.Lock()
				s.back = tt.away > 0 || tt.closed
				s.mu.Unlock()
				if !tt.closed {
					time.Sleep(time.Duration(tt.away) * time.Second)
				}
				if err := q.Full(); err != nil && tt.away > 0 {
					t.Errorf("there is none again: %v", err)
				}
				if err := errors.Join(q.Close(), q.Close()); err != nil {
					t.Error(err)
				}
				stored := 0
				for _, state := range s.kept {
					if state == ledger.StateForwarded {
						stored++
					}
				}
				if stored != tt.posts-tt.lost-tt.refused || len(lost.ids) != tt.lost || refused != tt.refused {
					t.Errorf("%d are stored, %d lost and %d refused, want %+v", stored, len(lost.ids), refused, tt)
				}
			})
		})
	}
}

func TestQueueGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost lost
		s := &absent{kept: make(map[string]ledger.State), back: true, never: "post_0003"}
		q := ledger.NewQueue(s, lost.add)
		for i := range 10 {
			r := ledger.Record{ID: fmt.Sprintf("post_%04d", i), State: ledger.StateForwarded}
			s.kept[r.ID] = ledger.StateForwarding
			check.Must(t, q.FinishLater(r))
			time.Sleep(time.Duration(i) * 10 * time.Second) // of the test's own clock
			s.mu.Lock()
			if stored := s.kept[r.ID] == ledger.StateForwarded; stored != (i != 3) && i > 0 {
				t.Errorf("%s is stored: %t", r.ID, stored)
			}
			s.mu.Unlock()
		}
		if err := errors.Join(q.Full(), q.Close()); err != nil {
			t.Error(err)
		}
		if len(lost.ids) != 1 || lost.ids[0] != s.never {
			t.Errorf("lost: %v", lost.ids)
		}
	})
}

type counting struct {
	ledger.Store
	writes, records int
}

func (c *counting) Write(_ context.Context, outcomes, records []ledger.Record, _ ...ledger.Receipt) error {
	c.writes++
	c.records += len(outcomes) + len(records)
	return nil
}

func (c *counting) Close() error { return nil }

func TestQueueGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(counting)
		q := ledger.NewQueue(s, func(ledger.Record, error) { t.Error("one was lost") })
		for _, tt := range []struct {
			taken, records, writes int
			after                  time.Duration
		}{
			{taken: 20, after: 4 * time.Millisecond},
			{taken: 20, after: time.Millisecond, records: 40, writes: 1},
			{taken: 1, after: 5 * time.Millisecond, records: 41, writes: 2},
			{taken: 1, records: 41, writes: 2},
		} {
			for i := range tt.taken {
				later := q.AddLater
				if i%2 == 1 {
					later = q.FinishLater
				}
				check.Must(t, later(ledger.Record{}))
			}
			time.Sleep(tt.after) // of the test's own clock
			synctest.Wait()
			if s.writes != tt.writes || s.records != tt.records {
				t.Errorf("%d records in %d transactions, want %d in %d", s.records, s.writes, tt.records, tt.writes)
			}
		}
		start := time.Now()
		if err := q.Close(); err != nil || s.records != 42 || time.Since(start) != 0 {
			t.Errorf("%d records after %s, %v", s.records, time.Since(start), err)
		}
	})
}
