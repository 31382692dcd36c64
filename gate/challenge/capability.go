package challenge

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// CapabilityKey is the kind of a capability's single-use key.
const CapabilityKey = "capability"

// Mint issues a capability: iss and aud are the gate's name, and the jti is its id. It returns the claims as signed. It
// refuses an incomplete binding and a session that a human could reach.
func Mint(secret evidence.Secret, r evidence.Registered, c evidence.Capability) (token string,
	claims evidence.Capability, err error) {
	evidence.CapabilityKind().Stamp(&c, r, evidence.KeyClaims{})
	if err := free(c.Session); err != nil {
		return "", evidence.Capability{}, err
	}
	if token, err = evidence.SignMAC(secret, evidence.CapabilityKind(), c); err != nil {
		return "", evidence.Capability{}, err
	}
	return token, c, nil
}

// WantCapability is what [VerifyCapability] demands.
type WantCapability struct {
	// the minting gate; required
	Issuer string
	// the operation before it is made, without the nonce; required
	Binding evidence.Binding
	// since minting; required
	MaxAge time.Duration
	// AllowUnconsumed accepts a capability of an unconsumed verification, for experiments and migrations.
	AllowUnconsumed bool
	// RequireEvidence demands the summaries of a runtime attestation and a session receipt.
	RequireEvidence bool
	// RequireGrant demands the ids of a policy decision and an action grant.
	RequireGrant bool
	// nil demands nothing
	Runtime *WantRuntime
	// Now is the time, required; Skew the tolerated clock difference.
	Now  time.Time
	Skew time.Duration
}

// WantRuntime is what a runtime summary must satisfy. An empty field refuses.
type WantRuntime struct {
	Issuers, KeyIDs, RuntimeIDs  []string
	TriggerKinds, TriggerSources []string
	PolicyHash                   string
	EnvironmentHashes            []string // any one of them
	// since the attestation
	MaxAge time.Duration
}

// VerifyCapability returns the key that the caller consumes in the transaction that makes the post.
func VerifyCapability(secret evidence.Secret, token string, want WantCapability) (evidence.Capability, ledger.Key,
	error) {
	c, err := openCapability(secret, token, want)
	if err == nil {
		err = want.admits(c)
	}
	if err != nil {
		return evidence.Capability{}, ledger.Key{}, err
	}
	return c, ledger.Key{Kind: CapabilityKey, ID: c.ID, Expires: time.Unix(c.Expires, 0)}, nil
}

func openCapability(secret evidence.Secret, token string, want WantCapability) (evidence.Capability, error) {
	if err := want.Binding.Check(); err != nil {
		return evidence.Capability{}, err
	}
	var names []string
	if want.Issuer != "" {
		names = []string{want.Issuer}
	}
	return evidence.OpenMAC(secret, evidence.CapabilityKind(), token, evidence.Expected{
		Issuers: names, Audiences: names, MaxAge: want.MaxAge,
	}, want.Now, want.Skew)
}

func (w WantCapability) admits(c evidence.Capability) error {
	switch {
	case !c.Binding.SameAction(w.Binding):
		return refusal.New("artifacts_mismatch", "the capability is for another subject, action, resource or content")
	case !c.VerificationConsumed && !w.AllowUnconsumed:
		return refusal.New("artifact_missing",
			"the ids of the chain had not been consumed when the capability was minted")
	case w.RequireEvidence && (c.Runtime == nil || c.Session == nil), w.Runtime != nil && c.Runtime == nil:
		return refusal.New("artifact_missing", "the capability carries no runtime attestation or no session receipt")
	case w.RequireGrant && (c.DecisionID == "" || c.GrantID == ""):
		return refusal.New("artifact_missing", "the capability carries no policy decision or no action grant")
	}
	if err := free(c.Session); err != nil {
		return err
	}
	if w.Runtime == nil {
		return nil
	}
	return w.Runtime.admits(*c.Runtime, w.Now, w.Skew)
}

// free refuses a session that a human could reach.
func free(s *evidence.SessionSummary) error {
	if s != nil &&
		(s.HumanPromptPresent || s.HumanOperatorPresent || s.UserShellAccess || s.AgentEnvironmentUserAccessible) {
		return refusal.New("human_involved",
			"the session behind the capability had a human prompt, a human operator, a user shell, or "+
				"an environment that users could reach")
	}
	return nil
}

func (w WantRuntime) admits(r evidence.RuntimeSummary, now time.Time, skew time.Duration) error {
	for _, c := range []struct {
		what string
		ok   bool
	}{
		{"issuer", slices.Contains(w.Issuers, r.Issuer)},
		{"key", evidence.MatchKeyID(w.KeyIDs, r.KeyID)},
		{"runtime id", evidence.MatchName(w.RuntimeIDs, r.RuntimeID)},
		{"trigger kind", slices.Contains(w.TriggerKinds, r.Trigger.Kind)},
		{"trigger source", slices.Contains(w.TriggerSources, r.Trigger.Source)},
		{"policy hash", w.PolicyHash != "" && r.PolicyHash == w.PolicyHash},
		{"environment hash", r.EnvironmentHash != "" && slices.Contains(w.EnvironmentHashes, r.EnvironmentHash)},
	} {
		if !c.ok {
			return refusal.New("not_allowed",
				"the policy does not allow the %s of the runtime attestation behind the capability", c.what)
		}
	}
	age := now.Sub(time.Unix(r.IssuedAt, 0))
	if w.MaxAge <= 0 || age > w.MaxAge+skew || age < -skew {
		return refusal.New("expired", "the runtime attestation behind the capability is %s old; at most %s is accepted",
			age.Round(time.Second), w.MaxAge)
	}
	return nil
}
