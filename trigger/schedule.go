package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
)

const (
	// maxSleep bounds a timer: timers do not notice that the clock was set or the machine slept.
	maxSleep = time.Minute
	// lateness is how late a fire time may still fire.
	lateness = 2 * maxSleep
	maxSpec  = 256
)

// Schedule makes one event for each time that a cron expression names, in UTC. The store keeps each used fire time, so
// it makes one event, no matter how many schedulers share the store and how their clocks are set. Times while no
// scheduler runs are lost.
type Schedule struct {
	name    string
	spec    string
	times   cron.Schedule
	payload []byte
}

// NewSchedule reads a cron expression of five fields, or a descriptor such as @hourly. "@every 30s" fires at the
// multiples of its period since the year 1, so that all schedulers agree. payload goes to the agent with each event.
func NewSchedule(name, spec string, payload any) (*Schedule, error) {
	times, err := parseCron(spec)
	if err != nil {
		return nil, fmt.Errorf("trigger: schedule %s: %w", name, err)
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("trigger: schedule %s: %w", name, err)
	}
	return &Schedule{name: name, spec: spec, times: times, payload: raw}, nil
}

func parseCron(spec string) (cron.Schedule, error) {
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("the cron expression is longer than %d bytes", maxSpec)
	}
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		return nil, errors.New("times are in UTC") // the parser panics on some zones
	}
	times, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	if every, ok := times.(cron.ConstantDelaySchedule); ok {
		return multiples(every.Delay), nil
	}
	if times.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, errors.New("the cron expression never matches a time")
	}
	return times, nil
}

// multiples fires at the multiples of a period. The parser's own schedule counts from its start, which differs between
// schedulers.
type multiples time.Duration

func (m multiples) Next(t time.Time) time.Time {
	d := time.Duration(m)
	return t.Truncate(d).Add(d)
}

func (c *Schedule) Name() string { return c.name }

// Next returns the first fire time after a time; zero if there is none.
func (c *Schedule) Next(after time.Time) time.Time { return c.times.Next(after.UTC()) }

// Run makes events until ctx ends. It logs an event that could not be stored; that fire time is lost.
func (c *Schedule) Run(ctx context.Context, s *Service) error {
	for after := s.o.Now().UTC(); ctx.Err() == nil; {
		now, next := s.o.Now().UTC(), c.times.Next(after)
		switch {
		case next.IsZero():
			s.o.Log.Error("the schedule does not come true any more", zap.String("source", c.name))
			<-ctx.Done()
		case after.Sub(now) > lateness: // the clock was ahead, and is set back
			after = now
		case now.Before(next):
			_ = every.Sleep(ctx, min(next.Sub(now), maxSleep))
		case now.Sub(next) > lateness:
			s.o.Log.Warn("fire times were missed", zap.String("source", c.name), zap.Time("since", next))
			after = now
		default:
			after = next
			c.fire(ctx, s, next)
		}
	}
	return nil
}

func (c *Schedule) fire(ctx context.Context, s *Service, at time.Time) {
	stamp := at.UTC().Format(time.RFC3339)
	_, _, err := s.add(ctx, arrival{
		kind: evidence.TriggerScheduled, source: c.name, method: evidence.MethodSchedulerLock, evidenceID: stamp,
		typ:      c.spec,
		payload:  c.payload,
		verified: map[string]string{"schedule": c.name, "cron": c.spec, "fireTime": stamp},
	})
	if err != nil && ctx.Err() == nil {
		s.o.Log.Error("a scheduled event was not kept", zap.String("source", c.name), zap.Time("at", at),
			zap.Error(err))
	}
}
