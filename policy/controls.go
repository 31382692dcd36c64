package policy

import "strings"

// Controls are the endpoint's safeguards that no artifact can show (seed: controls), by name. All 44 must be there.
type Controls map[string]bool

// control is one row of the table: what a control has to be, and what is wrong where it is not.
type control struct {
	name  string
	want  bool
	wrong string
}

// controls is the whole table, in the seed's order.
var controls = []control{
	{"proofRequiredForPost", true, "A post is accepted without a proof."},
	{"bearerTokenAloneCanPost", false, "A bearer token is enough to post, so a stolen one is too."},
	{"directUserPostingAllowed", false, "Users can post directly, past the agent."},
	{"deploymentCertificateRequired", true, "A deployment runs without an auditor's certificate."},
	{"agentSessionReceiptRequiredForPost", true, "A post is accepted without a receipt of the agent's session."},
	{"agentSessionSignerAccessibleToAgent", false, "The agent can reach the key of the session controller and mint its own receipts."},
	{"agentSessionSignerAccessibleToUsers", false, "Users can reach the key of the session controller."},
	{"agentSessionAcceptsHumanPrompts", false, "A human can prompt the agent during its run."},
	{"agentSessionAllowsHumanOperators", false, "A human can operate the agent's run."},
	{"agentSessionAllowsUserShellAccess", false, "Users have a shell in the agent's run."},
	{"agentEnvironmentAccessibleToUsers", false, "Users can reach the agent's environment."},
	{"agentSessionCanBeMintedByRuntimeSigner", false, "The runtime's key can mint session receipts."},
	{"requestProofRequiredForPost", true, "A post is accepted without a request proof."},
	{"accessTokenSenderConstrained", true, "The access token is good for whoever holds it."},
	{"requestProofSignerAccessibleToAgent", false, "The agent can reach the key of the request mediator."},
	{"requestProofSignerAccessibleToUsers", false, "Users can reach the key of the request mediator."},
	{"requestProofCanBeMintedByRuntimeSigner", false, "The runtime's key can mint request proofs."},
	{"requestProofCanBeMintedByGrantSigner", false, "The grant's key can mint request proofs."},
	{"requestProofCanBeMintedByPolicyDecisionSigner", false, "The policy engine's key can mint request proofs."},
	{"runtimeSignerAccessibleToAgent", false, "The agent can reach the runtime's key and attest for itself."},
	{"runtimeSignerAccessibleToUsers", false, "Users can reach the runtime's key."},
	{"runtimeAcceptsInteractiveRequests", false, "The runtime acts on interactive requests."},
	{"runtimeCanBeInvokedByUsersForPosting", false, "Users can have the runtime post for them."},
	{"triggerSignerAccessibleToAgent", false, "The agent can reach the trigger mediator's key and make its own triggers."},
	{"triggerSignerAccessibleToUsers", false, "Users can reach the trigger mediator's key."},
	{"triggerAcceptsHumanInitiatedEvents", false, "Events that a human asked for get a receipt."},
	{"triggerCanBeMintedByRuntimeSigner", false, "The runtime's key can mint trigger receipts."},
	{"originProofSignerAccessibleToAgent", false, "The agent can reach the source verifier's key."},
	{"originProofSignerAccessibleToUsers", false, "Users can reach the source verifier's key."},
	{"originProofAcceptsManualEvents", false, "Events that somebody reported by hand get an origin proof."},
	{"originProofCanBeMintedByTriggerSigner", false, "The trigger mediator's key can mint origin proofs."},
	{"originProofCanBeMintedByRuntimeSigner", false, "The runtime's key can mint origin proofs."},
	{"signerCustodyCertificatesRequired", true, "Signing keys are believed without a custody certificate."},
	{"policyDecisionRequiredForPost", true, "A post is accepted without a policy decision."},
	{"grantRequiresPolicyDecision", true, "A grant is given without a policy decision."},
	{"policyDecisionSignerAccessibleToAgent", false, "The agent can reach the policy engine's key."},
	{"policyDecisionSignerAccessibleToUsers", false, "Users can reach the policy engine's key."},
	{"policyDecisionAcceptsHumanInitiatedRequests", false, "The policy engine allows what a human asked for."},
	{"policyDecisionCanBeMintedByRuntimeSigner", false, "The runtime's key can mint policy decisions."},
	{"policyDecisionCanBeMintedByTriggerSigner", false, "The trigger mediator's key can mint policy decisions."},
	{"policyDecisionCanBeMintedByGrantSigner", false, "The grant's key can mint policy decisions."},
	{"consumeVerification", true, "A solved challenge and its receipts can be used again."},
	{"consumeCapability", true, "A capability can be used again."},
	{"atomicConsumptionWithPost", true, "A capability is not consumed in the same transaction as the post."},
}

// code is the control's issue code: control_ and the name in snake case.
func (c control) code() string {
	var b strings.Builder
	b.WriteString("control")
	for i, r := range c.name {
		if i == 0 || r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
