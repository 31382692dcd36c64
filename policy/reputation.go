package policy

import (
	"slices"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// OpenReputation opens a reputation token by the manifest's demands. It must be about the agent subject, owned by a
// pinned key registry.
func OpenReputation(v *evidence.Verifier, s *Strict, token, subject string) (evidence.Opened[accrual.Claims], error) {
	o, err := evidence.Open(v, accrual.Kind, token, s.Autonomy.Expected)
	if err != nil {
		return o, err
	}
	return o, checkReputation(v, s, o.Claims(), subject)
}

func checkReputation(v *evidence.Verifier, s *Strict, c accrual.Claims, subject string) error {
	switch {
	case !IsOwner(v, c.Owner):
		return refusal.New("reputation_mismatch", "the %s is about an agent of another owner", accrual.Kind.Typ)
	case c.Agent != subject:
		return refusal.New("reputation_mismatch", "the %s is about another agent of this owner", accrual.Kind.Typ)
	case c.ScoringHash != s.Autonomy.ScoringHash:
		return refusal.New("pin_mismatch", "the %s was computed by formulas with hash %s, but the manifest requires %s",
			accrual.Kind.Typ, c.ScoringHash, s.Autonomy.ScoringHash)
	}
	if s.Autonomy.RequireVerification {
		return s.Autonomy.CheckVerified(&c, v.Now())
	}
	return nil
}

// CheckVerified refuses an agent without a valid verification (reputation_insufficient).
func (e AutonomyExpected) CheckVerified(c *accrual.Claims, now time.Time) error {
	of := c.Verification
	because := "a server of the xray bridge did not answer, and the manifest does not set allowDegraded"
	switch {
	case of.Counts(now, e.AllowDegraded):
		return nil
	case of == nil:
		because = "the agent has passed none in which its sidecar named it as the caller"
	case of.Mode != accrual.ModeObserved:
		because = "the mode " + of.Mode + " accepts the agent's word"
	case !of.Counts(now, true):
		because = "the last one has expired"
	}
	return refusal.New("reputation_insufficient", "the %s shows no verification that counts: %s", accrual.Kind.Typ,
		because)
}

// IsOwner reports whether owner, as in receipts, is a key registry that v pins.
func IsOwner(v *evidence.Verifier, owner string) bool {
	return slices.ContainsFunc(v.Trust().Registries(), func(registry ed25519.PublicKey) bool {
		return interaction.Owner(registry) == owner
	})
}
