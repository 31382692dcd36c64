package node_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/reputation/accrual"
)

func TestReputationFacts(t *testing.T) {
	c := accrual.Claims{
		Reputation: accrual.Reputation{
			Tier: accrual.TierBuilding, CurrentScore: 44.4, Lower: 40, Coverage: 0.5, Provisional: true, TotalInteractions: 12,
			FlaggedInteractions: 1, DisputesPending: 1, Disputed: true,
		},
		Verification: &accrual.Verified{At: 1_800_000_000, Expires: 1_800_086_400, Mode: accrual.ModeObserved,
			Degraded: true},
		Rating: &accrual.Rated{R: 34.5, Q: 0.25, Tier: "D"},
	}
	const want = "building: score 44.4 (at least 40.0), 11 interactions, 50 % observed, provisional, disputed, open " +
		"disputes 1, verification passed 2027-01-15T08:00:00Z in the mode observed, " +
		"good until 2027-01-16T08:00:00Z, degraded, R 34.5 of 100, tier D; Q 0.25 of 3, formulas "
	if got := node.ReputationFacts(c); !strings.HasPrefix(got, want) {
		t.Errorf("a record shows %s, want %s", got, want)
	}
}
