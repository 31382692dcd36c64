// Package limit refuses what exceeds a rate, and says when to try again.
package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
)

// Take takes n tokens from a bucket. If it has fewer, Take takes none and returns r with the time to wait. It cancels
// no reservation: that would take or give tokens when several are made at once.
func Take(bucket *rate.Limiter, now time.Time, n int, r *refusal.Refusal) error {
	if bucket.AllowN(now, n) {
		return nil
	}
	missing := float64(n) - bucket.TokensAt(now)
	return After(time.Duration(missing/float64(bucket.Limit())*float64(time.Second)), r)
}

// After returns r with the time to wait.
func After(wait time.Duration, r *refusal.Refusal) error {
	return refusal.Later{Refusal: r, Seconds: max(1, int(math.Ceil(wait.Seconds())))}
}
