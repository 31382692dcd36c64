package policy

import (
	"cmp"
	"slices"

	"github.com/actionproof/mediator/evidence"
)

const defaultFreshMs = 15_000

// DefaultRuntimePolicy fills p with strict defaults (seed: createAutonomousRuntimePolicy,
// createStrictAutonomousActionPolicy): everything required, every non-human kind and method, 15 s of freshness. Trusted
// names and pinned hashes have no default; [AuditRuntimePolicy] lists what is missing.
func DefaultRuntimePolicy(p RuntimePolicy) RuntimePolicy {
	receipt, origin := &p.TriggerReceiptPolicy, &p.TriggerReceiptPolicy.OriginProofPolicy
	for _, required := range []*bool{
		&p.RequireNonExportableKey, &receipt.RequireEventID, &receipt.RequireOriginProof,
		&receipt.RequireVerifiedOriginProof, &origin.RequireEventID, &origin.RequireEvidenceID,
	} {
		*required = true
	}
	p.RequiredMode = cmp.Or(p.RequiredMode, evidence.ModeAutonomous)
	for _, ms := range []*int64{&p.MaxAttestationAgeMs, &receipt.MaxReceiptAgeMs, &origin.MaxProofAgeMs} {
		if *ms == 0 {
			*ms = defaultFreshMs
		}
	}
	for _, open := range []struct {
		list *[]string
		all  []string
	}{
		{&p.AllowedKeyCustody, protectedCustody}, {&p.AllowedTriggerKinds, autonomousKinds},
		{&p.DeniedTriggerKinds, deniedTriggerKinds},
		{&receipt.AllowedKinds, autonomousKinds}, {&origin.AllowedKinds, autonomousKinds},
		{&origin.AllowedVerificationMethods, verifiedMethods},
	} {
		if len(*open.list) == 0 {
			*open.list = slices.Clone(open.all)
		}
	}
	return p
}
