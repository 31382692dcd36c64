package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

type outcomes struct {
	mu       sync.Mutex
	changed  *sync.Cond
	consumed map[string]int // successes by key
	total    int            // of consumed
	unknown  int            // errors that leave it open
	stopped  bool
}

func newOutcomes() *outcomes {
	o := &outcomes{consumed: make(map[string]int)}
	o.changed = sync.NewCond(&o.mu)
	return o
}

func (o *outcomes) add(t *testing.T, id string, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.changed.Broadcast()
	var lost *ledger.Error
	switch {
	case err == nil:
		o.consumed[id]++
		o.total++
	case errors.As(err, &lost):
		o.unknown++
	case !errors.Is(err, ledger.ErrConsumed):
		t.Errorf("key %s: %v", id, err)
	}
	return !o.stopped
}

func (o *outcomes) more(uses, unknown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	uses, unknown = uses+o.total, unknown+o.unknown
	for o.total < uses || o.unknown < unknown {
		o.changed.Wait()
	}
}

func (o *outcomes) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
}

// The database is killed twice while 64 clients use the same keys on three replicas. No key is consumed twice, also
// none whose use had an unknown outcome and was tried again.
func TestDatabaseLost(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	dsn := server.Database(t)
	replicas := []*postgres.Ledger{open(t, dsn, "a"), open(t, dsn, "b"), open(t, dsn, "c")}
	use := func(replica int, id string) error { return replicas[replica].Consume(context.Background(), key(id)) }

	told := newOutcomes()
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprint(n)
				for _, replica := range rand.Perm(len(replicas)) { // an error is tried again on another one
					if !told.add(t, id, use(replica, id)) {
						return
					}
				}
			}
		})
	}
	for range 2 {
		told.more(50, 0)
		server.Kill(t)
		told.more(0, 64)
		server.Restart(t)
	}
	told.more(50, 0)
	told.stop()
	clients.Wait()

	// What was consumed before the database was lost is consumed now, and nothing is neither.
	for id := range told.consumed {
		for replica := range replicas {
			told.add(t, id, use(replica, id))
		}
	}
	for id, times := range told.consumed {
		if times != 1 {
			t.Errorf("the key %s was consumed %d times", id, times)
		}
	}
	t.Logf("%d keys, %d answers that left it open", told.total, told.unknown)
}
