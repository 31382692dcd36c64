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
	// maxSleep bounds a timer: it does not see that the clock was set, or that the machine slept.
	maxSleep = time.Minute
	// maxBack is how far back missed fire times are looked for.
	maxBack = 10 * 365 * 24 * time.Hour
	// lateness is how late a fire time is still fired at; later ones are missed.
	lateness = 2 * maxSleep
)

// Missed says what becomes of fire times that pass while no scheduler runs.
type Missed int

// The policies for missed fire times.
const (
	SkipMissed Missed = iota // they do not come again
	FireLatest               // the latest of them is fired, once, as soon as a scheduler runs again
)

// Schedule is a source that makes an event at each time of a cron expression: one for each time that the expression
// names on the zone's wall clock, also where the clock is set back or forward (see wallClock). The lock is durable: the
// fire time is good for one event of the schedule, whatever the number of schedulers on one store, and wherever the
// clock is set.
type Schedule struct {
	// Missed is the policy for missed fire times. It is set before Run.
	Missed Missed

	name    string
	spec    string
	times   fireTimes
	zone    *time.Location
	payload []byte
}

// NewSchedule reads a cron expression of five fields, or a descriptor such as @hourly, in a time zone (an IANA name;
// empty is UTC). "@every 30s" fires at the multiples of its period since the year 1, so that all schedulers agree.
// payload is handed to the agent with each event.
func NewSchedule(name, spec, zone string, payload any) (*Schedule, error) {
	fail := func(err error) (*Schedule, error) { return nil, fmt.Errorf("trigger: schedule %s: %w", name, err) }
	location, err := time.LoadLocation(zone)
	if err != nil {
		return fail(err)
	}
	if location == time.Local {
		return fail(errors.New("the zone Local is another one on another machine; name it"))
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

// Name returns the source's name.
func (c *Schedule) Name() string { return c.name }

// Run makes events until ctx ends. A fire time whose event could not be kept is in the log; it does not come again.
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

// start returns the time after which the next fire time is looked for, and fires what an earlier process missed where
// that is the policy. A schedule that has never fired has missed nothing.
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

// latest returns the latest fire time after one time and not after another, or the zero time. It looks back in growing
// steps: the times of a long pause are not all counted.
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

// fire makes the event of one fire time, unless it is there already.
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

// sleepUntil waits until the clock has come to t, and reports whether it has; if not, ctx has ended.
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
