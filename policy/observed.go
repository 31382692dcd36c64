package policy

import (
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
)

// What is known of a control beside what the manifest declares.
const (
	ObservedTrue  = "observed true"  // all that can be looked at bears the manifest out
	ObservedFalse = "observed false" // something that was looked at contradicts it
	DeclaredOnly  = "only declared"
)

// ObservedControl is one of the manifest's controls with what was seen of it.
type ObservedControl struct {
	Control  string   `json:"control"`
	Declared bool     `json:"declared"`          // what the manifest says
	State    string   `json:"state"`             // ObservedTrue: it is as the manifest says
	Evidence []string `json:"evidence"`          // a sentence for each look
	Against  string   `json:"against,omitempty"` // the one of them that a safe deployment would not give
}

// keyObservations bear out that the agent cannot reach the key of a role.
func keyObservations(purpose string) []string {
	return []string{look.Process + ":" + purpose, look.Files + ":" + purpose, look.Custody + ":" + purpose}
}

// mintObservations bear out that the holder of purpose's key can make no other role's artifacts.
func mintObservations(purpose string) []string {
	return []string{look.Keys, look.Apart + ":" + purpose}
}

// observations names, for each control that can be observed, the observations that together bear it out. No process could
// observe that the other controls hold: who reaches a key from elsewhere, what an API does with a token, who prompts an
// agent. Nor that users have no shell: an agent can read a person's commands from a file, although no process entered
// its run.
var observations = map[string][]string{
	"proofRequiredForPost":                        {look.Gate},
	"deploymentCertificateRequired":               {look.Gate},
	"agentSessionReceiptRequiredForPost":          {look.Gate},
	"requestProofRequiredForPost":                 {look.Gate},
	"signerCustodyCertificatesRequired":           {look.Gate},
	"policyDecisionRequiredForPost":               {look.Gate},
	"grantRequiresPolicyDecision":                 {look.Gate},
	"policyDecisionAcceptsHumanInitiatedRequests": {look.Gate},
	"consumeVerification":                         {look.Gate},
	"consumeCapability":                           {look.Gate},
	"atomicConsumptionWithPost":                   {look.Gate},

	"triggerAcceptsHumanInitiatedEvents": {look.Human},
	"originProofAcceptsManualEvents":     {look.Human},

	"agentSessionSignerAccessibleToAgent":   keyObservations(evidence.PurposeAgentSession),
	"requestProofSignerAccessibleToAgent":   keyObservations(evidence.PurposeRequestProof),
	"runtimeSignerAccessibleToAgent":        keyObservations(evidence.PurposeRuntimeAttestation),
	"triggerSignerAccessibleToAgent":        keyObservations(evidence.PurposeTriggerReceipt),
	"originProofSignerAccessibleToAgent":    keyObservations(evidence.PurposeTriggerOriginProof),
	"policyDecisionSignerAccessibleToAgent": keyObservations(evidence.PurposePolicyDecision),

	"agentSessionCanBeMintedByRuntimeSigner":        mintObservations(evidence.PurposeRuntimeAttestation),
	"requestProofCanBeMintedByRuntimeSigner":        mintObservations(evidence.PurposeRuntimeAttestation),
	"requestProofCanBeMintedByGrantSigner":          mintObservations(evidence.PurposeActionGrant),
	"requestProofCanBeMintedByPolicyDecisionSigner": mintObservations(evidence.PurposePolicyDecision),
	"triggerCanBeMintedByRuntimeSigner":             mintObservations(evidence.PurposeRuntimeAttestation),
	"originProofCanBeMintedByTriggerSigner":         mintObservations(evidence.PurposeTriggerReceipt),
	"originProofCanBeMintedByRuntimeSigner":         mintObservations(evidence.PurposeRuntimeAttestation),
	"policyDecisionCanBeMintedByRuntimeSigner":      mintObservations(evidence.PurposeRuntimeAttestation),
	"policyDecisionCanBeMintedByTriggerSigner":      mintObservations(evidence.PurposeTriggerReceipt),
	"policyDecisionCanBeMintedByGrantSigner":        mintObservations(evidence.PurposeActionGrant),
}

