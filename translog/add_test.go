package translog_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

func openSession(log *translog.Log, id string) {
	log.Add(leaf.SessionOpened, id, leaf.Document{Session: id})
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
	openSession(log, "ses_1")
	check.WantCode(t, <-failures, "ledger_unavailable")
	store.fails.Store(false)
	id := leaf.ID(leaf.SessionOpened, "ses_1")
	for err = ledger.ErrNotFound; errors.Is(err, ledger.ErrNotFound); { // until the next attempt
		err = log.Wait(t.Context(), id)
	}
	check.Must(t, err)
	stop()
	<-ended
	openSession(log, "ses_2")
	check.Must(t, log.Close(t.Context()))
	f, err := store.Leaf(t.Context(), leaf.ID(leaf.SessionOpened, "ses_2"))
	head, c, unread := store.TreeHead(t.Context())
	if check.Must(t, err, unread); f.Index != head.Size-1 || c.Accepted.Size != head.Size {
		t.Errorf("the leaf has the number %d of %d, and %d are accepted", f.Index, head.Size, c.Accepted.Size)
	}
}

// TestLate: what waited while the store failed is not backdated afterwards, though a post came first.
func TestLate(t *testing.T) {
	store := &failing{Log: open(t, filepath.Join(t.TempDir(), "ledger.db"))}
	store.fails.Store(true)
	var later atomic.Int64
	failures := make(chan error, 1000)
	o := options(t, policy(t, "quorum none"))
	o.Now = func() time.Time { return now.Add(time.Duration(later.Load())) }
	o.Failed = func(err error) { failures <- err }
	log, err := translog.New(t.Context(), store, o)
	check.Must(t, err)
	run(t, log)
	openSession(log, "ses_1")
	check.WantCode(t, <-failures, "ledger_unavailable")
	later.Store(int64(10 * time.Minute))
	post := leaf.New(leaf.Intent, o.Now(), leaf.Document{Post: "post_1"}).Leaf("post_1")
	check.Must(t, store.Log.AddLeaves(t.Context(), post))
	store.fails.Store(false)
	for err = ledger.ErrNotFound; errors.Is(err, ledger.ErrNotFound); {
		err = log.Wait(t.Context(), leaf.ID(leaf.SessionOpened, "ses_1"))
	}
	check.Must(t, err)
	server := httptest.NewServer(translog.Handler(store))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	r, err := translog.Audit(t.Context(), translog.Fetch(server.Client(), server.URL), o.Policy, nil, nil)
	check.Must(t, err)
	if len(r.Findings) > 0 {
		t.Errorf("got %+v", r.Findings)
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
