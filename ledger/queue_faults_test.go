package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// hole is a store behind a network that drops everything: what it is asked ends with its time, until it is back.
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

// TestQueueIsFull: while the queue holds 1,024 records no further call is let go out, also while the store has not
// failed yet, so no call goes out whose record is lost. The calls that were on their way do not wait in vain.
func TestQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hole)
		q := ledger.NewQueue(h, func(ledger.Record, error) { t.Error("one was lost") })
		var sent int32
		var calls sync.WaitGroup
		for i := range 200 * 60 { // 200 a second for a minute
			time.Sleep(5 * time.Millisecond) // of the test's own clock
			if q.Full("") != nil {
				continue
			}
			sent++
			calls.Go(func() {
				time.Sleep(100 * time.Millisecond) // the call's own time
				r := ledger.Record{ID: fmt.Sprintf("post_%05d", i), State: ledger.StateForwarded}
				if err := q.AddLater(t.Context(), r); err != nil {
					t.Errorf("a call went out, and its record is lost: %v", err)
				}
			})
		}
		calls.Wait()
		if sent < 1024 || sent > 1024+20 {
			t.Errorf("%d calls went out", sent)
		}
		h.back.Store(true)
		time.Sleep(time.Minute)
		if err := errors.Join(q.Full(""), q.Close()); err != nil || h.stored.Load() != sent {
			t.Errorf("%d are stored of %d, %v", h.stored.Load(), sent, err)
		}
	})
}

// TestQueueIsShared: a session that fills the queue while the store fails leaves places for the calls of others.
func TestQueueIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hole)
		q := ledger.NewQueue(h, func(ledger.Record, error) { t.Error("one was lost") })
		fill := func(session string) (sent int) {
			for ; q.Full(session) == nil; sent++ {
				r := ledger.Record{ID: fmt.Sprintf("post_%s_%05d", session, sent), Session: session, State: ledger.StateForwarded}
				if err := q.AddLater(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			return sent
		}
		for i, want := range []int{512, 256, 128} {
			if got := fill(fmt.Sprintf("ses_%d", i)); got != want {
				t.Errorf("session %d has %d places, want %d", i, got, want)
			}
		}
		if err := q.Full(""); err != nil {
			t.Errorf("there is no place for anybody: %v", err)
		}
		h.back.Store(true)
		time.Sleep(time.Minute)
		if err := errors.Join(q.Full("ses_0"), q.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestQueueCloses: closing before a store that hangs takes ten seconds and no more, whatever is under way, and tells
// what is lost.
func TestQueueCloses(t *testing.T) {
	for _, after := range []time.Duration{0, 6 * time.Millisecond, 7 * time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var lost lost
			q := ledger.NewQueue(new(hole), lost.add)
			for _, id := range []string{"post_1", "post_2"} {
				if err := q.FinishLater(t.Context(), ledger.Record{ID: id, State: ledger.StateForwarded}); err != nil {
					t.Fatal(err)
				}
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

// picky is a store that takes no record with a certain id, and nothing that comes with it. It counts its transactions.
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

// TestQueueSortsOut: one record that cannot be stored costs the 999 that come with it a few transactions together, and
// not one for each of them. If it hangs, the others are stored in the same attempt.
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
				if err := later(t.Context(), ledger.Record{ID: fmt.Sprintf("post_%04d", i)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			if len(s.stored) != 999 || len(lost.ids) != 1 || lost.ids[0] != s.never {
				t.Errorf("%d are stored, and %v lost", len(s.stored), lost.ids)
			}
			if s.writes > 100 {
				t.Errorf("it took %d transactions", s.writes)
			}
		})
	}
}
