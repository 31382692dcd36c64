package cond_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/internal/cond"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		changed, n := sync.NewCond(&mu), 0
		go func() {
			for range 3 {
				time.Sleep(time.Second)
				mu.Lock()
				n++
				changed.Broadcast()
				mu.Unlock()
			}
		}()
		mu.Lock()
		defer mu.Unlock()
		if err := cond.Wait(t.Context(), changed, func() bool { return n == 2 }); err != nil || n != 2 {
			t.Errorf("%d: %v", n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := cond.Wait(ctx, changed, func() bool { return n > 3 }); !errors.Is(err, context.DeadlineExceeded) || n != 3 {
			t.Errorf("%d: %v", n, err)
		}
	})
}
