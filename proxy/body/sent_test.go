package body_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/proxy/body"
)

// TestNoDeadlineAfterTheCall: net/http panics if a deadline is set after the handler, over HTTP/2.
func TestNoDeadlineAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int32
		b := body.Stream(io.NopCloser(strings.NewReader("")), time.Minute, func(time.Time) error {
			set.Add(1)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		stop := b.Until(ctx, func(context.Context) error {
			time.Sleep(time.Second)
			return errors.New("its rule expired")
		})
		cancel()
		synctest.Wait()
		stop()
		time.Sleep(time.Minute)
		_, _ = b.Read(nil)
		if n := set.Load(); n > 0 {
			t.Errorf("%d deadlines", n)
		}
	})
}
