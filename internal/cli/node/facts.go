package node

import (
	"fmt"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/accrual"
)

// ReputationFacts says in one line what conditions of a policy can ask of a reputation.
func ReputationFacts(c accrual.Claims) string {
	r := c.Reputation
	text := fmt.Sprintf("%s: score %.1f (at least %.1f), %d interactions, %.0f %% observed", r.Tier, r.CurrentScore,
		r.Lower, r.Counted(), 100*r.Coverage)
	if r.Provisional {
		text += ", provisional"
	}
	if r.Disputed {
		text += ", disputed"
	}
	if r.DisputesPending > 0 {
		text += fmt.Sprintf(", open disputes %d", r.DisputesPending)
	}
	if v := c.Verification; v != nil {
		text += fmt.Sprintf(", verification passed %s in the mode %s, good until %s", cli.Seconds(v.At), v.Mode,
			cli.Seconds(v.Expires))
		if v.Degraded {
			text += ", degraded"
		}
	}
	if c.Rating != nil {
		text += fmt.Sprintf(", R %.1f of 100, tier %s; Q %.2f of %d", c.Rating.R, c.Rating.Tier, c.Rating.Q, accrual.MaxQ)
	}
	return text + ", formulas " + cli.Short(r.ScoringHash)
}
