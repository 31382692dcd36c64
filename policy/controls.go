package policy

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/look"
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
	seen           []string // the observations that confirm the strict answer together
	doubts         []string // observations that contradict it and never confirm it
}

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
	return reflect.ValueOf(c).Elem().FieldByName(upper(r.name)).Bool()
}

func upper(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// signing is a role with a key, as the names and sentences of its controls say it.
type signing struct{ name, purpose, role, artifacts string }

var (
	sessionSigner  = signing{"agentSession", evidence.PurposeAgentSession, "session controller", "session receipts"}
	requestSigner  = signing{"requestProof", evidence.PurposeRequestProof, "request mediator", "request proofs"}
	runtimeSigner  = signing{"runtime", evidence.PurposeRuntimeAttestation, "runtime", "attestations"}
	triggerSigner  = signing{"trigger", evidence.PurposeTriggerReceipt, "trigger mediator", "trigger receipts"}
	originSigner   = signing{"originProof", evidence.PurposeTriggerOriginProof, "source verifier", "origin proofs"}
	decisionSigner = signing{"policyDecision", evidence.PurposePolicyDecision, "policy engine", "policy decisions"}
	grantSigner    = signing{"grant", evidence.PurposeActionGrant, "authorization service", "grants"}
)

func (s signing) agentReaches(so string) control {
	return control{name: s.name + "SignerAccessibleToAgent",
		sentence: "The agent can reach the " + s.role + "'s key and " + so + ".",
		mend:     "Keep that key in a process or custody that the agent cannot reach, and make a new version of it.",
		seen:     keyObservations(s.purpose)}
}

// usersReach has no observations: no process sees who reaches a key from elsewhere.
func (s signing) usersReach(so string) control {
	return control{name: s.name + "SignerAccessibleToUsers",
		sentence: "Users can reach the " + s.role + "'s key and " + so + ".",
		mend:     "Keep that key where users cannot reach it, and make a new version of it."}
}

func (s signing) mintedBy(other signing, so string) control {
	return control{name: s.name + "CanBeMintedBy" + upper(other.name) + "Signer",
		sentence: "The " + other.role + "'s key can mint " + s.artifacts + so + ".",
		mend:     "Give the " + s.role + " a key and an issuer of its own.",
		seen:     []string{look.Keys, look.Apart + ":" + other.purpose}}
}

func keyObservations(purpose string) []string {
	return []string{look.Process + ":" + purpose, look.Files + ":" + purpose, look.Custody + ":" + purpose}
}

var gateSeen, humanSeen = []string{look.Gate}, []string{look.Human}

// controls are in the seed's order.
var controls = []control{
	{"proofRequiredForPost", true,
		"A post is accepted without the chain of evidence.",
		"Let the endpoint post only what the gate has admitted.", gateSeen, nil},
	{"bearerTokenAloneCanPost", false,
		"A bearer token is enough to post, so a stolen one is too.",
		"Demand a request proof beside the token.", nil, nil},
	{"directUserPostingAllowed", false,
		"Users can post directly, past the agent.",
		"Close every other way to the endpoint, or give users an endpoint of their own.", nil, nil},
	{"deploymentCertificateRequired", true,
		"A deployment runs without an auditor's certificate.",
		"Refuse to start without a certificate for this manifest.", gateSeen, nil},
	{"agentSessionReceiptRequiredForPost", true,
		"A post is accepted without a receipt of the agent's session.",
		"Demand the session receipt before a capability is given.", gateSeen, nil},
	sessionSigner.agentReaches("mint receipts for itself"),
	sessionSigner.usersReach("mint receipts for a run of their own"),
	{"agentSessionAcceptsHumanPrompts", false,
		"A human can prompt the agent during its run.",
		"Take the session's input from its trigger event alone.", nil, []string{look.Stdin}},
	{"agentSessionAllowsHumanOperators", false,
		"A human can operate the agent's run.",
		"Run the agent unattended: no terminal, no remote control, no approval prompt.", nil, []string{look.Terminal}},
	{"agentSessionAllowsUserShellAccess", false,
		"Users have a shell in the agent's run.",
		"Take exec and attach rights to the agent's pod away from users.", nil, []string{look.Terminal, look.Stranger}},
	{"agentEnvironmentAccessibleToUsers", false,
		"Users can change the agent's files, environment or memory.",
		"Keep volumes, secrets and debugging of the agent's pod out of the users' reach.",
		nil, []string{look.Debugger, look.Stranger}},
	sessionSigner.mintedBy(runtimeSigner, ", so one stolen key is two witnesses"),
	{"requestProofRequiredForPost", true,
		"A post is accepted without a request proof, so a stolen capability can be used elsewhere.",
		"Demand the request proof with the post itself.", gateSeen, nil},
	{"accessTokenSenderConstrained", true,
		"Anyone who holds the access token can use it.",
		"Bind the token to the request mediator: compare the request proof's accessTokenHash.", nil, nil},
	requestSigner.agentReaches("sign calls that were not mediated"),
	requestSigner.usersReach("sign calls of their own"),
	requestSigner.mintedBy(runtimeSigner, ""),
	requestSigner.mintedBy(grantSigner, ""),
	requestSigner.mintedBy(decisionSigner, ""),
	runtimeSigner.agentReaches("attest for itself"),
	runtimeSigner.usersReach("mint attestations"),
	{"runtimeAcceptsInteractiveRequests", false,
		"The runtime acts on interactive requests.",
		"Let the runtime take work from verified triggers alone.", nil, nil},
	{"runtimeCanBeInvokedByUsersForPosting", false,
		"Users can have the runtime post for them.",
		"Refuse users' requests before the runtime signs anything.", nil, nil},
	triggerSigner.agentReaches("make its own triggers"),
	triggerSigner.usersReach("make triggers"),
	{"triggerAcceptsHumanInitiatedEvents", false,
		"Events that a human asked for get a trigger receipt.",
		"List those events as human in the trigger service, so that they never get a receipt.", humanSeen, nil},
	triggerSigner.mintedBy(runtimeSigner, ", so it can invent its own reasons"),
	originSigner.agentReaches("vouch for events that never came"),
	originSigner.usersReach("vouch for events that never came"),
	{"originProofAcceptsManualEvents", false,
		"Events that somebody entered by hand get an origin proof.",
		"Accept only events whose origin the source verifier checks itself.", humanSeen, nil},
	originSigner.mintedBy(triggerSigner, ", so it vouches for itself"),
	originSigner.mintedBy(runtimeSigner, ""),
	{"signerCustodyCertificatesRequired", true,
		"Signing keys are believed without a custody certificate.",
		"Believe only keys that the pinned key registry certifies.", gateSeen, nil},
	{"policyDecisionRequiredForPost", true,
		"A post is accepted without a policy decision.",
		"Demand the decision in every envelope.", gateSeen, nil},
	{"grantRequiresPolicyDecision", true,
		"A grant needs no policy decision.",
		"Scope each grant to the id and hash of one decision.", gateSeen, nil},
	decisionSigner.agentReaches("allow its own posts"),
	decisionSigner.usersReach("allow posts"),
	{"policyDecisionAcceptsHumanInitiatedRequests", false,
		"The policy engine allows what a human asked for.",
		"Deny every request whose trigger a human initiated.", gateSeen, nil},
	decisionSigner.mintedBy(runtimeSigner, ""),
	decisionSigner.mintedBy(triggerSigner, ""),
	decisionSigner.mintedBy(grantSigner, ", so it authorizes itself"),
	{"consumeVerification", true,
		"A solved challenge and its receipts can be used again.",
		"Reserve their ids durably before a capability is given.", gateSeen, nil},
	{"consumeCapability", true,
		"A capability can be used again.",
		"Reserve its id durably before the post.", gateSeen, nil},
	{"atomicConsumptionWithPost", true,
		"A capability is not consumed in the same transaction as the post, so a race posts twice.",
		"Consume it in the transaction that publishes or records the post.", gateSeen, nil},
}
