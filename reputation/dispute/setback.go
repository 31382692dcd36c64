package dispute

import (
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// SetBack returns the entry that sets the log's time back to now. The caller has opened the operator's statement of the
// time, which now Fits.
func (b *Book) SetBack(token string, now time.Time) (Entry, error) {
	if now.Unix() >= b.state.Last {
		return Entry{}, refusal.New("dispute_closed", "the time of the log is right: there is nothing to set back")
	}
	return Entry{At: now.Unix(), SetBack: &SetBack{Token: token}}, nil
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
	for _, id := range b.since(to) {
		switch kind, of, _ := strings.Cut(id, "/"); kind + "/" {
		case rowSignal:
			b.changeSignal(of, func(s *SignalState) {
				s.Closes -= max(0, s.At-to)
				earlier(&s.At)
			})
		case rowDispute:
			b.changeDispute(of, func(d *State) {
				d.Deadline -= max(0, d.Since-to)
				if d.Resolved.AppealUntil > 0 {
					d.Resolved.AppealUntil -= max(0, d.ResolvedAt-to)
				}
				earlier(&d.At, &d.Since, &d.ResolvedAt)
			})
		case rowAgent:
			b.change(id, func(p *party) {
				p.From -= max(0, p.Acted-to)
				earlier(&p.Fell, &p.Acted, &p.Registered)
				for i := range p.Falls {
					earlier(&p.Falls[i].At)
				}
				for i := range p.Violations {
					earlier(&p.Violations[i].At)
				}
			})
		}
	}
}
