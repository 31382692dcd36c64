package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/actionproof/mediator/internal/cond"
	"github.com/actionproof/mediator/internal/every"
)

const maxReceipts = 4096

// maxForked bounds the sessions known to have forked. One more stops the receipts of all.
const maxForked = 4096

// receiptQueue holds a queue's receipts. They are stored in order, all or none, so that a crash leaves no gap in a
// chain. Only sessions with a forked chain are left out, for good. The queue's mutex guards it.
type receiptQueue struct {
	receipts []Receipt               // queued
	forked   map[string]*ForkedError // by session
	stored   int                     // how many so far

	hurry         chan struct{} // makes the next attempt begin at once
	began, failed int           // numbers of the last attempt that began and the last that failed
}

// AddReceiptLater queues a receipt for AddReceipts, and never waits. The next attempt begins at once, because the
// session's next post needs the receipt. An error means that it was not taken; a [*ForkedError] means that none of its
// session will be. A crash loses queued receipts and leaves their calls open.
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
		return Unavailable("keep another receipt", errors.New("too many are waiting to be stored"))
	}
	q.receipts = append(q.receipts, r)
	q.changed.Broadcast()
	if q.failure == nil {
		every.Signal(q.hurry)
	}
	return nil
}

// SettleReceipts waits until the session's receipts are stored, or a later attempt has failed. If the store has failed,
// the next attempt begins at once, because the store may be back. If the chain has forked, it returns a [*ForkedError].
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
		return !slices.ContainsFunc(q.receipts, func(r Receipt) bool {
			return r.Session == session && r.Number <= upTo
		})
	}
	if !stored() && q.failure != nil {
		every.Signal(q.hurry)
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

// Stored returns the number of receipts that this queue has stored, as soon as it is not known, or when ctx ends.
func (q *Queue) Stored(ctx context.Context, known int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = cond.Wait(ctx, q.changed, func() bool { return q.stored != known }) // the number is right in any case
	return q.stored
}

// storeWith stores records and receipts together. If that fails, the receipts get their own transaction, so that no bad
// record delays them. It returns each record's error, the receipts except those of forked chains, and why those are not
// stored. ctx has a deadline.
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

// leaveOut removes the receipts of a session with a forked chain, and reports whether err is of one.
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

// take removes stored receipts from the queue, or all if the queue is closed, and returns their number. The caller
// holds q.mu.
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