// certified is the control on which a look at any role's key tells if it is against it: what the key's custody certificate says is not so
// then, also where no other control asks for it.
const certified = "signerCustodyCertificatesRequired"

// refuted returns the sentences of looks that are against a key's custody certificate.
func refuted(seen []look.Observation) []string {
	var out []string
	for _, l := range seen {
		if l.Purpose != "" && l.Result == look.Contradicts && !slices.Contains(out, l.Seen) {
			out = append(out, l.Seen)
		}
	}
	return out
}

// against names, for some controls, observations that never bear the control out, but one of which is enough against it.
// That no human stands behind a run cannot be seen; that one does can.
var against = map[string][]string{
	"agentSessionAcceptsHumanPrompts":   {look.Stdin},
	"agentSessionAllowsHumanOperators":  {look.Terminal},
	"agentSessionAllowsUserShellAccess": {look.Terminal, look.Stranger},
	"agentEnvironmentAccessibleToUsers": {look.Debugger, look.Stranger},
}

// Observe holds each control against what was seen, in the manifest's order. Observations of several processes are taken together: for a
// control to be borne out, all of what can be looked at has to be there and to hold, from every process that looked; one that
// contradicts it is enough against it.
func (m *Manifest) Observe(seen []look.Observation) []ObservedControl {
	var out []ObservedControl
	for _, c := range m.Controls.table() {
		o := ObservedControl{Control: c.name, Declared: c.got, State: DeclaredOnly}
		var result look.Result
		result, o.Evidence, o.Against = judge(observations[c.name], against[c.name], seen)
		if refuted := refuted(seen); c.name == certified && len(refuted) > 0 {
			result, o.Evidence, o.Against = look.Contradicts, append(o.Evidence, refuted...), refuted[0]
		}
		// All looks together bear out the strict value; one is enough for the other value.
		switch value := c.want == (result == look.Holds); {
		case result == look.NotObserved:
		case value == c.got:
			o.State = ObservedTrue
		default:
			o.State = ObservedFalse
		}
		out = append(out, o)
	}
	return out
}

// judge takes the looks with these ids together: what they come to, the sentence of each, and the one that is against it. Those of
// doubts can only be against it.
func judge(ids, doubts []string, seen []look.Observation) (result look.Result, evidence []string, against string) {
	evidence = []string{}
	holds := len(ids) > 0
	for i, id := range slices.Concat(ids, doubts) {
		found := i >= len(ids)
		for _, l := range seen {
			if l.ID() != id {
				continue
			}
			found = true
			evidence = append(evidence, l.Seen)
			holds = holds && (i >= len(ids) || l.Result == look.Holds)
			if l.Result == look.Contradicts {
				result, against = look.Contradicts, l.Seen
			}
		}
		holds = holds && found
	}
	if holds {
		result = look.Holds
	}
	return result, evidence, against
}

// OutOfReach says whether the key of the role purpose was seen to be out of the agent's reach, and what is against it.
func OutOfReach(purpose string, seen []look.Observation) (result look.Result, against string) {
	result, _, against = judge(keyObservations(purpose), nil, seen)
	return result, against
}

// Apart says whether the holder of the key of the role purpose was seen to be able to use no other, and what is against it.
func Apart(purpose string, seen []look.Observation) (result look.Result, against string) {
	result, _, against = judge([]string{look.Apart + ":" + purpose}, nil, seen)
	return result, against
}

// Contradicted refuses a deployment of which something was seen that contradicts the manifest.
func Contradicted(controls []ObservedControl) error {
	for _, c := range controls {
		if c.State == ObservedFalse {
			return refusal.New("deployment_contradicted", "the manifest says %s: %t, but what was seen contradicts it (%s); mediator doctor shows all that was looked at",
				c.Control, c.Declared, c.Against)
		}
	}
	return nil
}
