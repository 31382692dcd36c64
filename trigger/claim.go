package trigger

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
)

const maxWait = time.Minute

// Claim asks for an event that opens a session.
type Claim struct {
	EventID string // empty: the oldest waiting event that may cause a post
	Runtime string
	Wait    time.Duration
}

// Claim gives an event to one runtime, durably. It refuses with not_found, human_involved, trigger_unverified or
// event_closed; and with event_none if no event came in time or the service is stopping.
func (s *Service) Claim(ctx context.Context, c Claim) (e Event, err error) {
	if !isID(c.Runtime) {
		return e, refusal.New("query_malformed", "a claim must name its runtime in at most %d printable characters",
			maxID)
	}
	deadline := time.NewTimer(min(c.Wait, maxWait))
	defer deadline.Stop()
	for {
		arrived := s.arrival() // taken first, so that no event is missed
		if e, err = s.store.claim(ctx, c.EventID, c.Runtime, s.o.Now()); err == nil {
			return s.claimed(ctx, e)
		}
		if !errors.Is(err, errNothing) {
			return e, err
		}
		select {
		case <-arrived:
		case <-deadline.C:
			return e, err
		case <-s.ending:
			return e, refusal.New("event_none", "the trigger service is ending")
		case <-ctx.Done():
			return e, refusal.New("event_none", "no event came while the caller waited")
		}
	}
}

func (s *Service) arrival() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived
}

// claimed hands out an event. It releases the event if the caller has left and would never know of it.
func (s *Service) claimed(ctx context.Context, e Event) (Event, error) {
	if ctx.Err() != nil {
		if _, err := s.Release(context.WithoutCancel(ctx), e.ID, e.ClaimedBy); err != nil {
			s.o.Log.Error("an event was claimed by a caller that has gone away, and not given back",
				zap.String("event", e.ID), zap.Error(err))
		}
		return Event{}, refusal.New("event_none", "the caller went away")
	}
	failpoint.Reach("claimed")
	s.o.Log.Info("event claimed", zap.String("event", e.ID), zap.String("runtime", e.ClaimedBy))
	return e, nil
}

// Release gives back an event without a session, so that another runtime may claim it. It refuses (event_closed) if the
// event has paid for a post or belongs to another runtime.
func (s *Service) Release(ctx context.Context, id, runtime string) (Event, error) {
	e, err := s.store.finish(ctx, id, runtime, Received, s.o.Now())
	if err == nil {
		s.o.Log.Info("event released", zap.String("event", id), zap.String("runtime", runtime))
		s.wake()
	}
	return e, err
}

// Done ends an event's session: it pays for nothing more. Repeating it changes nothing. It refuses (event_closed) if
// the event belongs to another runtime.
func (s *Service) Done(ctx context.Context, id, runtime string) (Event, error) {
	e, err := s.store.finish(ctx, id, runtime, Done, s.o.Now())
	if err == nil {
		s.o.Log.Info("event done", zap.String("event", id), zap.String("runtime", runtime))
	}
	return e, err
}
