package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// hole is a store behind a network that drops everything, until it is back.
type hole struct {
	ledger.Store
	back   atomic.Bool
	stored atomic.Int32
}

func (h *hole) Write(ctx context.Context, outcomes, records []ledger.Record, _ ...ledger.Receipt) error {
	if !h.back.Load() {
		<-ctx.Done()
		return ledger.Unavailable("reach the database", ctx.Err())
	}
	h.stored.Add(int32(len(outcomes) + len(records))) //nolint:gosec // small
	return nil
}

func (h *hole) Get(ctx context.Context, _ string) (ledger.Record, error) {
	if !h.back.Load() {
		<-ctx.Done()
		return ledger.Record{}, ledger.Unavailable("read", ctx.Err())
	}
	return ledger.Record{}, ledger.ErrNotFound
}

func (h *hole) Close() error { return nil }

func TestQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hole)
		q := ledger.NewQueue(h, func(ledger.Record, error) { t.Error("one was lost") })
		var sent int32
		var calls sync.WaitGroup
		for i := range 200 * 60 { // 200 a second for a minute
			time.Sleep(5 * time.Millisecond)
			id := fmt.Sprintf("post_%05d", i)
			if q.Reserve(ledger.Record{ID: id}, id, 0) != nil {
				continue
			}
			if i%2 == 0 { // refused after all
				q.Release(id)
				q.Release(id)
				continue
			}
			sent++
			calls.Go(func() {
				time.Sleep(100 * time.Millisecond) // the call's own time
				if err := q.AddLater(ledger.Record{ID: id, State: ledger.StateForwarded}); err != nil {
					t.Errorf("a call went out, and its record is lost: %v", err)
				}
				q.Release(id)
			})
		}
		calls.Wait()
		if sent != 1024 {
			t.Errorf("%d calls went out", sent)
		}
		h.back.Store(true)
		time.Sleep(time.Minute)
		err := errors.Join(q.Full(), q.Reserve(ledger.Record{ID: "next"}, "", 0), q.Close())
		if err != nil || h.stored.Load() != sent {
			t.Errorf("%d are stored of %d, %v", h.stored.Load(), sent, err)
		}
	})
}

// TestQueueIsShared: a session whose calls fill the queue while the store fails leaves places for the calls of others.
// Calls in flight take places too, and calls with long paths several.
func TestQueueIsShared(t *testing.T) {
	for name, tt := range map[string]struct {
		inFlight bool
		path     string
		want     [3]int
	}{
		"queued":      {false, "/", [3]int{512, 256, 128}},
		"in flight":   {true, "/", [3]int{512, 256, 128}},
		"a long path": {false, "/" + strings.Repeat("&", 60<<10), [3]int{32, 16, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(hole)
				q := ledger.NewQueue(h, func(ledger.Record, error) { t.Error("one was lost") })
				var going []ledger.Record
				fill := func(session string) (sent int) {
					for ; ; sent++ {
						r := ledger.Record{ID: fmt.Sprintf("post_%s_%05d", session, sent), Path: tt.path,
							State: ledger.StateForwarded}
						switch {
						case q.Reserve(r, session, 0) != nil:
							return sent
						case tt.inFlight:
							going = append(going, r)
						default:
							check.Must(t, q.AddLater(r))
						}
					}
				}
				for i, want := range tt.want {
					if got := fill(fmt.Sprintf("ses_%d", i)); got != want {
						t.Errorf("session %d has %d places, want %d", i, got, want)
					}
				}
				for _, r := range going {
					check.Must(t, q.AddLater(r))
				}
				h.back.Store(true)
				time.Sleep(time.Minute)
				check.Must(t, q.Reserve(ledger.Record{ID: "next"}, "ses_0", 0))
				check.Must(t, q.Close())
				if n := h.stored.Load(); int(n) != tt.want[0]+tt.want[1]+tt.want[2] {
					t.Errorf("%d are stored", n)
				}
			})
		})
	}
}

func TestQueueCloses(t *testing.T) {
	for _, after := range []time.Duration{0, 6 * time.Millisecond, 7 * time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var lost lost
			q := ledger.NewQueue(new(hole), lost.add)
			for _, id := range []string{"post_1", "post_2"} {
				check.Must(t, q.FinishLater(ledger.Record{ID: id, State: ledger.StateForwarded}))
			}
			time.Sleep(after) // of the test's own clock
			start := time.Now()
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > 10*time.Second || len(lost.ids) != 2 {
				t.Errorf("closed after %s: it took %s, lost: %v", after, took, lost.ids)
			}
		})
	}
}

// picky is a store that takes no record with a certain id, and nothing that comes with it.
type picky struct {
	ledger.Store
	never string
	hangs bool // until the time is over, as one does whose record is locked; otherwise it refuses at once

	mu     sync.Mutex
	writes int
	stored []string
}

func (p *picky) Write(ctx context.Context, outcomes, records []ledger.Record, _ ...ledger.Receipt) error {
	var ids []string
	for _, r := range append(slices.Clone(outcomes), records...) {
		ids = append(ids, r.ID)
	}
	refused := slices.Contains(ids, p.never)
	if refused && p.hangs {
		<-ctx.Done()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	if refused {
		return ledger.ErrState
	}
	p.stored = append(p.stored, ids...)
	return nil
}

func (p *picky) Finish(ctx context.Context, r ledger.Record) error {
	return p.Write(ctx, []ledger.Record{r}, nil)
}

func (p *picky) Add(ctx context.Context, r ledger.Record) error {
	return p.Write(ctx, nil, []ledger.Record{r})
}

func (p *picky) Get(context.Context, string) (ledger.Record, error) {
	return ledger.Record{}, ledger.ErrNotFound
}

func (p *picky) Close() error { return nil }

// The 999 others cost a few transactions together. If the one hangs, they are stored in the same attempt.
func TestQueueSortsOut(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var lost lost
			s := &picky{never: "post_0617", hangs: hangs}
			q := ledger.NewQueue(s, lost.add)
			for i := range 1000 {
				later := q.AddLater
				if i%2 == 1 {
					later = q.FinishLater
				}
				check.Must(t, later(ledger.Record{ID: fmt.Sprintf("post_%04d", i)}))
			}
			check.Must(t, q.Close())
			if len(s.stored) != 999 || len(lost.ids) != 1 || lost.ids[0] != s.never {
				t.Errorf("%d are stored, and %v lost", len(s.stored), lost.ids)
			}
			if s.writes > 100 {
				t.Errorf("it took %d transactions", s.writes)
			}
		})
	}
}

func TestFullOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hole)
		q := ledger.NewQueue(h, func(ledger.Record, error) { t.Error("one was lost") })
		id, queued := "", 0
		for ; ; queued++ {
			id = fmt.Sprintf("post_%05d", queued)
			if q.Reserve(ledger.Record{ID: id}, "ses_1", 1024) != nil {
				break
			}
			check.Must(t, q.AddLater(ledger.Record{ID: id, State: ledger.StateForwarded}))
		}
		check.Must(t, errors.Join(q.Full(), q.Reserve(ledger.Record{ID: id}, "ses_2", 1024)))
		if queued <= 1024 {
			t.Errorf("%d are queued", queued)
		}
		h.back.Store(true)
		time.Sleep(time.Minute)
		check.Must(t, q.Close())
	})
}
