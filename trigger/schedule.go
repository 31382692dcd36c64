package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
)

// Schedule is a source that makes an event at each time of a cron expression. The lock is durable: the fire time is the event's
// evidence id, and each is good for one event, whatever the number of schedulers. Times that passed while no scheduler ran are not
// made up for.
type Schedule struct {
	name    string
	spec    string
	times   cron.Schedule
	zone    *time.Location
	payload []byte
}

// NewSchedule reads a cron expression of five fields, or a descriptor such as @hourly or "@every 30s", in a time zone.
func NewSchedule(name, spec, zone string, payload any) (*Schedule, error) {
	location, err := time.LoadLocation(zone) // the empty name is UTC
	if err != nil {
		return nil, fmt.Errorf("trigger: schedule %s: %w", name, err)
	}
	times, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, fmt.Errorf("trigger: schedule %s: %w", name, err)
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("trigger: schedule %s: %w", name, err)
	}
	return &Schedule{name: name, spec: spec, times: times, zone: location, payload: raw}, nil
}

// Name returns the source's name.
func (c *Schedule) Name() string { return c.name }

// Run makes events until ctx ends. An event that could not be kept is said in the log; its time does not come again.
func (c *Schedule) Run(ctx context.Context, s *Service) error {
	for {
		now := s.o.Now()
		next := c.times.Next(now.In(c.zone))
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := c.fire(ctx, s, next); err != nil && ctx.Err() == nil {
			s.o.Log.Error("a scheduled event was not kept", zap.String("source", c.name), zap.Error(err))
		}
	}
}

func (c *Schedule) fire(ctx context.Context, s *Service, at time.Time) error {
	stamp := at.UTC().Format(time.RFC3339)
	e, err := newEvent(evidence.TriggerScheduled, c.name, evidence.MethodSchedulerLock, stamp, c.spec, c.payload, map[string]string{
		"schedule": c.name, "cron": c.spec, "zone": c.zone.String(), "fireTime": stamp,
	})
	if err != nil {
		return err
	}
	_, _, err = s.add(ctx, e)
	return err
}
