package decide

import (
	"errors"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
)

// maxReputations bounds the opened tokens in memory, of at most 16 KiB each.
const maxReputations = 256

// reputations opens each reputation token once: an agent posts with the same token for minutes. Time and trust are
// judged for each post. It is safe for concurrent use.
type reputations struct {
	verifier *evidence.Verifier
	strict   *policy.Strict

	mu     sync.Mutex // guards opened
	opened *lru.Cache[string, *opened]
}

// opened is an opened token and its hash.
type opened struct {
	evidence.Opened[accrual.Claims]
	hash string
}

func newReputations(v *evidence.Verifier, s *policy.Strict) *reputations {
	return &reputations{verifier: v, strict: s, opened: lru.New[string, *opened](maxReputations)}
}

// open returns the opened token of the agent subject, or why it is not believed.
func (r *reputations) open(token, subject string) (*opened, error) {
	if token == "" {
		return nil, refusal.New("reputation_missing", "the sidecar sent no %s of the agent", accrual.Kind.Typ)
	}
	r.mu.Lock()
	o, ok := r.opened.Get(token)
	r.mu.Unlock()
	if ok {
		return o, policy.JudgeReputation(r.verifier, r.strict, o.Opened, subject)
	}
	fresh, err := policy.OpenReputation(r.verifier, r.strict, token, subject)
	if err != nil {
		return nil, err
	}
	o = &opened{fresh, fresh.Hash()}
	r.mu.Lock()
	r.opened.Put(token, o)
	r.mu.Unlock()
	return o, nil
}

// appraised is the posting agent's reputation. Its token is opened when a condition first asks for it.
type appraised struct {
	open     func() (*opened, error)
	expected policy.AutonomyExpected
	now      time.Time

	asked  bool
	hash   string // of the token; empty if no condition asked, or there is none
	claims accrual.Claims
	err    error // why the reputation is not known
	// missed is why the last value that a condition asked for is missing.
	missed error
}

// known reports whether the agent has a believed reputation.
func (a *appraised) known() bool {
	if !a.asked {
		a.asked = true
		var o *opened
		if o, a.err = a.open(); a.err == nil {
			a.hash, a.claims = o.hash, o.Claims()
		}
	}
	return a.err == nil
}

// whether returns [appraised.known]. It returns nil, no value, if the manifest requires a verified agent and this one
// is not: otherwise an agent that lost a dispute could gain by being unverified.
func (a *appraised) whether() any {
	if known := a.known(); known || !errors.Is(a.err, errUnverified) {
		return known
	}
	a.missed = a.err
	return nil
}

// errUnverified refuses the reputation of an unverified agent.
var errUnverified = refusal.New("reputation_insufficient", "")

// value returns a value of the reputation, or nil if it is not known.
func (a *appraised) value(of func(c *accrual.Claims) any) any {
	if !a.known() {
		a.missed = a.err
		return nil
	}
	return of(&a.claims)
}

// unverified says why the agent of a known reputation does not count as verified, or nil.
func (a *appraised) unverified() error { return a.expected.CheckVerified(&a.claims, a.now) }

// ofVerification returns a value of the verification, or nil if the agent does not count as verified.
func (a *appraised) ofVerification(of func(v *accrual.Verified) any) any {
	return a.value(func(c *accrual.Claims) any {
		if a.missed = a.unverified(); a.missed != nil {
			return nil
		}
		return of(c.Verification)
	})
}

// ofRating returns a value of the rating, or nil if the node has not rated the agent.
func (a *appraised) ofRating(of func(r *accrual.Rated) any) any {
	return a.value(func(c *accrual.Claims) any {
		if c.Rating == nil {
			a.missed = refusal.New("reputation_insufficient",
				"the %s has no rating of the agent, which has too few sessions", accrual.Kind.Typ)
			return nil
		}
		return of(c.Rating)
	})
}
