package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/ledger"
)

func receipt(n int64) ledger.Receipt {
	return ledger.Receipt{Session: "ses_1", Number: n, Call: fmt.Sprint("post_", n), Signed: time.UnixMilli(n).UTC(), Token: fmt.Sprint("e30.e30.", n)}
}

// TestQueuedReceipts: they are stored with the records that wait, one that cannot be stored does not hold them up, and closing stores them.
func TestQueuedReceipts(t *testing.T) {
	dir := t.TempDir()
	var lost lost
	q := ledger.NewQueue(open(t, dir), lost.add)
	for n := int64(1); n <= 50; n++ {
		unknown := ledger.Record{ID: fmt.Sprint("unknown_", n), State: ledger.StateForwarded, Started: time.Now()}
		if err := errors.Join(q.FinishLater(t.Context(), unknown), q.AddReceiptLater(receipt(n))); err != nil {
			t.Fatal(err)
		}
		if n%10 > 0 {
			continue
		}
		if err := q.SettleReceipts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last, err := q.LastReceipt(t.Context(), "ses_1"); err != nil || last != receipt(n) {
			t.Fatalf("after %d: %+v, %v", n, last, err)
		}
	}
	if err := errors.Join(q.AddReceiptLater(receipt(51)), q.Close()); err != nil {
		t.Fatal(err)
	}
	if err := q.AddReceiptLater(receipt(52)); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("a closed queue: %v", err)
	}
	chain, err := open(t, dir).Chain(t.Context(), "ses_1", 1, 100)
	if err != nil || len(chain) != 51 || len(lost.ids) != 50 {
		t.Errorf("%d receipts are kept, %d records are lost, %v", len(chain), len(lost.ids), err)
	}
}

// outage is a store of receipts that is away until it is back.
type outage struct {
	ledger.Store
	mu   sync.Mutex
	back bool
	kept []ledger.Receipt
}

func (o *outage) Write(_ context.Context, _, _ []ledger.Record, receipts ...ledger.Receipt) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.back {
		return ledger.Unavailable("write", errors.New("the file is locked"))
	}
	o.kept = append(o.kept, receipts...)
	return nil
}

func (o *outage) Get(context.Context, string) (ledger.Record, error) {
	return ledger.Record{}, ledger.ErrNotFound
}

func (o *outage) Close() error { return nil }

// TestReceiptsWhileTheStoreIsAway: whoever waits for receipts is told at once that it is away or has come back, a bounded number is kept, and they are stored in their order.
func TestReceiptsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &outage{}
		q := ledger.NewQueue(s, func(r ledger.Record, err error) { t.Errorf("lost: %s, %v", r.ID, err) })
		taken := int64(0)
		for q.AddReceiptLater(receipt(taken+1)) == nil {
			taken++
		}
		if taken != 4096 {
			t.Errorf("%d were taken", taken)
		}
		if err := q.AddLater(t.Context(), ledger.Record{ID: "post_1", State: ledger.StateForwarded}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		var away *ledger.Error
		if err := q.SettleReceipts(t.Context()); !errors.As(err, &away) || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		s.mu.Lock()
		s.back = true
		s.mu.Unlock()
		if err := q.SettleReceipts(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("the store is back, after %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		if err := errors.Join(q.AddReceiptLater(receipt(taken+1)), q.SettleReceipts(t.Context()), q.Close()); err != nil {
			t.Error(err)
		}
		numbers := make([]int64, 0, taken+1)
		for _, r := range s.kept {
			numbers = append(numbers, r.Number)
		}
		if int64(len(numbers)) != taken+1 || !slices.IsSorted(numbers) {
			t.Errorf("%d receipts are kept", len(numbers))
		}
	})
}
