package every_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/internal/every"
)

func TestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		began, n := time.Now(), 0
		for now := range every.Tick(ctx, time.Second) {
			if n++; now.Sub(began) != time.Duration(n)*time.Second {
				t.Errorf("tick %d after %s", n, now.Sub(began))
			}
		}
		if n != 3 {
			t.Errorf("%d ticks in three and a half periods", n)
		}
		for range every.Tick(t.Context(), time.Second) {
			return // and nothing is left behind, otherwise the bubble does not end
		}
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := every.Sleep(ctx, time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := every.Sleep(ctx, time.Hour); err == nil || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
