package dispute

import (
	"strings"
	"time"

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

// Expire returns the entry that ends a dispute on which no majority of arbiters has agreed. After an appeal the first
// decision stands.
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

// Stand returns the entry that ends the time to appeal against the end of a dispute.
func (b *Book) Stand(id string, now time.Time) Entry {
	return Entry{At: b.Time(now), Final: &Final{DisputeID: id}}
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
