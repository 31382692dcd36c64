package reputation

import (
	"context"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/internal/limit"
)

const (
	// jump is the difference from the process's own count of time that a clock may show.
	jump = time.Minute
	// stands is the time after which a clock that has jumped is believed: it was set right, or the machine slept.
	stands = 10 * time.Minute
)

// clock reads the log's clock and refuses a time to which it has jumped: in the log a wrong time would stay.
type clock struct {
	read func(context.Context) (time.Time, error)
	own  func() time.Time // whose differences are right even while it is set

	mu               sync.Mutex // guards what follows
	believed, jumped glance     // the last one, and the first after a jump
}

// glance is a time that the clock showed, and the process's own at that moment.
type glance struct{ shown, own time.Time }

// off returns the difference of a later glance from what should have been shown.
func (r glance) off(later glance) time.Duration {
	return later.shown.Sub(r.shown) - later.own.Sub(r.own)
}

func (c *clock) look(ctx context.Context) (glance, error) {
	shown, err := c.read(ctx)
	return glance{shown.Round(0), c.own()}, err // without the monotonic part, so that a jump is seen
}

// now returns the time for the next entry.
func (c *clock) now(ctx context.Context) (time.Time, error) {
	r, err := c.look(ctx)
	if err != nil {
		return r.shown, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if off := c.believed.off(r); !c.believed.own.IsZero() && off.Abs() > jump {
		if c.jumped.own.IsZero() || c.jumped.off(r).Abs() > jump {
			c.jumped = r
		}
		if since := r.own.Sub(c.jumped.own); since < stands {
			return r.shown, limit.After(stands-since, refusal.New("clock_skew",
				"the clock of the log of disputes has jumped by %s: the log waits until the clock is set back or has run on "+
					"steadily", off))
		}
	}
	c.believed, c.jumped = r, glance{}
	return r.shown, nil
}

// believe takes a time that the clock has shown as right from now on.
func (c *clock) believe(r glance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.believed, c.jumped = r, glance{}
}

// SetBack sets the log's time back by the operator's statement of the right time, after a clock that was wrong for long
// has dated entries in the future. It returns the state of the log.
func (s *Service) SetBack(ctx context.Context, token string) (log accrual.Log, err error) {
	defer s.refuses(Spoken{}, &err)
	switch {
	case s.o.Disputes == nil:
		return log, errOff
	case s.o.Disputes.Operator == nil:
		return log, refusal.New("not_configured", "the node has no operator's key for its log of disputes")
	}
	stated, err := opens(s, []evidence.Root{*s.o.Disputes.Operator}, dispute.ClockKind, token)
	if err != nil {
		return log, err
	}
	seen, err := s.docket.clock.look(ctx)
	if err == nil {
		err = stated.Claims().Fits(seen.shown)
	}
	if err != nil {
		return log, err
	}
	s.docket.clock.believe(seen)
	return log, s.step(ctx, func(t *turn) error {
		e, err := t.SetBack(token, seen.shown)
		if err == nil {
			err = t.Add(e)
		}
		log = t.Log()
		return err
	})
}
