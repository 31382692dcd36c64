// Package every runs a loop at a fixed interval until its context ends.
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
