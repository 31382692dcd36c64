package policy

import (
	"reflect"
	"strings"
	"unicode"
)

// Controls are safeguards of the endpoint that no artifact can show (seed: controls). The security team declares each.
// A strict deployment may give only one answer to each.
type Controls struct {
	ProofRequiredForPost                          bool `json:"proofRequiredForPost"`
	BearerTokenAloneCanPost                       bool `json:"bearerTokenAloneCanPost"`
	DirectUserPostingAllowed                      bool `json:"directUserPostingAllowed"`
	DeploymentCertificateRequired                 bool `json:"deploymentCertificateRequired"`
	AgentSessionReceiptRequiredForPost            bool `json:"agentSessionReceiptRequiredForPost"`
	AgentSessionSignerAccessibleToAgent           bool `json:"agentSessionSignerAccessibleToAgent"`
	AgentSessionSignerAccessibleToUsers           bool `json:"agentSessionSignerAccessibleToUsers"`
	AgentSessionAcceptsHumanPrompts               bool `json:"agentSessionAcceptsHumanPrompts"`
	AgentSessionAllowsHumanOperators              bool `json:"agentSessionAllowsHumanOperators"`
	AgentSessionAllowsUserShellAccess             bool `json:"agentSessionAllowsUserShellAccess"`
	AgentEnvironmentAccessibleToUsers             bool `json:"agentEnvironmentAccessibleToUsers"`
	AgentSessionCanBeMintedByRuntimeSigner        bool `json:"agentSessionCanBeMintedByRuntimeSigner"`
	RequestProofRequiredForPost                   bool `json:"requestProofRequiredForPost"`
	AccessTokenSenderConstrained                  bool `json:"accessTokenSenderConstrained"`
	RequestProofSignerAccessibleToAgent           bool `json:"requestProofSignerAccessibleToAgent"`
	RequestProofSignerAccessibleToUsers           bool `json:"requestProofSignerAccessibleToUsers"`
	RequestProofCanBeMintedByRuntimeSigner        bool `json:"requestProofCanBeMintedByRuntimeSigner"`
	RequestProofCanBeMintedByGrantSigner          bool `json:"requestProofCanBeMintedByGrantSigner"`
	RequestProofCanBeMintedByPolicyDecisionSigner bool `json:"requestProofCanBeMintedByPolicyDecisionSigner"`
	RuntimeSignerAccessibleToAgent                bool `json:"runtimeSignerAccessibleToAgent"`
	RuntimeSignerAccessibleToUsers                bool `json:"runtimeSignerAccessibleToUsers"`
	RuntimeAcceptsInteractiveRequests             bool `json:"runtimeAcceptsInteractiveRequests"`
	RuntimeCanBeInvokedByUsersForPosting          bool `json:"runtimeCanBeInvokedByUsersForPosting"`
	TriggerSignerAccessibleToAgent                bool `json:"triggerSignerAccessibleToAgent"`
	TriggerSignerAccessibleToUsers                bool `json:"triggerSignerAccessibleToUsers"`
	TriggerAcceptsHumanInitiatedEvents            bool `json:"triggerAcceptsHumanInitiatedEvents"`
	TriggerCanBeMintedByRuntimeSigner             bool `json:"triggerCanBeMintedByRuntimeSigner"`
	OriginProofSignerAccessibleToAgent            bool `json:"originProofSignerAccessibleToAgent"`
	OriginProofSignerAccessibleToUsers            bool `json:"originProofSignerAccessibleToUsers"`
	OriginProofAcceptsManualEvents                bool `json:"originProofAcceptsManualEvents"`
	OriginProofCanBeMintedByTriggerSigner         bool `json:"originProofCanBeMintedByTriggerSigner"`
	OriginProofCanBeMintedByRuntimeSigner         bool `json:"originProofCanBeMintedByRuntimeSigner"`
	SignerCustodyCertificatesRequired             bool `json:"signerCustodyCertificatesRequired"`
	PolicyDecisionRequiredForPost                 bool `json:"policyDecisionRequiredForPost"`
	GrantRequiresPolicyDecision                   bool `json:"grantRequiresPolicyDecision"`
	PolicyDecisionSignerAccessibleToAgent         bool `json:"policyDecisionSignerAccessibleToAgent"`
	PolicyDecisionSignerAccessibleToUsers         bool `json:"policyDecisionSignerAccessibleToUsers"`
	PolicyDecisionAcceptsHumanInitiatedRequests   bool `json:"policyDecisionAcceptsHumanInitiatedRequests"`
	PolicyDecisionCanBeMintedByRuntimeSigner      bool `json:"policyDecisionCanBeMintedByRuntimeSigner"`
	PolicyDecisionCanBeMintedByTriggerSigner      bool `json:"policyDecisionCanBeMintedByTriggerSigner"`
	PolicyDecisionCanBeMintedByGrantSigner        bool `json:"policyDecisionCanBeMintedByGrantSigner"`
	ConsumeVerification                           bool `json:"consumeVerification"`
	ConsumeCapability                             bool `json:"consumeCapability"`
	AtomicConsumptionWithPost                     bool `json:"atomicConsumptionWithPost"`
}

