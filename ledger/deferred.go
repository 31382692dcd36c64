package ledger

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/actionproof/mediator/internal/failpoint"
)

// Deferred is a store that also takes what nobody waits for: the outcome of a post whose answer is there, and the record of a call that
// needed no evidence. Nothing rests on either. What it has taken is stored soon, and before anything is read from it or it is closed; what the
// store cannot take because it is away is kept, and stored when it is back; how much that can be Room tells. What a crash takes away is an outcome, which leaves its post
// indeterminate, or the record of such a call. It is safe for concurrent use.
type Deferred struct {
	Store
	failed         func(Record, error)
	places         *semaphore.Weighted
	kept           atomic.Int64
	finish, record takeLater

	close    func() error
	closing  chan struct{}
	retrying sync.WaitGroup
}

// takeLater takes a record, and tells once how storing it went. An error means that it was not taken.
type takeLater func(ctx context.Context, p Record, stored func(error)) error

const (
	// maxDeferred bounds what has been taken and is not stored yet, where a further one waits, and what is kept while the store is away
	// before there is no Room. Of refusals, of which nothing was sent, a further one is lost then.
	maxDeferred = 1024
	// maxKept bounds what is kept altogether, where a further one is lost: besides the above what was waiting or on its way by then.
	maxKept = 3 * maxDeferred
	// deferredTimeout bounds the time that storing one may take, and that a caller waits for a place.
	deferredTimeout = 10 * time.Second
	// firstPause and lastPause are how long the Deferred waits before it tries again to store what it keeps.
	firstPause, lastPause = 250 * time.Millisecond, 4 * time.Second
)

// Defer makes a Deferred of a store. failed is told of each record that was taken and is lost.
func Defer(s Store, failed func(p Record, err error)) *Deferred {
	d := &Deferred{
		Store: s, failed: failed, places: semaphore.NewWeighted(maxDeferred),
		closing: make(chan struct{}),
	}
	d.close = sync.OnceValue(func() error {
		_ = d.settle(context.Background()) // each has its own bound
		close(d.closing)
		d.retrying.Wait()
		return s.Close()
	})
	if l, ok := s.(*Ledger); ok { // stores it with what somebody waits for
		d.finish, d.record = l.finishLater, l.recordLater
	} else {
		d.finish, d.record = beside(s.Finish), beside(s.Add)
	}
	return d
}

// beside stores what it takes while its caller goes on.
func beside(store func(context.Context, Record) error) takeLater {
	return func(ctx context.Context, p Record, stored func(error)) error {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deferredTimeout)
			defer cancel()
			stored(store(ctx, p))
		}()
		return nil
	}
}

// FinishLater takes an outcome for Finish. An error means that it was not taken.
func (d *Deferred) FinishLater(ctx context.Context, p Record) error { return d.take(ctx, p, d.finish) }

// AddLater takes a record for Record. An error means that it was not taken.
func (d *Deferred) AddLater(ctx context.Context, p Record) error { return d.take(ctx, p, d.record) }

func (d *Deferred) take(ctx context.Context, p Record, later takeLater) error {
	if err := d.place(ctx); err != nil {
		return err
	}
	err := later(ctx, p, func(err error) {
		if err != nil {
			d.keep(p, later, err)
		} else {
			failpoint.Reach("recorded")
		}
		d.places.Release(1)
	})
	if err != nil {
		d.places.Release(1)
	}
	return err
}

// place waits for a place, for no longer than storing may take.
func (d *Deferred) place(ctx context.Context) error {
	if d.places.TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deferredTimeout)
	defer cancel()
	if err := d.places.Acquire(ctx, 1); err != nil {
		return Unavailable("wait for the writer", err)
	}
	return nil
}

// Room returns an [*Error] while the store is away and so many records are kept that the one of a call that is sent now might be lost.
func (d *Deferred) Room() error {
	if d.kept.Load() >= maxDeferred {
		return Unavailable("keep another record", errors.New("as many as may be are waiting for the store to be back"))
	}
	return nil
}

// keep has a record that could not be stored stored later. Readers do not wait for that. It does not wait either.
func (d *Deferred) keep(p Record, later takeLater, err error) {
	limit := int64(maxKept)
	if p.State == StateRefused {
		limit = maxDeferred
	}
	if d.kept.Add(1) > limit {
		d.kept.Add(-1)
		d.retrying.Go(func() { d.failed(p, err) })
		return
	}
	d.retrying.Go(func() {
		defer d.kept.Add(-1)
		if err := d.retry(p, later, err); err != nil {
			d.failed(p, err)
		}
	})
}

// retry stores a record once the store is back, or returns why that cannot be. It tries a last time when the Deferred is closed.
func (d *Deferred) retry(p Record, later takeLater, err error) error {
	var away *Error
	for pause := firstPause; errors.As(err, &away); pause = min(2*pause, lastPause) {
		last := false
		select {
		case <-d.closing:
			last = true
		case <-time.After(pause):
		}
		if err = d.again(p, later); last {
			break
		}
	}
	return err
}

// again tries once more. The attempt before may have stored the record without anybody having learnt of it.
func (d *Deferred) again(p Record, later takeLater) error {
	ctx, cancel := context.WithTimeout(context.Background(), deferredTimeout)
	defer cancel()
	switch kept, err := d.Store.Get(ctx, p.ID); {
	case err == nil && kept.State == p.State:
		return nil
	case err == nil && kept.State != StateForwarding:
		return ErrState
	case err == nil && p.State == StateRefused: // its intent came to be stored after all, and nothing was sent
		p.State, later = StateFailed, d.finish
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	stored := make(chan error, 1)
	if err := later(ctx, p, func(err error) { stored <- err }); err != nil {
		return err
	}
	return <-stored
}

// settle waits until all that has been taken is stored, or is kept because the store is away.
func (d *Deferred) settle(ctx context.Context) error {
	if err := d.places.Acquire(ctx, maxDeferred); err != nil {
		return Unavailable("wait for the writer", err)
	}
	d.places.Release(maxDeferred)
	return nil
}

// Get returns a record, after what has been taken is stored or is kept: see [Store].
func (d *Deferred) Get(ctx context.Context, id string) (Record, error) {
	if err := d.settle(ctx); err != nil {
		return Record{}, err
	}
	return d.Store.Get(ctx, id)
}

// List returns records, after what has been taken is stored or is kept: see [Store].
func (d *Deferred) List(ctx context.Context, q Query) ([]Record, error) {
	if err := d.settle(ctx); err != nil {
		return nil, err
	}
	return d.Store.List(ctx, q)
}

// Close stores what has been taken, and closes the store. Nobody may use it any more by then.
func (d *Deferred) Close() error { return d.close() }
