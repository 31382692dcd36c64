package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// maxReceipts bounds the receipts that wait to be stored.
const maxReceipts = 4096

// maxForked bounds the sessions that are known to have forked. A further one stops the receipts of all.
const maxForked = 4096

// receiptQueue are the receipts in a queue. They are stored in the order in which they came, all that wait or none:
// what a crash leaves of a chain has no gap. Only a session whose chain has forked is left out, for good. The queue's
// mutex guards them.
type receiptQueue struct {
	receipts []Receipt               // that wait to be stored
	forked   map[string]*ForkedError // by session
	stored   int                     // how many were stored so far

	hurry         chan struct{} // has the next attempt begin at once
	began, failed int           // the last attempt that began, and the last that failed, by number
}

// AddReceiptLater takes a receipt for AddReceipts, and never waits. An error means that it was not taken, a
// [*ForkedError] that none of its session will be. A receipt that is still queued when the process ends is lost: its
// call is still open then.
func (q *Queue) AddReceiptLater(r Receipt) error {
	if err := r.Check(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch fork := q.forked[r.Session]; {
	case q.closed:
		return ErrClosed
	case fork != nil:
		return fork
	case len(q.receipts) >= maxReceipts:
		return Unavailable("keep another receipt", errors.New("as many as may be are waiting to be stored"))
	}
	q.receipts = append(q.receipts, r)
	q.changed.Broadcast()
	return nil
}

// SettleReceipts waits until every receipt of a session is stored that was taken before, or until an attempt has failed
// that began after that. If the store has failed, the attempt begins at once: nobody is refused because of a store that
// has come back. If the session's chain has forked, it returns a [*ForkedError].
func (q *Queue) SettleReceipts(ctx context.Context, session string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo, began := int64(0), q.began
	for _, r := range q.receipts {
		if r.Session == session {
			upTo = r.Number
		}
	}
	stored := func() bool {
		return !slices.ContainsFunc(q.receipts, func(r Receipt) bool { return r.Session == session && r.Number <= upTo })
	}
	if !stored() && q.failure != nil {
		select {
		case q.hurry <- struct{}{}:
		default: // it is told already
		}
	}
	if err := q.wait(ctx, func() bool { return stored() || q.failed > began }); err != nil {
		return err
	}
	switch fork := q.forked[session]; {
	case fork != nil:
		return fork
	case !stored():
		return q.failure
	}
	return nil
}

// Stored returns how many receipts the queue has stored.
func (q *Queue) Stored() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stored
}

// storeWith stores records and receipts together. If the transaction fails, the receipts get one of their own: a record
// that cannot be stored does not hold them up. It returns the error of each record, the receipts without those of
// chains that have forked, and why those are not stored. ctx has a deadline.
func (q *Queue) storeWith(ctx context.Context, all []*queued, receipts []Receipt) (errs []error, rest []Receipt,
	unkept error) {
	if len(receipts) == 0 {
		return q.store(ctx, all), nil, nil
	}
	rest = receipts
	for unkept = q.write(ctx, all, rest); q.leaveOut(unkept); unkept = q.write(ctx, all, rest) {
		rest = slices.DeleteFunc(rest, func(r Receipt) bool { return q.hasForked(r.Session) })
	}
	if unkept == nil || len(all) == 0 {
		return make([]error, len(all)), rest, unkept
	}
	var both sync.WaitGroup
	both.Go(func() { errs = q.store(ctx, all) })
	both.Go(func() { unkept = q.write(ctx, nil, rest) })
	both.Wait()
	return errs, rest, unkept
}

// leaveOut takes the receipts of a session out of the queue if err says that its chain has forked, and reports whether
// it does.
func (q *Queue) leaveOut(err error) bool {
	var fork *ForkedError
	if !errors.As(err, &fork) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.forked) == maxForked || q.forked[fork.Session] != nil {
		return false
	}
	q.forked[fork.Session] = fork
	q.receipts = slices.DeleteFunc(q.receipts, func(r Receipt) bool { return r.Session == fork.Session })
	q.changed.Broadcast()
	return true
}

func (q *Queue) hasForked(session string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.forked[session] != nil
}

// take takes receipts from the queue that were stored, or of which nothing can be done any more as the queue is closed.
// It returns how many. The caller holds q.mu.
func (q *Queue) take(receipts []Receipt, unkept error, last bool) int {
	if unkept != nil && !last {
		return 0
	}
	q.receipts = slices.Delete(q.receipts, 0, len(receipts))
	if unkept == nil {
		q.stored += len(receipts)
	}
	return len(receipts)
}
