package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// maxReceipts bounds the receipts that wait to be stored.
const maxReceipts = 4096

// maxForked bounds the sessions known to have forked. A further one stops the receipts of all.
const maxForked = 4096

// receiptQueue are the receipts in a queue. They are stored in order, all that wait or none, so that a crash leaves no
// gap in a chain. Only a session with a forked chain is left out, for good. The queue's mutex guards them.
type receiptQueue struct {
	receipts []Receipt               // that wait to be stored
	forked   map[string]*ForkedError // by session
	stored   int                     // how many were stored so far

	hurry         chan struct{} // has the next attempt begin at once
	began, failed int           // the last attempt that began, and the last that failed, by number
}

// AddReceiptLater takes a receipt for AddReceipts, and never waits. An error means that it was not taken; a
// [*ForkedError] means that no receipt of its session will be. A crash loses queued receipts, and leaves their calls
// open.
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

// SettleReceipts waits until every receipt of a session taken before is stored, or an attempt begun after that has
// failed. If the store has failed, the attempt begins at once: a store that is back refuses nobody. If the chain has
// forked, it returns a [*ForkedError].
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
		default: // a signal waits already
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

// storeWith stores records and receipts together. If that fails, the receipts get a transaction of their own: a bad
// record does not hold them up. It returns the error of each record, the receipts without those of forked chains, and
// why those are not stored. ctx has a deadline.
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

// leaveOut removes the receipts of a session from the queue if err is that its chain has forked, and reports whether it
// is.
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

// take removes stored receipts from the queue, or all if the queue is closed, and returns how many. The caller holds
// q.mu.
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
