package reputation_test

import (
	"context"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/nodetest"
)

const year = 365 * 24 * time.Hour

// wrongClock is a court whose clock of disputes is off the node's by *off.
func wrongClock(t *testing.T) (c *court, off *time.Duration, state func(time.Time) string) {
	t.Helper()
	off = new(time.Duration)
	root, state := nodetest.Operator(t)
	c = newCourt(t, func(o *reputation.Options) {
		o.Disputes.Operator = &root
		now := o.Now
		o.Disputes.Now = func(context.Context) (time.Time, error) { return now().Add(*off), nil }
	})
	return c, off, state
}

// A clock that jumps closes no window and dates no entry, until it is set right or has stood for ten minutes.
func TestAClockThatJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": year, "back": -year, "by a minute and a second": 61 * time.Second} {
		t.Run(name, func(t *testing.T) {
			c, off, _ := wrongClock(t)
			c.published(t, "sig-1")
			c.disputed(t, "con-1", "sig-1")
			*off = jump
			for range 2 {
				wantCode(t, c.Settle(t.Context()), "clock_skew")
				wantCode(t, c.say(t, c.SignalOf(c.one, "sig-2")), "clock_skew")
				c.Kit.Clock.Advance(9 * time.Minute)
				*off += time.Minute + time.Second // and again: the ten minutes begin anew
			}
			check.WantEqual(t, c.log(t), []string{"signal", "opened"})
			c.checkpoint(t) // the log can be read meanwhile
			*off = 0
			c.published(t, "sig-2")
			must(t, c.Settle(t.Context()))
			check.WantEqual(t, c.log(t), []string{"signal", "opened", "signal"})

			*off = jump // for good
			wantCode(t, c.Settle(t.Context()), "clock_skew")
			c.Kit.Clock.Advance(10*time.Minute - time.Second)
			wantCode(t, c.Settle(t.Context()), "clock_skew")
			c.Kit.Clock.Advance(time.Second)
			must(t, c.Settle(t.Context()))
		})
	}
	c, off, _ := wrongClock(t)
	for range 30 { // clocks drift
		*off += time.Minute
		must(t, c.Settle(t.Context()))
	}
}

// What a wrong clock has dated in the future is mended by a statement of the operator that everybody can see.
func TestSetBack(t *testing.T) {
	c, off, state := wrongClock(t)
	ctx, now := t.Context(), c.Kit.Clock.Now
	c.published(t, "sig-0")
	_, err := c.SetBack(ctx, state(now()))
	wantCode(t, err, "dispute_closed")
	*off = year
	wantCode(t, c.Settle(ctx), "clock_skew")
	_, err = c.SetBack(ctx, state(now())) // before the clock is right
	wantCode(t, err, "clock_skew")
	wantCode(t, c.Settle(ctx), "clock_skew")
	c.Kit.Clock.Advance(10 * time.Minute)
	must(t, c.Settle(ctx)) // the wrong time stands: the window is closed
	signal, contract := c.SignalOf(c.one, "sig-1"), c.Contract(c.two, "con-1", "sig-1")
	signal.Timestamp, contract.Timestamp = now().Add(year).Unix(), now().Add(year).Unix()
	must(t, c.say(t, signal))
	d, err := c.File(ctx, c.Says(t, contract))
	must(t, err)
	*off = 0
	c.Kit.Clock.Advance(10 * time.Minute)
	wantCode(t, c.Settle(ctx), "clock_skew")

	_, stranger := nodetest.Operator(t)
	for name, row := range map[string]struct{ token, code string }{
		"another key":      {stranger(now()), "signature_invalid"},
		"an old statement": {state(now().Add(-time.Hour - time.Minute)), "expired"},
		"no statement":     {"", "artifact_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.SetBack(ctx, row.token)
			wantCode(t, err, row.code)
		})
	}
	token := state(now())
	log, err := c.SetBack(ctx, token)
	must(t, err)
	entries := c.entries(t)
	last := entries[len(entries)-1]
	check.WantEqual(t, log.Entries, int64(len(entries)))
	check.WantEqual(t, last, dispute.Entry{At: now().Unix(), SetBack: &dispute.SetBack{Token: token}})
	_, err = c.SetBack(ctx, token)
	wantCode(t, err, "dispute_closed")

	replica := nodetest.New(t, c.Kit, c.Store) // reads the same from the log
	must(t, replica.Settle(ctx))
	if got, err := c.Dispute(ctx, d.DisputeID); err != nil || got.Status != dispute.StatusPending {
		t.Errorf("%+v, %v", got, err)
	}
	c.Kit.Clock.Advance(24 * time.Hour) // and not a year
	must(t, replica.Settle(ctx))
	if got, err := c.Signal(ctx, "sig-1"); err != nil || got.Status != reputation.StatusFinal {
		t.Errorf("%+v, %v", got, err)
	}
	c.Kit.Clock.Advance(48 * time.Hour)
	must(t, replica.Settle(ctx))
	if got, err := c.Dispute(ctx, d.DisputeID); err != nil || got.Outcome != accrual.Inconclusive {
		t.Errorf("%+v, %v", got, err)
	}
	n := nodetest.New(t, c.Kit, c.Store)
	_, err = n.SetBack(ctx, state(now()))
	wantCode(t, err, "not_configured")
}
