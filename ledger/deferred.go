package ledger

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/actionproof/mediator/internal/failpoint"
)

// Deferred is a store that also takes what nobody waits for: the outcome of a post whose answer is there, and the record of a call that
// needed no evidence. Nothing rests on either. What it has taken is stored soon, and before anything is read from it or it is closed; what a
// crash takes away is an outcome, which leaves its post indeterminate, or the record of such a call. It is safe for concurrent use.
type Deferred struct {
	Store
	failed func(Post, error)
	places *semaphore.Weighted

	mu      sync.Mutex // guards waiting
	waiting []deferred
}

// deferred is what has been taken, and how it is stored.
type deferred struct {
	post  Post
	store func(context.Context, Post) error
}

const (
	// linger is how long what has been taken waits for more, so that many share one transaction.
	linger = 5 * time.Millisecond
	// maxDeferred bounds what has been taken and is not stored yet; a further one waits.
	maxDeferred = 1024
	// deferredTimeout bounds the time that storing one may take.
	deferredTimeout = 10 * time.Second
)

// Defer makes a Deferred of a store. failed is told of each record that could not be stored after it was taken.
func Defer(s Store, failed func(p Post, err error)) *Deferred {
	return &Deferred{Store: s, failed: failed, places: semaphore.NewWeighted(maxDeferred)}
}

// FinishLater takes an outcome for Finish. An error means that it was not taken.
func (d *Deferred) FinishLater(ctx context.Context, p Post) error { return d.take(ctx, p, d.Finish) }

// RecordLater takes a record for Record. An error means that it was not taken.
func (d *Deferred) RecordLater(ctx context.Context, p Post) error { return d.take(ctx, p, d.Record) }

func (d *Deferred) take(ctx context.Context, p Post, store func(context.Context, Post) error) error {
	if err := d.places.Acquire(ctx, 1); err != nil {
		return Unavailable("wait for the writer", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		time.AfterFunc(linger, d.store)
	}
	d.waiting = append(d.waiting, deferred{p, store})
	return nil
}

// store stores what is waiting, all at the same time, so that the store can write it together.
func (d *Deferred) store() {
	d.mu.Lock()
	all := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), deferredTimeout)
	var stored sync.WaitGroup
	for _, w := range all {
		stored.Go(func() {
			defer d.places.Release(1)
			if err := w.store(ctx, w.post); err != nil {
				d.failed(w.post, err)
				return
			}
			failpoint.Reach("recorded")
		})
	}
	stored.Wait()
	cancel()
}

// settle waits until all that has been taken is stored, or has failed.
func (d *Deferred) settle(ctx context.Context) error {
	if err := d.places.Acquire(ctx, maxDeferred); err != nil {
		return Unavailable("wait for the writer", err)
	}
	d.places.Release(maxDeferred)
	return nil
}

// Get returns a record, after what has been taken is stored: see [Store].
func (d *Deferred) Get(ctx context.Context, id string) (Post, error) {
	if err := d.settle(ctx); err != nil {
		return Post{}, err
	}
	return d.Store.Get(ctx, id)
}

// List returns records, after what has been taken is stored: see [Store].
func (d *Deferred) List(ctx context.Context, q Query) ([]Post, error) {
	if err := d.settle(ctx); err != nil {
		return nil, err
	}
	return d.Store.List(ctx, q)
}

// Close stores what has been taken, and closes the store. Nobody may use it any more by then.
func (d *Deferred) Close() error {
	_ = d.settle(context.Background()) // each has its own bound
	return d.Store.Close()
}
