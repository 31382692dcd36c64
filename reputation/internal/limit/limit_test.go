package limit_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/internal/limit"
)

// TestRefusedTakeNothing floods a bucket from many goroutines. Once the flood is over, the bucket has what it earns.
func TestRefusedTakeNothing(t *testing.T) {
	const burst = 10
	bucket, now, limited := rate.NewLimiter(1, burst), time.Unix(1e9, 0), refusal.New("rate_limited", "too many")
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 2000 {
				_ = limit.Take(bucket, now, 1, limited)
			}
		})
	}
	all.Wait()
	if left := bucket.TokensAt(now); left != 0 {
		t.Errorf("%g are left of %d", left, burst)
	}
	var later refusal.Later
	if err := limit.Take(bucket, now, 3, limited); !errors.As(err, &later) || later.Seconds != 3 {
		t.Errorf("refused with %v, to try again after %d s", err, later.Seconds)
	}
	if err := limit.Take(bucket, now.Add(3*time.Second), 3, limited); err != nil {
		t.Error(err)
	}
}
