package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

func TestSharedLedger(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	to := newNode()
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var queues []*ledger.Queue
	for i := range 3 {
		store, err := postgres.Open(t.Context(), dsn, postgres.Options{Now: time.Now, Instance: fmt.Sprint(i)})
		check.Must(t, err)
		q := ledger.NewQueue(store, func(r ledger.Record, err error) { t.Errorf("%s is lost: %v", r.ID, err) })
		t.Cleanup(func() { q.Close() })
		queues = append(queues, q)
	}
	const sessions, each = 100, 3
	for i := range sessions {
		for n := int64(1); n <= each; n++ {
			session := fmt.Sprintf("ses_%03d", i)
			r := ledger.Receipt{Session: session, Number: n, Call: fmt.Sprintf("post_%d_%d", i, n), Signed: time.Now(),
				Token: token(session, n)}
			if err := queues[0].AddReceipts(t.Context(), r); err != nil { // of a sidecar that hands nothing over
				t.Fatal(err)
			}
		}
	}
	for _, q := range queues[1:] {
		senders.Go(func() { client.NewSender(to, q, time.Now, zap.NewNop()).Run(ctx) })
	}
	defer senders.Wait()
	defer cancel()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b, err := queues[0].Backlog(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", b, err)
		}
		if b.Receipts == 0 {
			break
		}
	}
	to.do(func() {
		if to.again != 0 || len(to.kept) != sessions {
			t.Errorf("%d receipts were handed over again, and the node has %d sessions", to.again, len(to.kept))
		}
	})
}
