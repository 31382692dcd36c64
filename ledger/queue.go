package ledger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/cond"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/share"
)

const (
	// maxQueued bounds the queue for records without a place: see [Queue.Reserve].
	maxQueued = 1024
	// waitTimeout bounds a caller's wait for the queue.
	waitTimeout = 10 * time.Second
	// storeTimeout bounds one attempt. It is below waitTimeout, so that a waiting caller learns of the failure.
	storeTimeout = 8 * time.Second
	// closeTimeout bounds Close: the rest of the current attempt and the last one.
	closeTimeout = 10 * time.Second
	// gatherPause lets records gather for one transaction.
	gatherPause = 5 * time.Millisecond
	// firstRetry and lastRetry bound the pauses after failed attempts.
	firstRetry, lastRetry = 250 * time.Millisecond, 4 * time.Second
)

// Queue is a store that also takes records for which no caller waits. It stores them together a few milliseconds
// later, and retries while the store fails. A crash loses queued records; a post without its outcome becomes
// indeterminate. A Queue is safe for concurrent use.
type Queue struct {
	Store
	// Ended gets each call whose end is stored.
	Ended Ended
	lost  func(Record, error)
	close func() error
	done  chan struct{} // closed when run has ended

	mu      sync.Mutex
	changed *sync.Cond // broadcast when anything below changes
	records []*queued  // in order of arrival; a record that failed moves to the end
	// reserved has the reserved places, by record. places also counts the queued records that had one.
	reserved map[string]place
	places   share.Pool
	most     int64 // places, at the last Reserve
	added    int   // all records taken so far
	tried    int   // of them, those with an attempt
	failure  error // why the store fails; nil after an attempt that stored everything
	receiptQueue
	closed  bool
	closing chan struct{} // closed with closed
}

type queued struct {
	Record
	outcome bool // of a post that had begun
	place   place
	tried   bool
}

// place is a party's room for one record: n places. The zero place is none.
type place struct {
	party string
	n     int64
}

// placeSize is the length of a path, in bytes, from which a record takes a further place: the agent chooses it, and a
// long one would otherwise take much memory, and hold up others' records while it is stored.
const placeSize = 4 << 10

// NewQueue makes a queue in front of s. It calls lost for each record that it took but could not store.
func NewQueue(s Store, lost func(r Record, err error)) *Queue {
	q := &Queue{Store: s, lost: lost, done: make(chan struct{}), closing: make(chan struct{}),
		reserved: make(map[string]place), most: maxQueued}
	q.hurry, q.forked = make(chan struct{}, 1), make(map[string]*ForkedError)
	q.changed = sync.NewCond(&q.mu)
	ctx, cancel := context.WithCancel(context.Background())
	q.close = sync.OnceValue(func() error {
		defer cancel()
		defer time.AfterFunc(closeTimeout, cancel).Stop()
		q.mu.Lock()
		q.closed = true
		close(q.closing)
		q.changed.Broadcast()
		q.mu.Unlock()
		<-q.done
		return s.Close()
	})
	go q.run(ctx)
	return q
}

// Reserve takes a place for the record of a party's call, so that FinishLater or AddLater surely takes it, or several
// if its path is long. inFlight is the number of calls that may be in flight. A party's calls in flight and queued
// records together take at most as many places as they leave free ([share.Pool]). Without a place Reserve returns an
// [*Error].
func (q *Queue) Reserve(r Record, party string, inFlight int) error {
	p := place{party, int64(1 + len(r.Path)/placeSize)}
	q.mu.Lock()
	defer q.mu.Unlock()
	// Twice, because a session alone gets half of the places, and so half of the queue beside all its calls.
	q.most = maxQueued + 2*int64(inFlight)
	if !q.places.Take(p.party, p.n, q.most) {
		return errFull
	}
	q.reserved[r.ID] = p
	return nil
}

// Release gives back the place of a record that the queue did not get.
func (q *Queue) Release(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p, ok := q.reserved[id]; ok {
		delete(q.reserved, id)
		q.places.Give(p.party, p.n)
	}
}

var errFull = Unavailable("keep another record", errors.New("too many are waiting to be stored"))

// FinishLater queues an outcome for Finish. An error means that it was not taken.
func (q *Queue) FinishLater(r Record) error { return q.add(r, true) }

// AddLater queues a record for Add. An error means that it was not taken.
func (q *Queue) AddLater(r Record) error { return q.add(r, false) }

func (q *Queue) add(r Record, outcome bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, placed := q.reserved[r.ID]
	switch {
	case q.closed:
		return ErrClosed
	case !placed && len(q.records) >= maxQueued:
		return errFull
	}
	delete(q.reserved, r.ID)
	q.records = append(q.records, &queued{Record: r, outcome: outcome, place: p})
	q.added++
	q.changed.Broadcast()
	return nil
}

// Finish stores the outcome of a post: see [Store].
func (q *Queue) Finish(ctx context.Context, r Record) error { return q.pass(r, q.Store.Finish(ctx, r)) }

// Add stores the record of a call that is over: see [Store].
func (q *Queue) Add(ctx context.Context, r Record) error { return q.pass(r, q.Store.Add(ctx, r)) }

func (q *Queue) pass(r Record, err error) error {
	if err == nil {
		q.Ended.add(r)
	}
	return err
}

// Full returns an [*Error] while a new session would get no place.
func (q *Queue) Full() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	const newcomer = "a new session"
	if !q.places.Take(newcomer, 1, q.most) {
		return errFull
	}
	q.places.Give(newcomer, 1)
	return nil
}

