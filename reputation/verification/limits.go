package verification

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/lru"
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

type limits struct {
	mu       sync.Mutex // guards subjects
	subjects *lru.Cache[string, *rates]
}

type rates struct {
	calls, challenges, registers *rate.Limiter
}

func newLimits() *limits { return &limits{subjects: lru.New[string, *rates](maxSubjects)} }

func (l *limits) of(subject string) *rates {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.subjects.Get(subject)
	if !ok {
		r = &rates{
			calls:      rate.NewLimiter(rate.Every(time.Minute/callsPerMinute), callsPerMinute),
			challenges: rate.NewLimiter(rate.Every(time.Minute/challengesPerMinute), challengesPerMinute),
			registers:  rate.NewLimiter(rate.Every(time.Hour/registersPerHour), registersPerHour),
		}
		l.subjects.Put(subject, r)
	}
	return r
}

// take counts a call against the general limit and another one, if given.
func (l *limits) take(now time.Time, subject string, also func(*rates) *rate.Limiter) error {
	r := l.of(subject)
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
