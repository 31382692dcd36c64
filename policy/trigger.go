package policy

import (
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// CheckTrigger compares an opened origin proof and trigger receipt with each other, the binding and the policy.
// proofHash is the proof's hash.
func CheckTrigger(s *Strict, o evidence.TriggerOriginProof, r evidence.TriggerReceipt, proofHash,
	bindingHash string) error {
	switch {
	case o.BindingHash != bindingHash:
		return refusal.New("artifacts_mismatch", "the origin proof is for another binding")
	case r.BindingHash != bindingHash:
		return refusal.New("artifacts_mismatch", "the trigger receipt is for another binding")
	case r.OriginProofHash != proofHash:
		return refusal.New("artifacts_mismatch", "the trigger receipt rests on another origin proof")
	case r.EventID != o.EventID || r.PayloadHash != o.PayloadHash:
		return refusal.New("artifacts_mismatch", "the trigger receipt and the origin proof are for different events")
	case r.Kind != o.Kind || r.Source != o.Source:
		return refusal.New("artifacts_mismatch",
			"the trigger receipt and the origin proof name different kinds or sources")
	case r.HumanInitiated:
		return refusal.New("human_involved", "the trigger receipt says that a human requested the event")
	// The constant list always counts: no manifest can make a human's request a trigger.
	case !slices.Contains(autonomousKinds, o.Kind) || !slices.Contains(s.Origin.Kinds, o.Kind) ||
		!slices.Contains(s.Receipt.Kinds, r.Kind):
		return refusal.New("not_allowed", "the policy does not allow triggers of kind %q", o.Kind)
	case !slices.Contains(s.Origin.Sources, o.Source) || !slices.Contains(s.Receipt.Sources, r.Source):
		return refusal.New("not_allowed", "the policy does not allow the trigger source %q", o.Source)
	case !slices.Contains(verifiedMethods, o.VerificationMethod) ||
		!slices.Contains(s.Origin.Methods, o.VerificationMethod):
		return refusal.New("not_allowed", "the policy does not allow origins verified by %q", o.VerificationMethod)
	}
	for _, pin := range []struct{ what, want, got string }{
		{"trigger receipt's payloadHash", s.Receipt.PayloadHash, r.PayloadHash},
		{"trigger receipt's bindingHash", s.Receipt.BindingHash, r.BindingHash},
		{"origin proof's payloadHash", s.Origin.PayloadHash, o.PayloadHash},
		{"origin proof's bindingHash", s.Origin.BindingHash, o.BindingHash},
		{"origin proof's evidenceHash", s.Origin.EvidenceHash, o.EvidenceHash},
	} {
		if pin.want != "" && pin.want != pin.got {
			return refusal.New("not_allowed", "the %s is not the one that the manifest requires", pin.what)
		}
	}
	return nil
}
