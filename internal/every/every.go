// Package every is what watches wait with.
package every

import (
	"context"
	"iter"
	"time"
)

// Tick yields once each period, first when one is over, until ctx ends. A tick that comes while its taker is at work waits; further
// ones are dropped.
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
