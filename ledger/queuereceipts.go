package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// maxReceipts bounds the receipts that wait to be stored.
const maxReceipts = 4096

// receiptQueue are the receipts in a queue. They are stored in the order in which they came, all that wait or none: what a crash leaves of a
// chain has no gap. The queue's mutex guards them.
type receiptQueue struct {
	receipts []Receipt // that wait to be stored
	came     int       // how many were taken
	left     int       // how many of them are stored

	hurry         chan struct{} // has the next attempt begin at once
	began, failed int           // the last attempt that began, and the last that failed, by number
}

// AddReceiptLater takes a receipt for AddReceipts, and never waits. An error means that it was not taken. A receipt that is still queued when
// the process ends is lost: its call is still open then.
func (q *Queue) AddReceiptLater(r Receipt) error {
	if err := r.Check(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case len(q.receipts) >= maxReceipts:
		return Unavailable("keep another receipt", errors.New("as many as may be are waiting to be stored"))
	}
	q.receipts = append(q.receipts, r)
	q.came++
	q.changed.Broadcast()
	return nil
}

// SettleReceipts waits until every receipt is stored that was taken before, or until an attempt has failed that began after that. If the store
// has failed, the attempt begins at once: nobody is refused because of a store that has come back.
func (q *Queue) SettleReceipts(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo, began := q.came, q.began
	if q.left < upTo && q.failure != nil {
		select {
		case q.hurry <- struct{}{}:
		default: // it is told already
		}
	}
	if err := q.wait(ctx, func() bool { return q.left >= upTo || q.failed > began }); err != nil {
		return err
	}
	if q.left < upTo {
		return q.failure
	}
	return nil
}

// Stored returns how many receipts the queue has stored.
func (q *Queue) Stored() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// storeWith stores records and receipts together. If the transaction fails, the receipts get one of their own: a record that cannot be stored
// does not hold them up. It returns the error of each record, and why the receipts are not stored. ctx has a deadline.
func (q *Queue) storeWith(ctx context.Context, all []*queued, receipts []Receipt) (errs []error, unkept error) {
	if len(receipts) == 0 {
		return q.store(ctx, all), nil
	}
	if unkept = q.write(ctx, all, receipts); unkept == nil || len(all) == 0 {
		return make([]error, len(all)), unkept
	}
	var both sync.WaitGroup
	both.Go(func() { errs = q.store(ctx, all) })
	both.Go(func() { unkept = q.write(ctx, nil, receipts) })
	both.Wait()
	return errs, unkept
}

// take takes receipts from the queue that were stored, or of which nothing can be done any more as the queue is closed. It returns how many.
// The caller holds q.mu.
func (q *Queue) take(receipts []Receipt, unkept error, last bool) int {
	if unkept != nil && !last {
		return 0
	}
	q.receipts = slices.Delete(q.receipts, 0, len(receipts))
	if unkept == nil {
		q.left += len(receipts)
	}
	return len(receipts)
}
