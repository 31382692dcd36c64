package credential

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/actionproof/mediator/custody"
)

const (
	// fetchTimeout bounds one renewal, which goes on without the call that began it.
	fetchTimeout = 30 * time.Second
	// unknownLife is the time for which a value without an end is used.
	unknownLife = time.Hour
	// renewalPause is the least time between a renewal and the next one that a failure or an upstream's 401 causes: an
	// agent may find a call that always gets 401.
	renewalPause = 10 * time.Second
)

// renewed is a value that a server makes for some time. It is renewed when it is used in the last part of its life, so
// an idle process renews nothing. If that fails, it is used to its end.
type renewed struct {
	fetch  func(context.Context) (Value, error)
	now    func() time.Time
	part   time.Duration // of a life: 10 is its last tenth
	flight singleflight.Group

	mu    sync.Mutex // guards the fields below
	value Value
	until time.Time // to be renewed after that time
	tried time.Time // when the last renewal ended
	err   error     // of it
}

// Renewed is the source of values that fetch makes, one at a time. fetch's errors must have a code and hold no secret.
func Renewed(now func() time.Time, fetch func(context.Context) (Value, error)) Source {
	return &renewed{fetch: fetch, now: now, part: 10}
}

func (r *renewed) Current(ctx context.Context) (Value, error) {
	if v, ok, err := r.held(); ok {
		return v, err
	}
	wait := r.flight.DoChan("", func() (any, error) {
		if v, ok, err := r.held(); ok { // another call has renewed it
			return v, err
		}
		// Not the call's context: its rule's way to the host, and its session's share of connections, are not for
		// others.
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		v, err := r.fetch(ctx)
		return r.keep(v, err)
	})
	select {
	case got := <-wait:
		v, _ := got.Val.(Value)
		return v, got.Err
	case <-ctx.Done():
		return Value{}, custody.Unavailable(ctx.Err(), "the rule's credential was not renewed in time")
	}
}

// held returns what can be said without a renewal.
func (r *renewed) held() (v Value, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	switch {
	case r.lives(now) && now.Before(r.until):
		return r.value, true, nil
	case r.err != nil && now.Before(r.tried.Add(renewalPause)):
		if r.lives(now) {
			return r.value, true, nil
		}
		return Value{}, true, r.err
	}
	return Value{}, false, nil
}

func (r *renewed) lives(now time.Time) bool {
	return r.value.Secret != "" && (r.value.End.IsZero() || now.Before(r.value.End))
}

func (r *renewed) keep(v Value, err error) (Value, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.tried, r.err = now, err
	if err != nil {
		if r.lives(now) {
			return r.value, nil
		}
		return Value{}, err
	}
	v.Read, r.until = now, now.Add(unknownLife)
	if !v.End.IsZero() {
		r.until = v.End.Add(-v.End.Sub(now) / r.part)
	}
	r.value = v
	return v, nil
}

func (r *renewed) Refused(v Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v == r.value && r.now().Sub(r.tried) >= renewalPause {
		r.value, r.err = Value{}, nil
	}
}
