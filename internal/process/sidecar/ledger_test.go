package sidecar

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func TestLedgerRetention(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		retention config.Duration
		age       time.Duration
		kept      bool
	}{
		"by default, young": {0, 89 * day, true}, "by default, old": {0, 91 * day, false},
		"for a day, young": {config.Duration(day), 23 * time.Hour, true},
		"for a day, old":   {config.Duration(day), 25 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, err := openLedger(t.Context(), &config.Sidecar{State: t.TempDir(), Retention: tt.retention}, nil,
				nil, zap.NewNop())
			check.Must(t, err)
			defer l.Close()
			now := time.Now()
			if err := l.Add(t.Context(),
				ledger.Record{ID: "post_1", Flow: "egress", State: ledger.StateRefused, Started: now.Add(-tt.age),
					Finished: now}); err != nil {
				t.Fatal(err)
			}
			check.Must(t, l.Prune(t.Context(), now))
			_, err = l.Get(t.Context(), "post_1")
			if kept := err == nil; kept != tt.kept || err != nil && !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("kept %t, %v", kept, err)
			}
		})
	}
}

// pruned is a ledger that notes when it was pruned.
type pruned struct {
	ledger.Store
	at []time.Time
}

func (p *pruned) Prune(_ context.Context, now time.Time) error {
	p.at = append(p.at, now)
	return nil
}

// TestPruneAfterAJump: a clock that is a year ahead for a while removes no record of this year.
func TestPruneAfterAJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		record := &pruned{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())).Round(0) }
		go prune(ctx, record, now, zap.NewNop())
		const year = 365 * 24 * time.Hour
		for i, step := range []struct{ ahead, pruned time.Duration }{
			{0, 0}, {year, 0}, {0, 0}, {year, 0}, {year, year},
		} {
			ahead.Store(int64(step.ahead))
			time.Sleep(prunePeriod + time.Second)
			synctest.Wait()
			if len(record.at) != i+1 || record.at[i].Sub(time.Now().Add(step.pruned)).Abs() > 2*prunePeriod {
				t.Fatalf("pruned at %v after %d periods", record.at, i+1)
			}
		}
	})
}
