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
	"github.com/actionproof/mediator/test/check"
)

func receipt(n int64) ledger.Receipt {
	return ledger.Receipt{Session: "ses_1", Number: n, Call: fmt.Sprint("post_", n), Signed: time.UnixMilli(n).UTC(),
		Token: fmt.Sprint("e30.e30.", n)}
}

func TestQueuedReceipts(t *testing.T) {
	dir := t.TempDir()
	var lost lost
	q := ledger.NewQueue(open(t, dir), lost.add)
	for n := int64(1); n <= 50; n++ {
		unknown := ledger.Record{ID: fmt.Sprint("unknown_", n), State: ledger.StateForwarded, Started: time.Now()}
		check.Must(t, q.FinishLater(unknown), q.AddReceiptLater(receipt(n)))
		if n%10 > 0 {
			continue
		}
		check.Must(t, q.SettleReceipts(t.Context(), "ses_1"))
		if last, err := q.LastReceipt(t.Context(), "ses_1"); err != nil || last != receipt(n) {
			t.Fatalf("after %d: %+v, %v", n, last, err)
		}
	}
	check.Must(t, q.AddReceiptLater(receipt(51)), q.Close())
	if err := q.AddReceiptLater(receipt(52)); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("a closed queue: %v", err)
	}
	chain, err := open(t, dir).Chain(t.Context(), "ses_1", 1, 100)
	if err != nil || len(chain) != 51 || len(lost.ids) != 50 {
		t.Errorf("%d receipts are kept, %d records are lost, %v", len(chain), len(lost.ids), err)
	}
}

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

// A waiting caller learns at once of an outage and of its end.
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
		if err := q.AddLater(ledger.Record{ID: "post_1", State: ledger.StateForwarded}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		var away *ledger.Error
		if err := q.SettleReceipts(t.Context(), "ses_1"); !errors.As(err, &away) || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		s.mu.Lock()
		s.back = true
		s.mu.Unlock()
		if err := q.SettleReceipts(t.Context(), "ses_1"); err != nil || time.Since(began) > 0 {
			t.Errorf("the store is back, after %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		err := errors.Join(q.AddReceiptLater(receipt(taken+1)), q.SettleReceipts(t.Context(), "ses_1"))
		if err != nil || time.Since(began) > 0 {
			t.Errorf("the next post waits %s for a receipt: %v", time.Since(began), err)
		}
		check.Must(t, q.Close())
		numbers := make([]int64, 0, taken+1)
		for _, r := range s.kept {
			numbers = append(numbers, r.Number)
		}
		if int64(len(numbers)) != taken+1 || !slices.IsSorted(numbers) {
			t.Errorf("%d receipts are kept", len(numbers))
		}
	})
}

func TestForkedChain(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	kept := receipt(1)
	kept.Token = "e30.e30.other"
	check.Must(t, store.AddReceipts(t.Context(), kept))
	var lost lost
	q := ledger.NewQueue(store, lost.add)
	of := func(session string, n int64) ledger.Receipt {
		r := receipt(n)
		r.Session, r.Call = session, session+r.Call
		return r
	}
	record := ledger.Record{ID: "post_record", Flow: "egress", State: ledger.StateForwarded, Started: time.Now()}
	// The fork stands before and behind the receipts of another session, and between those of a third one.
	err := errors.Join(q.AddReceiptLater(of("ses_2", 1)), q.AddReceiptLater(receipt(1)), q.AddLater(record),
		q.AddReceiptLater(of("ses_2", 2)), q.AddReceiptLater(of("ses_3", 1)))
	check.Must(t, err)
	forked := new(ledger.ForkedError)
	if err := q.SettleReceipts(t.Context(), "ses_1"); !errors.As(err, &forked) || forked.Session != "ses_1" {
		t.Errorf("the forked session settles with %v", err)
	}
	if err := q.AddReceiptLater(receipt(2)); !errors.Is(err, ledger.ErrForked) {
		t.Errorf("the forked session's next receipt: %v", err)
	}
	for session, want := range map[string]int{"ses_1": 1, "ses_2": 2, "ses_3": 1} {
		if err := q.SettleReceipts(t.Context(), session); session != "ses_1" && err != nil {
			t.Errorf("%s: %v", session, err)
		}
		if chain, err := q.Chain(t.Context(), session, 1, 10); err != nil || len(chain) != want {
			t.Errorf("%s has %d receipts, want %d: %v", session, len(chain), want, err)
		}
	}
	if r, err := q.Get(t.Context(), record.ID); err != nil || r.ID != record.ID {
		t.Errorf("the record: %v", err)
	}
	if err := q.Close(); err != nil || len(lost.ids) > 0 {
		t.Errorf("%v, lost %v", err, lost.ids)
	}
}
