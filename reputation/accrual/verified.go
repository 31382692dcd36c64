package accrual

import (
	"errors"
	"time"
)

// Modes of a verification.
const (
	ModeObserved = "observed" // the node's own record supports every check
	ModeSeed     = "seed"     // the agent's word was enough
)

// verifiedFor is the longest validity of a verification.
const verifiedFor = 24 * time.Hour

// Verified describes the last verification that an agent, named by its sidecar, has passed. Result names the signed
// result, which has all of these facts.
type Verified struct {
	Result   string `json:"result" form:"hash"` // the hash of the verification-result+jwt
	At       int64  `json:"at" form:"time"`     // Unix seconds, when the node signed the result
	Expires  int64  `json:"expires"`            // Unix seconds
	Mode     string `json:"mode" form:"observed|seed"`
	Degraded bool   `json:"degraded"` // a configured xray server did not answer
}

// Check is for [CheckForm].
func (v Verified) Check() error {
	if v.Expires <= v.At || v.Expires-v.At > int64(verifiedFor/time.Second) {
		return errors.New("verification.at and verification.expires are not the times of a verification")
	}
	return nil
}

// Counts reports whether the verification is valid at a time and fully observed. A degraded one counts only if degraded
// is true. A nil Verified never counts.
func (v *Verified) Counts(now time.Time, degraded bool) bool {
	return v != nil && v.Mode == ModeObserved && now.Unix() < v.Expires && (degraded || !v.Degraded)
}

// Age returns the time since the result was signed.
func (v *Verified) Age(now time.Time) time.Duration {
	return max(0, now.Sub(time.Unix(v.At, 0)))
}
