// Package every yields at a fixed interval until a context ends.
package every

import (
	"context"
	"iter"
	"time"
)

// Tick yields once each period until ctx ends, for the first time after one period. A tick that comes while the loop's body
// runs waits; further ones are dropped.
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
