package dispute

import (
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Review returns the entry that marks a dispute as being judged.
func (b *Book) Review(id string, now time.Time) Entry {
	return Entry{At: b.Time(now), Reviewing: &Reviewing{DisputeID: id}}
}

// Late reports whether the deadline of a dispute has passed.
func (b *Book) Late(id string, now time.Time) bool {
	d := b.dispute(id)
	return d != nil && b.Time(now) >= d.Deadline
}

// End returns the entry that ends a dispute by the finding of a [Trial].
func (b *Book) End(id string, f Finding, now time.Time) Entry {
	r := &Resolved{DisputeID: id, Finding: f, Resolver: ResolverRules}
	if b.Late(id, now) && f.Outcome == accrual.Inconclusive {
		r.Resolver = ResolverDeadline
	}
	return Entry{At: b.Time(now), Resolved: r}
}

// Expire returns the entry that ends a dispute without a majority. After an appeal the first decision stands.
func (b *Book) Expire(id string, now time.Time) Entry {
	f := Finding{Outcome: accrual.Inconclusive, Reason: ReasonNoArbiter}
	if d := b.dispute(id); d != nil && d.Appealed {
		f = d.Resolved.Finding
	}
	return Entry{At: b.Time(now), Resolved: &Resolved{DisputeID: id, Finding: f, Resolver: ResolverDeadline}}
}

// Finalise returns the entry that closes the window of a signal.
func (b *Book) Finalise(signal string, now time.Time) Entry {
	return Entry{At: b.Time(now), Final: &Final{SignalID: signal}}
}

// Ending returns the rows of what ends without a trial: first the unresolved general disputes that are late or on which
// an arbiter has voted, then the open signals whose window has closed, then the disputes that the loser can no longer
// appeal. Each list has the earliest first, at most most.
func (b *Book) Ending(now time.Time, most int) (lists [][]Waiting) {
	for _, queue := range []string{queueGeneral, queueSignals, queueAppeals} {
		lists = append(lists, b.queued(queue, "", b.Time(now), most))
	}
	return lists
}

// FetchEnding reads the rows that the ends of these rows need; see [Book.Fetch].
func (b *Book) FetchEnding(due []Waiting) error {
	var ids, parties []string
	for _, one := range due {
		ids = append(ids, one.ID)
	}
	if err := b.Fetch(ids...); err != nil {
		return err
	}
	for _, one := range due {
		switch kind, id, _ := strings.Cut(one.ID, "/"); kind + "/" {
		case rowSignal:
			if s := b.signal(id); s != nil {
				parties = append(parties, s.Agent)
			}
		case rowDispute:
			if d := b.dispute(id); d != nil {
				parties = append(parties, d.Challenger, d.Target)
			}
		}
	}
	return b.Fetch(RowsOf("", "", parties...)...)
}

// Ended returns the entry that ends what is in a row of [Book.Ending], unless it has ended or waits for arbiters.
func (b *Book) Ended(row string, court Court, r Rules, now time.Time) (e Entry, ok bool) {
	kind, id, _ := strings.Cut(row, "/")
	if kind+"/" == rowSignal {
		s := b.signal(id)
		return b.Finalise(id, now), s != nil && !s.Final
	}
	d := b.dispute(id)
	switch {
	case d == nil:
		return e, false
	case d.Status == StatusResolved:
		return Entry{At: b.Time(now), Final: &Final{DisputeID: id}}, d.Appealable && b.Time(now) >= d.Resolved.AppealUntil
	}
	if e, ok = b.Decided(id, court, r, now); !ok && b.Late(id, now) {
		return b.Expire(id, now), true
	}
	return e, ok
}

// Brought returns the tokens in the evidence of a challenge: receipts that the challenger brings along.
func (c Challenge) Brought() (tokens []string) {
	for word := range strings.FieldsSeq(c.Evidence) {
		if strings.Count(word, ".") == 2 && strings.HasPrefix(word, "eyJ") && len(tokens) < maxBrought {
			tokens = append(tokens, word)
		}
	}
	return tokens
}

// SetBack returns the entry that sets the log's time back to now, which the operator's opened statement Fits.
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

// setBack moves to a time what is dated later, so that no one waits for it. What has ended stays ended.
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
