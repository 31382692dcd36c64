package sidecar

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/trigger"
)

// TestRest: a deployment is observed while sessions are open, and otherwise before somebody relies on an observation
// that is too old.
func TestRest(t *testing.T) {
	t.Parallel()
	manifest := gatetest.New(t).Manifest
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		sessions := session.NewSet(time.Now)
		d := &deployment{own: &daemon.Observer{}, manifest: manifest, log: zap.NewNop(), none: sessions.None,
			more: func() []look.Observation { looks.Add(1); return nil },
			runs: func(context.Context) []*observe.Run { return nil }}
		want := func(after time.Duration, n int64, why string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := looks.Swap(0); got != n {
				t.Errorf("%d observations, want %d: %s", got, n, why)
			}
		}
		d.observe(t.Context(), 0)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.watch(ctx)
		want(time.Hour, 1, "nothing is to be observed")
		for range 3 {
			check.Must(t, d.contradicted(nil))
		}
		want(0, 1, "a post needs a new observation, and the next ones do not")
		want(lookPeriod+1, 0, "nothing is to be observed")
		d.contradictions()
		want(0, 1, "a scrape needs a new observation")
		opened, _, err := sessions.Open(trigger.Event{ID: "evt_1"}, "worker-1", nil)
		check.Must(t, err)
		want(0, 1, "a session has opened")
		check.Must(t, d.contradicted(nil))
		want(0, 0, "the observation is new")
		want(3*lookPeriod, 3, "a session is open")
		sessions.Close(opened.ID)
		want(time.Hour, 0, "the session has ended")
		sessions.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1", "")
		want(0, 1, "a standing session has opened")
	})
}
