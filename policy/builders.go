package policy

import (
	"cmp"
	"slices"

	"github.com/actionproof/mediator/evidence"
)

// defaultFreshMs is the freshness that the seed's examples use throughout, in milliseconds.
const defaultFreshMs = 15_000

// DefaultRuntimePolicy fills what p leaves open with the strict defaults (seed: createAutonomousRuntimePolicy and
// createStrictAutonomousActionPolicy, which differ only in what strict policy demands anyway): everything required, every kind and
// method that is no human's, 15 s of freshness. Whom to believe and what to pin has no default; [AuditRuntimePolicy] says what is
// still missing.
func DefaultRuntimePolicy(p RuntimePolicy) RuntimePolicy {
	receipt, origin := &p.TriggerReceiptPolicy, &p.TriggerReceiptPolicy.OriginProofPolicy
	for _, required := range []*bool{
		&p.RequireNonExportableKey, &receipt.RequireEventID, &receipt.RequireOriginProof, &receipt.RequireVerifiedOriginProof,
		&origin.RequireEventID, &origin.RequireEvidenceID,
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
		{&p.AllowedKeyCustody, protectedCustody}, {&p.AllowedTriggerKinds, autonomousKinds}, {&p.DeniedTriggerKinds, deniedTriggerKinds},
		{&receipt.AllowedKinds, autonomousKinds}, {&origin.AllowedKinds, autonomousKinds},
		{&origin.AllowedVerificationMethods, verifiedMethods},
	} {
		if len(*open.list) == 0 {
			*open.list = slices.Clone(open.all)
		}
	}
	return p
}
