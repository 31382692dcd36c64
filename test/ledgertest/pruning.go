package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// runPruning plays a random history: posts begin and end, keys are used
// again, prunings and restarts happen, and the clock steps forward and back.
//
// No key is ever good twice. A key whose artifact could still pass with a clock error below [ledger.KeyMargin] is known
// as used. An unused key is not refused. A post in flight is kept for at least a day.
func runPruning(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	t.Run("old records go, and not those in flight", func(t *testing.T) {
		ctx, s := context.Background(), open(t, t.TempDir())
		at := func(id string, age time.Duration) ledger.Record {
			return ledger.Record{ID: id, State: ledger.StateRefused, Started: Now().Add(-age)}
		}
		var old []ledger.Record
		for i := range 1100 { // more than one transaction removes
			old = append(old, at(fmt.Sprintf("post_old_%d", i), time.Hour+time.Second))
		}
		check.Must(t, s.Write(ctx, nil, old), s.Begin(ctx, at("post_in_flight", 2*time.Hour)),
			s.Add(ctx, at("post_young", 0)),
			s.Prune(ctx, Now()))
		wantIDs(t, s, ledger.Query{}, []string{"post_young", "post_in_flight"})
	})
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			place := t.TempDir()
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it has to be repeatable
			h := &history{rand: random, store: open(t, place), now: Now(), latest: Now()}
			for range 300 {
				switch n := h.rand.IntN(100); {
				case n < 45:
					h.begin(t)
				case n < 80:
					h.again(t)
				case n < 90:
					h.step()
				case n < 98:
					h.prune(t)
				default:
					check.Must(t, h.store.Close())
					h.store, h.inFlight = open(t, place), nil // they are indeterminate now
				}
			}
			for _, k := range h.used {
				h.check(t, k)
			}
			for _, p := range h.inFlight {
				if p.Started.Before(h.pruned.Add(-24 * time.Hour)) {
					continue // where processes share a store, it counts as abandoned after a day
				}
				if got, err := h.store.Get(context.Background(), p.ID); err != nil || got.State != ledger.StateForwarding {
					t.Errorf("%s is in flight: got %+v, %v", p.ID, got, err)
				}
			}
		})
	}
}

// history is a played history.
type history struct {
	rand     *rand.Rand
	store    ledger.Store
	now      time.Time
	latest   time.Time // that now was
	pruned   time.Time // the latest time by which something was pruned
	used     []ledger.Key
	inFlight []ledger.Record
}

// begin begins a post with a fresh key, and usually ends it.
func (h *history) begin(t *testing.T) {
	t.Helper()
	p := post(fmt.Sprintf("post_%06d", len(h.used)))
	p.Started = h.now
	k := ledger.Key{Kind: "capability", ID: p.ID, Expires: h.now.Add(time.Duration(h.rand.IntN(600)) * time.Second)}
	if err := h.store.Begin(context.Background(), p, k); err != nil {
		t.Fatalf("a fresh key at %s, pruned by %s: %v", h.now, h.pruned, err)
	}
	h.used = append(h.used, k)
	if h.rand.IntN(5) == 0 {
		h.inFlight = append(h.inFlight, p)
		return
	}
	p.State = ledger.StateForwarded
	check.Must(t, h.store.Finish(context.Background(), p))
}

// again uses a key again.
func (h *history) again(t *testing.T) {
	t.Helper()
	if len(h.used) > 0 {
		h.check(t, h.used[h.rand.IntN(len(h.used))])
	}
}

func (h *history) check(t *testing.T, k ledger.Key) {
	t.Helper()
	err := h.store.Consume(context.Background(), k)
	var lost *ledger.Error
	switch {
	case errors.Is(err, ledger.ErrConsumed):
	case err == nil || !errors.As(err, &lost):
		t.Fatalf("a key that expired at %s was used again: %v", k.Expires, err)
	case k.Expires.After(h.pruned.Add(-ledger.KeyMargin)):
		t.Fatalf("a key that expires at %s is forgotten, and the latest pruning was by %s", k.Expires, h.pruned)
	}
}

// step moves the clock: usually forward, sometimes back, but never so far that a fresh key would look like a forgotten
// one.
func (h *history) step() {
	by := time.Duration(h.rand.IntN(12*3600)) * time.Second
	if h.rand.IntN(4) == 0 {
		by = -2 * by
	}
	h.now = h.now.Add(by)
	if earliest := h.latest.Add(time.Hour - ledger.KeyMargin); h.now.Before(earliest) {
		h.now = earliest
	}
	if h.now.After(h.latest) {
		h.latest = h.now
	}
}

func (h *history) prune(t *testing.T) {
	t.Helper()
	check.Must(t, h.store.Prune(context.Background(), h.now))
	if h.now.After(h.pruned) {
		h.pruned = h.now
	}
}
