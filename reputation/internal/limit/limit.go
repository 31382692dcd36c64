// Package limit refuses what exceeds a rate, and says when to try again.
package limit

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/lru"
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

// By keeps the buckets of the keys seen last. It is safe for concurrent use.
type By[K comparable, B any] struct {
	mu    sync.Mutex // guards known
	known *lru.Cache[K, B]
	fresh func() B
}

// NewBy makes the buckets of a new key by fresh, and keeps those of at most most keys.
func NewBy[K comparable, B any](most int, fresh func() B) *By[K, B] {
	return &By[K, B]{known: lru.New[K, B](most), fresh: fresh}
}

// Of returns the buckets of a key.
func (b *By[K, B]) Of(key K) B {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, ok := b.known.Get(key)
	if !ok {
		of = b.fresh()
		b.known.Put(key, of)
	}
	return of
}

// After returns r with the time to wait.
func After(wait time.Duration, r *refusal.Refusal) error {
	return refusal.Later{Refusal: r, Seconds: max(1, int(math.Ceil(wait.Seconds())))}
}
