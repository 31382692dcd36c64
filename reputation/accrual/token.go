package accrual

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Lifetime is the longest lifetime of a reputation token: later changes are seen that much later.
const Lifetime = 10 * time.Minute

var Kind = evidence.NewKind("reputation+jwt", evidence.PurposeAppraiser, Lifetime, check)

// Claims are the claims of a reputation token.
type Claims struct {
	evidence.Registered
	evidence.KeyClaims
	Reputation
	// Verification is set if the agent has passed a verification that has not expired.
	Verification *Verified `json:"verification,omitempty"`
	// Rating is set if enough is known to rate the agent.
	Rating *Rated `json:"rating,omitempty"`

	// Probabilistic is always true, and NonHumanIdentityProven always false.
	Probabilistic          bool `json:"probabilistic" form:"true"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven" form:"false"`
}

// ClaimsOf returns the claims that the signer completes. v may be nil.
func ClaimsOf(r Reputation, v *Verified) Claims {
	return Claims{Reputation: r, Verification: v, Probabilistic: true}
}

func check(c *Claims) error {
	if err := CheckForm(c); err != nil {
		return err
	}
	agent, err := ParseAgent(c.AgentID)
	sessions := make(map[string]bool)
	for _, s := range c.ScoreHistory {
		sessions[s.SessionID] = true
	}
	switch {
	case c.KeyCustody == "" || len(c.KeyCustody) > 128:
		return errors.New("keyCustody is missing or too long")
	case err != nil || agent != Agent{c.Owner, c.Agent}:
		return errors.New("agent_id is not the owner's thumbprint, a colon and the agent")
	case !c.countsFit():
		return errors.New("its counts contradict each other")
	case c.ScoreHistory == nil || len(c.ScoreHistory) > Window || len(sessions) != len(c.ScoreHistory):
		return fmt.Errorf("score_history is not a list of at most %d scored sessions", Window)
	case !c.follows():
		return errors.New("its score, trend, tier or marks do not follow from its history and counts")
	}
	return nil
}

func (r *Reputation) follows() bool {
	derived := *r
	derived.derive()
	return reflect.DeepEqual(derived, *r)
}

func (r *Reputation) countsFit() bool {
	return 0 <= r.FlaggedInteractions && r.FlaggedInteractions <= r.TotalInteractions &&
		r.TotalInteractions <= r.TotalSessions &&
		int64(len(r.ScoreHistory)) <= r.TotalSessions &&
		0 <= r.ChallengesWon && 0 <= r.ChallengesLost && r.ChallengesWon+r.ChallengesLost <= r.ChallengesReceived &&
		0 <= r.DisputesPending && r.ChallengesWon+r.ChallengesLost+r.DisputesPending <= r.ChallengesReceived &&
		0 <= r.DisputesWon && 0 <= r.DisputesLost && r.pointsFit() &&
		(r.FlaggedInteractions == 0 || r.ChallengesLost > 0) &&
		r.TotalSessions+r.ChallengesReceived+r.DisputesWon+r.DisputesLost <= r.Log.Entries && r.Log.Entries >= 0 &&
		(r.FirstSeen > 0) == (r.Log.Entries > 0)
}

// pointsFit reports whether the disputes could have given and taken these points.
func (r *Reputation) pointsFit() bool {
	gained := min(MaxBonus, WonBonus*r.DisputesWon+KeptBonus*r.ChallengesWon)
	lost := min(MaxLoss, RaisedLoss*r.DisputesLost)
	return -lost <= r.DisputePoints && r.DisputePoints <= gained
}

// Modes of a verification.
const (
	ModeObserved = "observed" // the node's own record supports every check
	ModeSeed     = "seed"     // the agent's word was enough
)

// verifiedFor is the longest validity of a verification.
const verifiedFor = 24 * time.Hour

// Verified describes the last passed verification of an agent that its sidecar named. The signed result has more.
type Verified struct {
	Result   string `json:"result" form:"hash"` // the hash of the verification-result+jwt
	At       int64  `json:"at" form:"time"`     // Unix seconds, when the node signed the result
	Expires  int64  `json:"expires"`            // Unix seconds
	Mode     string `json:"mode" form:"observed|seed"`
	Degraded bool   `json:"degraded"` // a configured xray server did not answer
}

func (v Verified) Check() error {
	if v.Expires <= v.At || v.Expires-v.At > int64(verifiedFor/time.Second) {
		return errors.New("verification.at and verification.expires are not the times of a verification")
	}
	return nil
}

// Counts reports whether it is valid and fully observed; degraded admits a degraded one. A nil one never counts.
func (v *Verified) Counts(now time.Time, degraded bool) bool {
	return v != nil && v.Mode == ModeObserved && now.Unix() < v.Expires && (degraded || !v.Degraded)
}

// Age returns the time since the result was signed.
func (v *Verified) Age(now time.Time) time.Duration {
	return max(0, now.Sub(time.Unix(v.At, 0)))
}
