// Package every lets loops wait: for a fixed interval or for a while, until their context ends.
package every

import (
	"context"
	"iter"
	"time"
)

// Tick yields once per period until ctx ends, first after one period. If the loop is slow, at most one tick waits for
// it.
func Tick(ctx context.Context, period time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}

// Sleep waits for d. If ctx ends first, it returns the error of ctx at once.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake sends to a channel with room for one, unless something waits in it already.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
