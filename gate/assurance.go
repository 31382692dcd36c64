package gate

import (
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// The names of the gate's checks, as the record keeps them.
const (
	checkDeployment = "deployment certificate"
	checkWork       = "fresh work"
	checkTrigger    = "origin proof and trigger receipt"
	checkDecision   = "policy decision"
	checkGrant      = "action grant"
	checkRuntime    = "runtime attestation"
	checkSession    = "agent session receipt"
	checkSingleUse  = "single use of the evidence" // recorded only where it fails: with success it may be yet to come
	checkCapability = "capability"
	checkProof      = "request proof"
)

// Held says which parts of the chain the checks of one post's [Admission] and [Authorization], in this order, show to have held; for
// [policy.Assess]. What comes after a check that failed does not count. Held never says that the single use was seen to: whoever
// has consumed the keys of both sets SingleUseConsumed.
func Held(checks []ledger.Check) policy.Held {
	var h policy.Held
	parts := map[string]*bool{
		checkDeployment: &h.DeploymentAudit, checkWork: &h.FreshWork, checkTrigger: &h.TriggerEvidence, checkDecision: &h.PolicyDecision,
		checkGrant: &h.Grant, checkRuntime: &h.RuntimeAttested, checkSession: &h.SessionReceipt, checkProof: &h.RequestProof,
	}
	for _, k := range checks {
		if !k.OK {
			break
		}
		if held, ok := parts[k.Name]; ok {
			*held = true
		}
	}
	return h
}
