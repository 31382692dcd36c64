package plays

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/test/e2e/kit"
)

type breakage struct {
	name string
	// kills breakages end a process. The long form plays them in its first half, so that the second shows growth.
	kills bool
	// play breaks it, and mends it after at least this time.
	play func(ctx context.Context, t *testing.T, s *soak, last time.Duration)
}

func breakages() []breakage {
	var all []breakage
	for _, name := range []string{"control", "trigger", "reputation"} {
		all = append(all,
			breakage{name + " killed", true, func(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
				s.kill(t, name)
				pause(ctx, last)
				s.restart(t, name)
			}},
			breakage{name + " frozen", false, func(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
				s.signal(t, name, syscall.SIGSTOP)
				pause(ctx, last)
				s.signal(t, name, syscall.SIGCONT)
			}})
	}
	for _, mode := range []string{"resets", "hangs", "answers slowly", "answers 500", "answers 503", "breaks off"} {
		all = append(all,
			breakage{"upstream " + mode, false, func(ctx context.Context, _ *testing.T, s *soak, last time.Duration) {
				s.set(mode)
				pause(ctx, last)
				s.set("")
			}})
	}
	return append(all,
		breakage{"ledger busy", false, busyLedger},
		breakage{"ledger locked", false, func(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
			busyLedger(ctx, t, s, last+6*time.Second) // longer than the sidecar waits
		}},
		breakage{"bundle rewritten", false, rewriteBundle},
		breakage{"all connections closed", false, func(_ context.Context, _ *testing.T, s *soak, _ time.Duration) {
			s.hangUp()
		}},
	)
}

// breakThings plays one breakage after the other: once each, or in the long form until ctx ends, in an order drawn anew
// for each round.
func (s *soak) breakThings(ctx context.Context, t *testing.T) {
	draw := rand.New(rand.NewPCG(*soakSeed, 1<<32))
	half := time.Now().Add(*soakFor / 2)
	for ctx.Err() == nil {
		all := breakages()
		draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, b := range all {
			unit := time.Duration(kit.Size(1, 5)) * time.Millisecond
			last, gap := time.Duration(100+draw.IntN(400))*unit, time.Duration(40+draw.IntN(200))*unit
			if !b.kills || !kit.Long() || time.Now().Before(half) {
				b.play(ctx, t, s, last)
				s.mu.Lock()
				s.broken = append(s.broken, b.name)
				s.mu.Unlock()
			}
			if !pause(ctx, gap) {
				return
			}
		}
		if !kit.Long() {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func busyLedger(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
	busy := func(till time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busyTill = till
	}
	busy(time.Now().Add(time.Hour))
	defer func() { busy(time.Now()) }()
	db, err := sql.Open("sqlite",
		"file:"+s.In("state/ledger.db")+"?_pragma=busy_timeout(30000)&_txlock=immediate")
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	pause(ctx, last)
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

func rewriteBundle(_ context.Context, t *testing.T, s *soak, _ time.Duration) {
	err := keyring.UpdateBundle(s.In(devstack.BundleFile), func(b *evidence.Bundle) error {
		slices.Reverse(b.Certificates)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
