package dispute

import (
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// SetBack returns the entry that sets the log's time back to now. The caller has opened the operator's statement of the
// time, which now Fits.
func (b *Book) SetBack(token string, now time.Time) (Entry, error) {
	if now.Unix() >= b.last {
		return Entry{}, refusal.New("dispute_closed", "the time of the log is right: there is nothing to set back")
	}
	return b.checked(Entry{At: now.Unix(), SetBack: &SetBack{Token: token}})
}

// Fits refuses a time of the log's clock that differs from the operator's.
func (c Clock) Fits(now time.Time) error {
	if off := now.Unix() - c.IssuedAt; off > seconds(ClockLifetime) || off < -seconds(MaxAge) {
		return refusal.New("clock_skew", "the log's clock differs from the operator's by %d s: set it first", off)
	}
	return nil
}

// setBack moves to a time what is dated later: no one waits for a time that a wrong clock has shown. What has ended
// stays ended.
func (b *Book) setBack(to int64) {
	earlier := func(times ...*int64) {
		for _, t := range times {
			*t = min(*t, to)
		}
	}
	for _, s := range b.signals {
		s.Closes -= max(0, s.At-to)
		earlier(&s.At)
	}
	for _, d := range b.disputes {
		d.Deadline -= max(0, d.Since-to)
		if d.Resolved.AppealUntil > 0 {
			d.Resolved.AppealUntil -= max(0, d.ResolvedAt-to)
		}
		earlier(&d.At, &d.Since, &d.ResolvedAt)
	}
	for i := range b.over {
		earlier(&b.over[i].at)
	}
	for _, a := range b.agents {
		a.from -= max(0, a.acted-to)
		earlier(&a.fell, &a.acted, &a.registered)
		for i := range a.falls {
			earlier(&a.falls[i].at)
		}
		for i := range a.violations {
			earlier(&a.violations[i].at)
		}
	}
}
