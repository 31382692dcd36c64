package decide

import (
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
)

// openReputation opens the reputation token of the agent subject, or says why it is not believed.
func (e *Engine) openReputation(token, subject string) (evidence.Opened[accrual.Claims], error) {
	if token == "" {
		return evidence.Opened[accrual.Claims]{}, refusal.New("reputation_missing",
			"the sidecar sent no %s of the agent", accrual.Kind.Typ)
	}
	return policy.OpenReputation(e.verifier, e.strict, token, subject)
}

// appraised is the posting agent's reputation. Its token is opened when a condition first asks for it.
type appraised struct {
	open     func() (evidence.Opened[accrual.Claims], error)
	expected policy.AutonomyExpected
	now      time.Time

	asked  bool
	hash   string // of the token; empty if no condition asked, or there is none
	claims accrual.Claims
	err    error // why the reputation is not known
	// missed is why the last value that a condition asked for is missing.
	missed error
}

func (a *appraised) known() bool {
	if !a.asked {
		a.asked = true
		var o evidence.Opened[accrual.Claims]
		if o, a.err = a.open(); a.err == nil {
			a.hash, a.claims = o.Hash(), o.Claims()
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

func (a *appraised) value(of func(c *accrual.Claims) any) any {
	if !a.known() {
		a.missed = a.err
		return nil
	}
	return of(&a.claims)
}

func (a *appraised) unverified() error { return a.expected.CheckVerified(&a.claims, a.now) }

func (a *appraised) ofVerification(of func(v *accrual.Verified) any) any {
	return a.value(func(c *accrual.Claims) any {
		if a.missed = a.unverified(); a.missed != nil {
			return nil
		}
		return of(c.Verification)
	})
}

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
