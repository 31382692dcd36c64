package gate

import (
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// The names of the gate's checks, as the record keeps them.
const (
	CheckDeployment = "deployment certificate"
	checkWork       = "fresh work"
	CheckTrigger    = "origin proof and trigger receipt"
	checkDecision   = "policy decision"
	checkGrant      = "action grant"
	checkRuntime    = "runtime attestation"
	CheckSession    = "agent session receipt"
	checkCapability = "capability"
	CheckProof      = "request proof"
	checkStatement  = "agent statement"
)

// Held says which parts of the chain the checks of one post's [Admission] and [Authorization], in this order, show to have held; for
// [policy.Assess]. What comes after a check that failed does not count. Held never says that the single use was seen to: whoever
// has consumed the keys of both sets SingleUseConsumed.
func Held(checks []ledger.Check) policy.Held {
	var h policy.Held
	parts := map[string]*bool{
		CheckDeployment: &h.DeploymentAudit, checkWork: &h.FreshWork, CheckTrigger: &h.TriggerEvidence, checkDecision: &h.PolicyDecision,
		checkGrant: &h.Grant, checkRuntime: &h.RuntimeAttested, CheckSession: &h.SessionReceipt, CheckProof: &h.RequestProof,
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

// Assurance reports what an admitted chain amounts to before its post: there is no request proof yet. consumed says whether its keys are
// consumed.
func (a Admission) Assurance(consumed bool) policy.Assurance {
	h := Held(a.Checks)
	h.SingleUseConsumed = consumed && a.Capability != ""
	return policy.Assess(h)
}

// Assurance reports what an authorized post amounts to; consumed says whether its keys are consumed with it. The chain was verified
// earlier and perhaps by another replica: a gate mints its capability, with the evidence that Authorize demands in it, only after every
// check of the chain has held, and a [Server] gives it out only after the keys of the chain are consumed.
func (a Authorization) Assurance(consumed bool) policy.Assurance {
	if len(a.Checks) == 0 || !a.Checks[0].OK { // the capability
		return policy.Assess(policy.Held{})
	}
	var checks []ledger.Check
	for _, v := range verifications {
		checks = append(checks, result(v.name, nil))
	}
	h := Held(append(checks, a.Checks...))
	h.SingleUseConsumed = consumed
	return policy.Assess(h)
}
