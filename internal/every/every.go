// Package every lets loops wait: for a fixed interval, for a while or for a signal, until their context ends.
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

// Signal wakes the loop that receives from c, without waiting. c has room for one: a signal that is pending is enough.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
