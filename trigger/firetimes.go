package trigger

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxSpec bounds a cron expression, in bytes.
const maxSpec = 256

// fireTimes are the times at which a schedule fires.
type fireTimes interface {
	// Next returns the first fire time after t, or the zero time.
	Next(t time.Time) time.Time
}

// parseCron reads a cron expression in a time zone.
func parseCron(spec string, zone *time.Location) (fireTimes, error) {
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("the cron expression is longer than %d bytes", maxSpec)
	}
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		return nil, errors.New("the time zone has a setting of its own") // and the parser panics on some
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

// multiples fires at the multiples of a period. The parser's own schedule would count from its start, which differs
// between schedulers.
type multiples time.Duration

// Next returns the first multiple after t.
func (m multiples) Next(t time.Time) time.Time {
	d := time.Duration(m)
	return t.Truncate(d).Add(d)
}

// wallClock fires once for each time of an expression, at the first moment at which the zone's wall clock shows that
// time or a later one. So a time that the clock shows twice fires when it is shown first, and a time that the clock
// skips fires at the end of the gap. The times of one gap fire together, as one fire time. The cron library fires twice
// for the former, and never for the latter.
type wallClock struct {
	times cron.Schedule
	zone  *time.Location
}

// Next returns the first fire time after t.
func (w wallClock) Next(t time.Time) time.Time {
	t = t.In(w.zone)
	wanted := w.times.Next(latestReading(t))
	if wanted.IsZero() {
		return time.Time{}
	}
	return firstShown(wanted, t)
}

// reading returns what the wall clock shows at t, as the time in UTC that bears the same date and hour. UTC has no gaps
// and repeats nothing, so such readings can be compared and counted with.
func reading(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// maxSetBack is longer than any zone has ever set its clock back: a day, across the date line.
const maxSetBack = 48 * time.Hour

// latestReading returns the latest reading that the wall clock has shown until t. After the clock was set back, the
// reading at t is an earlier one.
func latestReading(t time.Time) time.Time {
	latest := reading(t)
	for at := t; ; {
		began, _ := at.ZoneBounds() // the zero time, which is long ago, for what has no beginning
		if t.Sub(began) > maxSetBack {
			return latest
		}
		at = began.Add(-1) // the last moment before the change
		if shown := reading(at); shown.After(latest) {
			latest = shown
		}
	}
}

// firstShown returns the first moment after t at which the wall clock shows wanted or a later reading. It has not done
// so until t.
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
