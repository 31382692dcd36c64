package trigger

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const maxSpec = 256

type fireTimes interface {
	Next(t time.Time) time.Time
}

func parseCron(spec string, zone *time.Location) (fireTimes, error) {
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("the cron expression is longer than %d bytes", maxSpec)
	}
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		return nil, errors.New("the time zone has its own setting") // the parser panics on some of these
	}
	times, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	if every, ok := times.(cron.ConstantDelaySchedule); ok {
		return multiples(every.Delay), nil
	}
	if times.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, errors.New("the cron expression never comes true")
	}
	return wallClock{times: times, zone: zone}, nil
}

// multiples fires at the multiples of a period. The parser's own schedule counts from its start, which differs between
// schedulers.
type multiples time.Duration

func (m multiples) Next(t time.Time) time.Time {
	d := time.Duration(m)
	return t.Truncate(d).Add(d)
}

// wallClock fires once for each time of an expression, when the zone's wall clock first shows that time or a later one.
// A time that occurs twice fires the first time; a skipped time fires at the end of the gap, together with others in
// it. The cron library fires twice for the former, and never for the latter.
type wallClock struct {
	times cron.Schedule
	zone  *time.Location
}

func (w wallClock) Next(t time.Time) time.Time {
	t = t.In(w.zone)
	wanted := w.times.Next(latestReading(t))
	if wanted.IsZero() {
		return time.Time{}
	}
	return firstShown(wanted, t)
}

// reading returns the wall clock's date and time at t as UTC, which has no gaps or repetitions.
func reading(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// maxSetBack is more than any zone has set its clock back: a day, across the date line.
const maxSetBack = 48 * time.Hour

// latestReading returns the latest time that the wall clock has shown up to t. It differs from the reading at t if the
// clock was set back.
func latestReading(t time.Time) time.Time {
	latest := reading(t)
	for at := t; ; {
		began, _ := at.ZoneBounds() // zero without an earlier change
		if t.Sub(began) > maxSetBack {
			return latest
		}
		at = began.Add(-1) // the last moment before the change
		if shown := reading(at); shown.After(latest) {
			latest = shown
		}
	}
}

// firstShown returns the first moment after t when the wall clock shows wanted or a later time.
func firstShown(wanted, t time.Time) time.Time {
	for at := t; ; {
		_, end := at.ZoneBounds()
		shown := at.Add(max(0, wanted.Sub(reading(at))))
		if end.IsZero() || shown.Before(end) {
			return shown
		}
		at = end
	}
}
