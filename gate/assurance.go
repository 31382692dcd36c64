package gate

import (
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// The checks' names in the record.
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

// Held returns the parts that held, by the checks of one post's [Admission] and then its [Authorization]. The caller
// sets SingleUseConsumed.
func Held(checks []ledger.Check) policy.Held {
	var h policy.Held
	parts := map[string]*bool{
		CheckDeployment: &h.DeploymentAudit, checkWork: &h.FreshWork, CheckTrigger: &h.TriggerEvidence,
		checkDecision: &h.PolicyDecision,
		checkGrant:    &h.Grant, checkRuntime: &h.RuntimeAttested, CheckSession: &h.SessionReceipt,
		CheckProof: &h.RequestProof,
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

// Assurance reports on an admitted chain before its post. Set consumed once the keys are.
func (a Admission) Assurance(consumed bool) policy.Assurance {
	h := Held(a.Checks)
	h.SingleUseConsumed = consumed && a.Capability != ""
	return policy.Assess(h)
}

// Assurance reports on an authorized post. The chain counts as verified, perhaps by another replica: a gate mints the
// capability only after that, and a [Server] returns it after consuming the chain's keys.
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
