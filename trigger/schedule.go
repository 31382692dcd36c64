package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
)

const (
	// maxSleep bounds a timer: timers do not notice that the clock was set or the machine slept.
	maxSleep = time.Minute
	maxBack  = 10 * 365 * 24 * time.Hour
	// lateness is how late a fire time may still fire.
	lateness = 2 * maxSleep
)

// Missed is the policy for fire times while no scheduler runs.
type Missed int

const (
	SkipMissed Missed = iota // lost
	FireLatest               // the latest fires once, when a scheduler runs again
)

// Schedule makes one event for each time that a cron expression names on the zone's wall clock, even if the clock is
// set back or forward (see wallClock). The store keeps each used fire time, so it makes one event, no matter how many
// schedulers share the store and how their clocks are set.
type Schedule struct {
	// Missed must be set before Run.
	Missed Missed

	name    string
	spec    string
	times   fireTimes
	zone    *time.Location
	payload []byte
}

// NewSchedule reads a cron expression of five fields, or a descriptor such as @hourly, in a time zone (an IANA name;
// empty is UTC). "@every 30s" fires at the multiples of its period since the year 1, so that all schedulers agree.
// payload goes to the agent with each event.
func NewSchedule(name, spec, zone string, payload any) (*Schedule, error) {
	fail := func(err error) (*Schedule, error) { return nil, fmt.Errorf("trigger: schedule %s: %w", name, err) }
	location, err := time.LoadLocation(zone)
	if err != nil {
		return fail(err)
	}
	if location == time.Local {
		return fail(errors.New("the zone Local differs from machine to machine: name the zone"))
	}
	times, err := parseCron(spec, location)
	if err != nil {
		return fail(err)
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return fail(err)
	}
	return &Schedule{name: name, spec: spec, times: times, zone: location, payload: raw}, nil
}

func (c *Schedule) Name() string { return c.name }

// Run makes events until ctx ends. It logs an event that could not be stored; that fire time is lost.
func (c *Schedule) Run(ctx context.Context, s *Service) error {
	after, err := c.start(ctx, s)
	if err != nil {
		return err
	}
	for {
		next := c.times.Next(after)
		if next.IsZero() {
			s.o.Log.Error("the schedule does not come true any more", zap.String("source", c.name))
			<-ctx.Done()
			return nil
		}
		if !sleepUntil(ctx, s.o.Now, next) {
			return nil
		}
		if now := s.o.Now(); now.Sub(next) > lateness {
			after = now
			if c.Missed != FireLatest {
				s.o.Log.Warn("fire times were missed", zap.String("source", c.name), zap.Time("since", next))
				continue
			}
			next = c.latest(next.Add(-1), now)
		} else {
			after = next
		}
		c.fire(ctx, s, next)
	}
}

// start returns the time from which to look for fire times. It fires those that an earlier process missed, if the
// policy says so. A schedule that never fired has missed none.
func (c *Schedule) start(ctx context.Context, s *Service) (time.Time, error) {
	now := s.o.Now()
	if c.Missed != FireLatest {
		return now, nil
	}
	key, err := s.store.last(ctx, c.name)
	if err != nil {
		return now, err
	}
	last, err := time.Parse(time.RFC3339, strings.TrimPrefix(key, "id:"))
	if err != nil {
		return now, nil
	}
	if at := c.latest(last, now); !at.IsZero() {
		c.fire(ctx, s, at)
	}
	return now, nil
}

// latest returns the latest fire time after after, up to until, or the zero time. It looks back in growing steps, so as
// not to count all times of a long pause.
func (c *Schedule) latest(after, until time.Time) time.Time {
	for back := time.Minute; back < maxBack; back *= 2 {
		from := until.Add(-back)
		whole := !from.After(after)
		if whole {
			from = after
		}
		var found time.Time
		for t := c.times.Next(from); !t.IsZero() && !t.After(until); t = c.times.Next(t) {
			found = t
		}
		if whole || !found.IsZero() {
			return found
		}
	}
	return time.Time{}
}

func (c *Schedule) fire(ctx context.Context, s *Service, at time.Time) {
	stamp := at.UTC().Format(time.RFC3339)
	_, _, err := s.add(ctx, arrival{
		kind: evidence.TriggerScheduled, source: c.name, method: evidence.MethodSchedulerLock, evidenceID: stamp, typ: c.spec,
		payload:  c.payload,
		verified: map[string]string{"schedule": c.name, "cron": c.spec, "zone": c.zone.String(), "fireTime": stamp},
	})
	if err != nil && ctx.Err() == nil {
		s.o.Log.Error("a scheduled event was not kept", zap.String("source", c.name), zap.Time("at", at), zap.Error(err))
	}
}

// sleepUntil waits until t, and returns false if ctx ended first.
func sleepUntil(ctx context.Context, now func() time.Time, t time.Time) bool {
	for left := t.Sub(now()); left > 0; left = t.Sub(now()) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(left, maxSleep)):
		}
	}
	return true
}
