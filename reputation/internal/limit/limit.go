// Package limit refuses what exceeds a rate, and says when to try again.
package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
)

// Take takes n tokens from a bucket. If it has fewer, Take takes none and returns r with the time to wait.
func Take(bucket *rate.Limiter, now time.Time, n int, r *refusal.Refusal) error {
	reserved := bucket.ReserveN(now, n)
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reserved.CancelAt(now)
	return After(wait, r)
}

// After returns r with the time to wait.
func After(wait time.Duration, r *refusal.Refusal) error {
	return refusal.Later{Refusal: r, Seconds: max(1, int(math.Ceil(wait.Seconds())))}
}