// The caller holds q.mu, which wait releases meanwhile.
func (q *Queue) wait(ctx context.Context, until func() bool) error {
	if until() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := cond.Wait(ctx, q.changed, until); err != nil {
		return Unavailable("wait for the writer", err)
	}
	return nil
}

// run stores queued records until the queue is closed and empty. After an attempt that stored nothing, it probes the
// store with one record.
func (q *Queue) run(ctx context.Context) {
	defer close(q.done)
	pause, probe := gatherPause, false
	for q.next() {
		select {
		case <-time.After(pause):
		case <-q.hurry:
		case <-q.closing:
		}
		switch stored, failed := q.attempt(ctx, probe); {
		case failed == 0:
			pause, probe = gatherPause, false
		case stored > 0:
			pause, probe = firstRetry, false
		default:
			pause, probe = min(max(2*pause, firstRetry), lastRetry), true
		}
	}
}

func (q *Queue) next() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.records)+len(q.receipts) == 0 && !q.closed {
		q.changed.Wait()
	}
	return len(q.records)+len(q.receipts) > 0
}

// attempt tries to store the whole queue, or one record as a probe. It returns how many records and receipts left the
// queue, and how many stay because the store failed. After Close it tries all, and loses those that fail.
func (q *Queue) attempt(ctx context.Context, probe bool) (stored, failed int) {
	q.mu.Lock()
	last, some, receipts := q.closed, slices.Clone(q.records), slices.Clone(q.receipts)
	q.began++
	q.mu.Unlock()
	if probe = probe && !last && len(some) > 1; probe {
		some, receipts = some[:1], nil
	}

	var remaining []*queued
	var failure error
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	errs, receipts, unkept := q.storeWith(ctx, some, receipts)
	for i, err := range errs {
		var away *Error
		switch {
		case err == nil:
			q.Ended.add(some[i].Record)
		case errors.As(err, &away) && !last:
			remaining, failure = append(remaining, some[i]), err
			continue
		default:
			q.lost(some[i].Record, err)
		}
		if p := some[i].place; p.n > 0 {
			q.places.Give(p.party, p.n)
		}
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range some {
		if !r.tried {
			r.tried = true
			q.tried++
		}
	}
	q.records = append(slices.Delete(q.records, 0, len(some)), remaining...)
	failure = cmp.Or(failure, unkept)
	if failure != nil || !probe {
		q.failure = failure
	}
	if failure != nil {
		q.failed = q.began
	}
	kept := q.take(receipts, unkept, last)
	q.changed.Broadcast()
	return len(some) - len(remaining) + kept, len(remaining) + len(receipts) - kept
}

// store stores records in one transaction and returns each one's error. If that fails, it tries each half in its own
// transaction, and so on, so that a few bad records cost the others few transactions. Each half gets half of the time
// left, so that one that hangs leaves time for the others. ctx has a deadline.
func (q *Queue) store(ctx context.Context, all []*queued) []error {
	if err := ctx.Err(); err != nil {
		return slices.Repeat([]error{Unavailable("store the record", err)}, len(all))
	}
	err := q.write(ctx, all, nil)
	switch {
	case err == nil:
		return make([]error, len(all))
	case len(all) == 1:
		return []error{q.inDoubt(ctx, all[0], err)}
	}
	var first, second []error
	var halves sync.WaitGroup
	halves.Go(func() { first = q.store(ctx, all[:len(all)/2]) })
	halves.Go(func() { second = q.store(ctx, all[len(all)/2:]) })
	halves.Wait()
	return append(first, second...)
}

func (q *Queue) write(ctx context.Context, all []*queued, receipts []Receipt) error {
	var outcomes, records []Record
	for _, r := range all {
		if r.outcome {
			outcomes = append(outcomes, r.Record)
		} else {
			records = append(records, r.Record)
		}
	}
	end, _ := ctx.Deadline()
	bounded, cancel := context.WithTimeout(ctx, time.Until(end)/2)
	defer cancel()
	if len(outcomes) > 0 {
		failpoint.Reach("outcome")
	}
	err := q.Store.Write(bounded, outcomes, records, receipts...)
	q.note(err)
	if err == nil {
		failpoint.Reach("recorded")
	}
	return err
}

func (q *Queue) note(err error) {
	if away := new(Error); errors.As(err, &away) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.failure = err
		q.changed.Broadcast()
	}
}

// inDoubt returns the error of a record that could not be stored, or nil if a failed attempt has stored it after all.
func (q *Queue) inDoubt(ctx context.Context, r *queued, err error) error {
	stored, unread := q.Store.Get(ctx, r.ID)
	switch {
	case errors.Is(unread, ErrNotFound):
		return err
	case unread != nil:
		return unread
	case stored.State == r.State:
		return nil
	case stored.State != StateForwarding:
		return ErrState
	case r.State == StateRefused: // the intent was stored, but nothing was sent
		r.State = StateFailed
		return q.Store.Finish(ctx, r.Record)
	}
	return err
}

func (q *Queue) settle(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo := q.added
	return q.wait(ctx, func() bool { return q.tried >= upTo || q.failure != nil })
}

// Get returns a record, after trying to store all earlier ones: see [Store].
func (q *Queue) Get(ctx context.Context, id string) (Record, error) {
	if err := q.settle(ctx); err != nil {
		return Record{}, err
	}
	return q.Store.Get(ctx, id)
}

// Records yields records, after trying to store all earlier ones: see [Store].
func (q *Queue) Records(ctx context.Context, query Query) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := q.settle(ctx); err != nil {
			yield(Record{}, err)
			return
		}
		q.Store.Records(ctx, query)(yield)
	}
}

// Close stores the queue and closes the store. After ten seconds the remaining records are lost.
func (q *Queue) Close() error { return q.close() }
