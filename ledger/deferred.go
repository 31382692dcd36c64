package ledger

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/actionproof/mediator/internal/failpoint"
)

// Deferred is a store that also takes what nobody waits for: the outcome of a post whose answer is there, and the record of a call that
// needed no evidence. Nothing rests on either. What it has taken is stored soon, and before anything is read from it or it is closed; what a
// crash takes away is an outcome, which leaves its post indeterminate, or the record of such a call. It is safe for concurrent use.
type Deferred struct {
	Store
	failed         func(Post, error)
	places         *semaphore.Weighted
	finish, record takeLater
}

// takeLater takes a record, and tells once how storing it went. An error means that it was not taken.
type takeLater func(ctx context.Context, p Post, stored func(error)) error

const (
	// maxDeferred bounds what has been taken and is not stored yet; a further one waits.
	maxDeferred = 1024
	// deferredTimeout bounds the time that storing one may take.
	deferredTimeout = 10 * time.Second
)

// Defer makes a Deferred of a store. failed is told of each record that could not be stored after it was taken.
func Defer(s Store, failed func(p Post, err error)) *Deferred {
	d := &Deferred{Store: s, failed: failed, places: semaphore.NewWeighted(maxDeferred)}
	if l, ok := s.(*Ledger); ok { // stores it with what somebody waits for
		d.finish, d.record = l.finishLater, l.recordLater
	} else {
		d.finish, d.record = beside(s.Finish), beside(s.Record)
	}
	return d
}

// beside stores what it takes while its caller goes on.
func beside(store func(context.Context, Post) error) takeLater {
	return func(ctx context.Context, p Post, stored func(error)) error {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deferredTimeout)
			defer cancel()
			stored(store(ctx, p))
		}()
		return nil
	}
}

// FinishLater takes an outcome for Finish. An error means that it was not taken.
func (d *Deferred) FinishLater(ctx context.Context, p Post) error { return d.take(ctx, p, d.finish) }

// RecordLater takes a record for Record. An error means that it was not taken.
func (d *Deferred) RecordLater(ctx context.Context, p Post) error { return d.take(ctx, p, d.record) }

func (d *Deferred) take(ctx context.Context, p Post, later takeLater) error {
	if err := d.places.Acquire(ctx, 1); err != nil {
		return Unavailable("wait for the writer", err)
	}
	err := later(ctx, p, func(err error) {
		if err != nil {
			go d.lost(p, err) // it may take its time
			return
		}
		failpoint.Reach("recorded")
		d.places.Release(1)
	})
	if err != nil {
		d.places.Release(1)
	}
	return err
}

func (d *Deferred) lost(p Post, err error) {
	d.failed(p, err)
	d.places.Release(1)
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
