package translog

import (
	"context"
	"time"
)

// firstRetry and lastRetry bound the pauses after the store, the key or a witness has failed.
const firstRetry, lastRetry = time.Second, 10 * time.Second

// repeat calls do with each value of work until ctx ends. After a failure it calls do again after a pause, with the
// newest value.
func repeat[T any](ctx context.Context, work <-chan T, do func(T) error, failed func(error)) {
	var newest T
	var pause time.Duration
	var again <-chan time.Time // set after a failure
	for {
		select {
		case <-ctx.Done():
			return
		case newest = <-work:
		case <-again:
		}
		err := do(newest)
		if ctx.Err() != nil {
			return
		}
		if pause, again = retryAfter(pause, err), nil; err != nil {
			failed(err)
			again = time.After(pause)
		}
	}
}

// retryAfter returns the pause before the next attempt.
func retryAfter(last time.Duration, err error) time.Duration {
	if err == nil {
		return 0
	}
	return min(max(2*last, firstRetry), lastRetry)
}
