package challenge

import (
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// CapabilityKey is the kind of ledger key that a capability is consumed under.
const CapabilityKey = "capability"

// WantCapability is what is demanded of a capability.
type WantCapability struct {
	// Issuer is iss and aud of the capability: the gate that minted it. Required.
	Issuer string
	// Binding is the operation that is about to be made, without the nonce. Required.
	Binding evidence.Binding
	// MaxAge bounds the time since it was minted. Required.
	MaxAge time.Duration
	// AllowUnconsumed accepts a capability whose verification was not consumed. Only for experiments and migrations.
	AllowUnconsumed bool
	// RequireEvidence demands the summaries of a runtime attestation and a session receipt.
	RequireEvidence bool
	// Now is the time; Skew the clock difference that is tolerated.
	Now  time.Time
	Skew time.Duration
}

// VerifyCapability verifies a capability against the operation that is about to be made (seed: verifyCapability). The caller
// consumes the returned key in the transaction that makes the post.
func VerifyCapability(secret evidence.Secret, token string, want WantCapability) (evidence.Capability, ledger.Key, error) {
	fail := func(err error) (evidence.Capability, ledger.Key, error) {
		return evidence.Capability{}, ledger.Key{}, err
	}
	if err := want.Binding.Check(); err != nil {
		return fail(err)
	}
	c, err := evidence.OpenMAC(secret, evidence.CapabilityKind, token, evidence.Expected{
		Issuers: []string{want.Issuer}, Audiences: []string{want.Issuer}, MaxAge: want.MaxAge,
	}, want.Now, want.Skew)
	switch {
	case err != nil:
		return fail(err)
	case !c.Binding.SameAction(want.Binding):
		return fail(evidence.Refuse("capability_binding_mismatch", "the capability is for another subject, action, resource or content"))
	case !c.VerificationConsumed && !want.AllowUnconsumed:
		return fail(evidence.Refuse("capability_unconsumed", "the capability was minted from a verification that had not been consumed"))
	case want.RequireEvidence && (c.Runtime == nil || c.Session == nil):
		return fail(evidence.Refuse("capability_without_evidence", "the capability carries no runtime attestation or no session receipt"))
	}
	return c, ledger.Key{Kind: CapabilityKey, ID: c.ID, Expires: time.Unix(c.Expires, 0)}, nil
}
