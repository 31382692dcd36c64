package verification

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/internal/limit"
)

// Limits per subject, as in the original, and on open sessions.
const (
	callsPerMinute      = 30
	challengesPerMinute = 10
	registersPerHour    = 5
	openPerSubject      = 16
	openInAll           = 20_000
	maxSubjects         = 10_000 // with known rates, per replica
)

type limits struct{ *limit.By[string, *rates] } // by subject

type rates struct {
	calls, challenges, registers *rate.Limiter
}

func newLimits() limits {
	return limits{limit.NewBy[string](maxSubjects, func() *rates {
		return &rates{
			calls:      rate.NewLimiter(rate.Every(time.Minute/callsPerMinute), callsPerMinute),
			challenges: rate.NewLimiter(rate.Every(time.Minute/challengesPerMinute), challengesPerMinute),
			registers:  rate.NewLimiter(rate.Every(time.Hour/registersPerHour), registersPerHour),
		}
	})}
}

// take counts a call against the general limit and another one, if given.
func (l limits) take(now time.Time, subject string, also func(*rates) *rate.Limiter) error {
	r := l.Of(subject)
	buckets := []*rate.Limiter{r.calls}
	if also != nil {
		buckets = append(buckets, also(r))
	}
	for _, bucket := range buckets {
		if err := limit.Take(bucket, now, 1, refusal.New("rate_limited", "the caller makes too many calls")); err != nil {
			return err
		}
	}
	return nil
}

const (
	freeFailures = 3 // consecutive failures before the first wait
	firstBackoff = 30 * time.Second
	maxBackoff   = 24 * time.Hour
)

// Failures counts the consecutive failed verifications of a subject or a key. A success resets it.
type Failures struct {
	Name  string
	Count int64
	Last  time.Time
}

// until returns when another try is allowed: 30 s after the third failure, doubled for each further one, at most 24 h.
func (f Failures) until() time.Time {
	if f.Count < freeFailures {
		return time.Time{}
	}
	wait := maxBackoff
	if doublings := f.Count - freeFailures; doublings < 12 { // 2^12 times 30 s is more than a day
		wait = min(wait, firstBackoff<<doublings)
	}
	return f.Last.Add(wait)
}

func nameOfSubject(subject string) string { return "subject:" + subject }
func nameOfKey(key Key) string            { return "key:" + key.String() }
