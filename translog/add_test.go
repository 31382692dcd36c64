package translog_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// failing is a store that takes no leaves while fails is set.
type failing struct {
	ledger.Log
	fails atomic.Bool
}

func (f *failing) AddLeaves(ctx context.Context, leaves ...ledger.Leaf) error {
	if f.fails.Load() {
		return ledger.Unavailable("log", errors.New("the disk is full"))
	}
	return f.Log.AddLeaves(ctx, leaves...)
}

func opened(session string) ledger.Leaf {
	return leaf.New(leaf.SessionOpened, now, leaf.Document{Session: session}).Leaf(session)
}

// TestAdd: a leaf is stored once the store takes it, or at the end.
func TestAdd(t *testing.T) {
	store := &failing{Log: open(t, filepath.Join(t.TempDir(), "ledger.db"))}
	store.fails.Store(true)
	failures := make(chan error, 1000)
	o := options(t, policy(t, "quorum none"))
	o.Failed = func(err error) { failures <- err }
	log, err := translog.New(t.Context(), store, o)
	check.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); log.Run(ctx) }()
	log.Add(opened("ses_1"))
	check.WantCode(t, <-failures, "ledger_unavailable")
	store.fails.Store(false)
	id := leaf.ID(leaf.SessionOpened, "ses_1")
	for err = ledger.ErrNotFound; errors.Is(err, ledger.ErrNotFound); { // until the next attempt
		err = log.Wait(t.Context(), id)
	}
	check.Must(t, err)
	stop()
	<-ended
	log.Add(opened("ses_2"))
	check.Must(t, log.Close(t.Context()))
	f, err := store.Leaf(t.Context(), leaf.ID(leaf.SessionOpened, "ses_2"))
	head, c, unread := store.TreeHead(t.Context())
	if check.Must(t, err, unread); f.Index != head.Size-1 || c.Accepted.Size != head.Size {
		t.Errorf("the leaf has the number %d of %d, and %d are accepted", f.Index, head.Size, c.Accepted.Size)
	}
}

// TestCheck says whether a post that waits for witnesses would get them.
func TestCheck(t *testing.T) {
	w := logtest.NewWitness(t, "W")
	w.Answer(logtest.Says(http.StatusBadGateway, ""))
	log := start(t, open(t, filepath.Join(t.TempDir(), "ledger.db")),
		policy(t, "witness w "+w.Key+" "+w.Serve(t), "quorum w"))
	check.WantCode(t, log.Check(t.Context()), "log_unwitnessed", "no heartbeat")
	run(t, log)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	check.WantCode(t, log.Check(ctx), "log_unwitnessed")
	w.Answer(nil)
	for err := error(nil); ; {
		if err = log.Check(t.Context()); err == nil {
			break
		}
		check.WantCode(t, err, "log_unwitnessed") // the heartbeat is not stored yet
	}
}

// TestRotated: with a new key the tree goes on, and its last checkpoint is signed again.
func TestRotated(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	add(t, store, 0, 3)
	check.Must(t, start(t, store, policy(t, "quorum none")).Publish(t.Context()))
	next := translog.Unwitnessed(key(t, "M"))
	o := options(t, next)
	o.Key, o.Former = key(t, "M"), []translog.Key{key(t, "L")}
	log, err := translog.New(t.Context(), store, o)
	check.Must(t, err, log.Publish(t.Context()))
	proof, err := translog.Prove(t.Context(), store, intent(2))
	check.Must(t, err)
	_, err = next.Verify(proof)
	check.Must(t, err)
	if _, c, err := store.TreeHead(t.Context()); err != nil || c.Signed.Size != 3 {
		t.Errorf("got %+v, %v", c, err)
	}
}
