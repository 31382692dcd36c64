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
	// renewalPause is the time between a failed renewal and the next one.
	renewalPause = 10 * time.Second
	// patience bounds how long a call waits for a renewal while the value still lives.
	patience = time.Second
	// A value that an upstream refuses with 401 is renewed only after a part of its life, at most refusedMost: an agent
	// may find a call that always gets 401, and others use the same value.
	refusedPart, refusedMost = 20, 5 * time.Minute
)

// renewed is a value that a server makes for some time. It is renewed when it is used in the last part of its life, so
// an idle process renews nothing. If that fails or takes long, it is used to its end.
type renewed struct {
	fetch  func(context.Context) (Value, error)
	now    func() time.Time
	part   time.Duration // of a life: 10 is its last tenth
	flight singleflight.Group

	mu    sync.Mutex // guards the fields below
	value Value
	life  time.Duration // of the value, when it was new
	until time.Time     // to be renewed after that time
	tried time.Time     // when the last renewal ended
	err   error         // of it
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
	late := time.After(patience)
	for {
		select {
		case got := <-wait:
			v, _ := got.Val.(Value)
			return v, got.Err
		case <-late:
			if v, lives := r.living(); lives {
				return v, nil
			}
		case <-ctx.Done():
			return Value{}, custody.Unavailable(ctx.Err(), "the rule's credential was not renewed in time")
		}
	}
}

func (r *renewed) living() (Value, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.lives(r.now())
}

// held returns what can be said without a renewal.
func (r *renewed) held() (v Value, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	failed := r.err != nil && now.Before(r.tried.Add(renewalPause))
	switch {
	case r.lives(now) && (failed || now.Before(r.until)):
		return r.value, true, nil
	case failed:
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
	if err == nil && !v.End.IsZero() && !now.Before(v.End) {
		err = custody.Unavailable(nil, "the rule's credential had ended at %s, when it was made: is a clock wrong?",
			v.End.UTC().Format(time.RFC3339))
	}
	r.tried, r.err = now, err
	if err != nil {
		if r.lives(now) {
			return r.value, nil
		}
		return Value{}, err
	}
	v.Read, r.life, r.until = now, unknownLife, now.Add(unknownLife)
	if !v.End.IsZero() {
		r.life = v.End.Sub(now)
		r.until = v.End.Add(-r.life / r.part)
	}
	r.value = v
	return v, nil
}

// Refused makes the next use renew the value. If that fails, the value is used to its end, as the refusal may be of one
// call alone.
func (r *renewed) Refused(v Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := min(max(r.life/refusedPart, renewalPause), refusedMost)
	if now := r.now(); v == r.value && now.Sub(r.tried) >= pause {
		r.until = now
	}
}