// control is one row: the strict answer, and for any other what is wrong and how to mend it.
type control struct {
	name           string
	want           bool
	sentence, mend string
}

const (
	hideFromAgent = "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."
	hideFromUsers = "Keep that key where users cannot reach it, and make a new version of it."
)

func ownKey(role string) string { return "Give the " + role + " a key and an issuer of its own." }

// code returns the stable code of the control's issue, its name in snake case.
func (r control) code() string {
	var code strings.Builder
	code.WriteString("control_")
	for _, c := range r.name {
		if unicode.IsUpper(c) {
			code.WriteByte('_')
		}
		code.WriteRune(unicode.ToLower(c))
	}
	return code.String()
}

func (r control) got(c *Controls) bool {
	return reflect.ValueOf(c).Elem().FieldByName(strings.ToUpper(r.name[:1]) + r.name[1:]).Bool()
}

// controls are in the seed's order.
var controls = []control{
	{"proofRequiredForPost", true,
		"A post is accepted without the chain of evidence.",
		"Let the endpoint post only what the gate has admitted."},
	{"bearerTokenAloneCanPost", false,
		"A bearer token is enough to post, so a stolen one is too.",
		"Demand a request proof beside the token."},
	{"directUserPostingAllowed", false,
		"Users can post directly, past the agent.",
		"Close every other way to the endpoint, or give users an endpoint of their own."},
	{"deploymentCertificateRequired", true,
		"A deployment runs without an auditor's certificate.",
		"Refuse to start without a certificate for this manifest."},
	{"agentSessionReceiptRequiredForPost", true,
		"A post is accepted without a receipt of the agent's session.",
		"Demand the session receipt before a capability is given."},
	{"agentSessionSignerAccessibleToAgent", false,
		"The agent can reach the session controller's key and mint receipts for itself.",
		hideFromAgent},
	{"agentSessionSignerAccessibleToUsers", false,
		"Users can reach the session controller's key and mint receipts for a run of their own.",
		hideFromUsers},
	{"agentSessionAcceptsHumanPrompts", false,
		"A human can prompt the agent during its run.",
		"Take the session's input from its trigger event alone."},
	{"agentSessionAllowsHumanOperators", false,
		"A human can operate the agent's run.",
		"Run the agent unattended: no terminal, no remote control, no approval prompt."},
	{"agentSessionAllowsUserShellAccess", false,
		"Users have a shell in the agent's run.",
		"Take exec and attach rights to the agent's pod away from users."},
	{"agentEnvironmentAccessibleToUsers", false,
		"Users can change the agent's files, environment or memory.",
		"Keep volumes, secrets and debugging of the agent's pod out of the users' reach."},
	{"agentSessionCanBeMintedByRuntimeSigner", false,
		"The runtime's key can mint session receipts, so one stolen key is two witnesses.",
		ownKey("session controller")},
	{"requestProofRequiredForPost", true,
		"A post is accepted without a request proof, so a stolen capability can be used elsewhere.",
		"Demand the request proof with the post itself."},
	{"accessTokenSenderConstrained", true,
		"Anyone who holds the access token can use it.",
		"Bind the token to the request mediator: compare the request proof's accessTokenHash."},
	{"requestProofSignerAccessibleToAgent", false,
		"The agent can reach the request mediator's key and sign calls that were not mediated.",
		hideFromAgent},
	{"requestProofSignerAccessibleToUsers", false,
		"Users can reach the request mediator's key and sign calls of their own.",
		hideFromUsers},
	{"requestProofCanBeMintedByRuntimeSigner", false,
		"The runtime's key can mint request proofs.",
		ownKey("request mediator")},
	{"requestProofCanBeMintedByGrantSigner", false,
		"The authorization service's key can mint request proofs.",
		ownKey("request mediator")},
	{"requestProofCanBeMintedByPolicyDecisionSigner", false,
		"The policy engine's key can mint request proofs.",
		ownKey("request mediator")},
	{"runtimeSignerAccessibleToAgent", false,
		"The agent can reach the runtime's key and attest for itself.",
		hideFromAgent},
	{"runtimeSignerAccessibleToUsers", false,
		"Users can reach the runtime's key and mint attestations.",
		hideFromUsers},
	{"runtimeAcceptsInteractiveRequests", false,
		"The runtime acts on interactive requests.",
		"Let the runtime take work from verified triggers alone."},
	{"runtimeCanBeInvokedByUsersForPosting", false,
		"Users can have the runtime post for them.",
		"Refuse users' requests before the runtime signs anything."},
	{"triggerSignerAccessibleToAgent", false,
		"The agent can reach the trigger mediator's key and make its own triggers.",
		hideFromAgent},
	{"triggerSignerAccessibleToUsers", false,
		"Users can reach the trigger mediator's key and make triggers.",
		hideFromUsers},
	{"triggerAcceptsHumanInitiatedEvents", false,
		"Events that a human asked for get a trigger receipt.",
		"List those events as human in the trigger service, so that they never get a receipt."},
	{"triggerCanBeMintedByRuntimeSigner", false,
		"The runtime's key can mint trigger receipts, so it can invent its own reasons.",
		ownKey("trigger mediator")},
	{"originProofSignerAccessibleToAgent", false,
		"The agent can reach the source verifier's key and vouch for events that never came.",
		hideFromAgent},
	{"originProofSignerAccessibleToUsers", false,
		"Users can reach the source verifier's key and vouch for events that never came.",
		hideFromUsers},
	{"originProofAcceptsManualEvents", false,
		"Events that somebody entered by hand get an origin proof.",
		"Accept only events whose origin the source verifier checks itself."},
	{"originProofCanBeMintedByTriggerSigner", false,
		"The trigger mediator's key can mint origin proofs, so it vouches for itself.",
		ownKey("source verifier")},
	{"originProofCanBeMintedByRuntimeSigner", false,
		"The runtime's key can mint origin proofs.",
		ownKey("source verifier")},
	{"signerCustodyCertificatesRequired", true,
		"Signing keys are believed without a custody certificate.",
		"Believe only keys that the pinned key registry certifies."},
	{"policyDecisionRequiredForPost", true,
		"A post is accepted without a policy decision.",
		"Demand the decision in every envelope."},
	{"grantRequiresPolicyDecision", true,
		"A grant needs no policy decision.",
		"Scope each grant to the id and hash of one decision."},
	{"policyDecisionSignerAccessibleToAgent", false,
		"The agent can reach the policy engine's key and allow its own posts.",
		hideFromAgent},
	{"policyDecisionSignerAccessibleToUsers", false,
		"Users can reach the policy engine's key and allow posts.",
		hideFromUsers},
	{"policyDecisionAcceptsHumanInitiatedRequests", false,
		"The policy engine allows what a human asked for.",
		"Deny every request whose trigger a human initiated."},
	{"policyDecisionCanBeMintedByRuntimeSigner", false,
		"The runtime's key can mint policy decisions.",
		ownKey("policy engine")},
	{"policyDecisionCanBeMintedByTriggerSigner", false,
		"The trigger mediator's key can mint policy decisions.",
		ownKey("policy engine")},
	{"policyDecisionCanBeMintedByGrantSigner", false,
		"The authorization service's key can mint policy decisions, so it authorizes itself.",
		ownKey("policy engine")},
	{"consumeVerification", true,
		"A solved challenge and its receipts can be used again.",
		"Reserve their ids durably before a capability is given."},
	{"consumeCapability", true, "A capability can be used again.", "Reserve its id durably before the post."},
	{"atomicConsumptionWithPost", true,
		"A capability is not consumed in the same transaction as the post, so a race posts twice.",
		"Consume it in the transaction that publishes or records the post."},
}
