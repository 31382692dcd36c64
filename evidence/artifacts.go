package evidence

import (
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// The last two kinds of triggers never get a receipt.
const (
	TriggerSourceEvent      = "source_event"
	TriggerScheduled        = "scheduled"
	TriggerAutonomousPolicy = "autonomous_policy"
	TriggerHumanRequest     = "human_request"
	TriggerUnknown          = "unknown"
)

// The last two methods of verifying an origin are never evidence.
const (
	MethodWebhookSignature     = "webhook_signature"
	MethodSchedulerLock        = "scheduler_lock"
	MethodPolicyEngineDecision = "policy_engine_decision"
	MethodQueueClaim           = "queue_claim"
	MethodExternalAttestation  = "external_attestation"
	MethodManual               = "manual"
	MethodSelfReported         = "self_reported"
)

// Kinds of session input besides the trigger kinds.
const (
	InputHumanPrompt = "human_prompt"
	InputManualShell = "manual_shell"
)

// TriggerOriginProof attests how an event's origin was verified.
type TriggerOriginProof struct {
	Registered
	BindingHash        string `json:"bindingHash"`
	EventID            string `json:"eventId"`
	EvidenceHash       string `json:"evidenceHash"`
	EvidenceID         string `json:"evidenceId"`
	Kind               string `json:"kind"`
	PayloadHash        string `json:"payloadHash"`
	Source             string `json:"source"`
	VerificationMethod string `json:"verificationMethod"`
}

// TriggerReceipt attests a durable, non-human trigger for exactly this binding. It names its origin proof by hash.
type TriggerReceipt struct {
	Registered
	BindingHash     string `json:"bindingHash"`
	EventID         string `json:"eventId"`
	HumanInitiated  bool   `json:"humanInitiated"`
	Kind            string `json:"kind"`
	OriginProofHash string `json:"originProofHash"`
	PayloadHash     string `json:"payloadHash"`
	Source          string `json:"source"`
}

// Trigger names the event that started a session.
type Trigger struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Source string `json:"source"`
}

// ModeAutonomous is the only mode that a strict policy accepts.
const ModeAutonomous = "autonomous"

// RuntimeAttestation is the runtime's receipt for one challenge and binding.
type RuntimeAttestation struct {
	Registered
	KeyClaims
	BindingHash     string `json:"bindingHash"`
	ChallengeID     string `json:"challengeId"`
	ContentHash     string `json:"contentHash"`
	EnvironmentHash string `json:"environmentHash"`
	// a human could talk to the agent during the run
	HumanInteractive bool   `json:"humanInteractive"`
	Mode             string `json:"mode"`
	// names the claims that the signer observed itself; the others are only declared
	Observed           []string `json:"observed,omitempty"`
	PolicyHash         string   `json:"policyHash"`
	RuntimeID          string   `json:"runtimeId"`
	Trigger            Trigger  `json:"trigger"`
	TriggerReceiptHash string   `json:"triggerReceiptHash"`
}

// SessionReceipt records the input of the agent's run, and who had access to it.
type SessionReceipt struct {
	Registered
	KeyClaims
	AgentEnvironmentUserAccessible bool `json:"agentEnvironmentUserAccessible"`
	// path of the SPIFFE id in the certificate of the agent's pod; empty if the agent shares the mediator's pod or
	// machine
	AgentPod    string `json:"agentPod,omitempty"`
	BindingHash string `json:"bindingHash"`
	ChallengeID string `json:"challengeId"`
	// see [Enforcements]; empty if the signer is older
	Enforcement          string `json:"enforcement,omitempty"`
	EnvironmentHash      string `json:"environmentHash"`
	EventID              string `json:"eventId"`
	HumanOperatorPresent bool   `json:"humanOperatorPresent"`
	HumanPromptPresent   bool   `json:"humanPromptPresent"`
	InputKind            string `json:"inputKind"`
	InputSource          string `json:"inputSource"`
	// nil without receipts
	Interactions *InteractionHead `json:"interactions,omitempty"`
	Observed     []string         `json:"observed,omitempty"` // see RuntimeAttestation.Observed
	PolicyHash   string           `json:"policyHash"`
	RuntimeID    string           `json:"runtimeId"`
	SessionID    string           `json:"sessionId"`
	// hash chain over the session's calls so far, as seen by the mediator
	TranscriptHash  string `json:"transcriptHash"`
	UserShellAccess bool   `json:"userShellAccess"`
}

func (c *SessionReceipt) check() error {
	if c.Enforcement != "" && !slices.Contains(Enforcements(), c.Enforcement) || len(c.AgentPod) > maxAgentPod {
		return refusal.New("artifact_malformed",
			"the %s has an unknown enforcement (%.40q; known are %s) or an agentPod of more than %d bytes",
			sessionReceipt.Typ, c.Enforcement, strings.Join(Enforcements(), ", "), maxAgentPod)
	}
	return c.Interactions.check()
}

const maxAgentPod = 256

// What keeps an agent from going around the mediator.
const (
	EnforcedIsolated = "isolated" // namespaces of mediator run: observed
	EnforcedGuard    = "guard"    // kernel rules of mediator guard: observed
	EnforcedPod      = "pod"      // NetworkPolicies of a pod without the mediator: not observed, only declared
	EnforcedNone     = "none"     // its proxy variables alone
)

// Enforcements returns the values of the claim enforcement.
func Enforcements() []string {
	return []string{EnforcedIsolated, EnforcedGuard, EnforcedPod, EnforcedNone}
}

// EnforcementObserved reports whether the mediator itself sees that this enforcement holds.
func EnforcementObserved(enforcement string) bool {
	return enforcement == EnforcedIsolated || enforcement == EnforcedGuard
}

// A session with more open calls cannot post.
const (
	MaxOpenCalls = 128
	maxCallID    = 64 // bytes
)

// InteractionHead is the head of a session's chain of receipts at a post.
type InteractionHead struct {
	HeadHash  string   `json:"headHash,omitempty"`  // HashToken of the last receipt; empty if there is none
	Number    int64    `json:"number"`              // its sequence number; 0 if there is none
	OpenCalls []string `json:"openCalls,omitempty"` // request ids of the calls that have no receipt yet, ascending
}

func (h *InteractionHead) check() error {
	if h == nil {
		return nil
	}
	typ := sessionReceipt.Typ
	if h.Number < 0 || h.Number == 0 != (h.HeadHash == "") || len(h.OpenCalls) > MaxOpenCalls {
		return refusal.New("artifact_malformed",
			"the interactions of the %s must have both headHash and number, or neither, and at most %d open calls", typ,
			MaxOpenCalls)
	}
	for i, id := range h.OpenCalls {
		if id == "" || len(id) > maxCallID || i > 0 && id <= h.OpenCalls[i-1] {
			return refusal.New("artifact_malformed",
				"in the openCalls of the %s, an id is empty, too long, repeated or out of order", typ)
		}
	}
	return nil
}

// A denial is a refusal, and not signed.
const DecisionAllow = "allow"

// PolicyDecision allows exactly one binding and trigger.
type PolicyDecision struct {
	Registered
	KeyClaims
	Action                   string `json:"action"`
	BindingHash              string `json:"bindingHash"`
	ChallengeID              string `json:"challengeId"`
	ContentHash              string `json:"contentHash"`
	Decision                 string `json:"decision"`
	EnvironmentHash          string `json:"environmentHash"`
	HumanInitiated           bool   `json:"humanInitiated"`
	OriginEvidenceHash       string `json:"originEvidenceHash"`
	OriginEvidenceID         string `json:"originEvidenceId"`
	OriginVerificationMethod string `json:"originVerificationMethod"`
	PolicyHash               string `json:"policyHash"`
	// the reputation token that a condition read
	ReputationHash string `json:"reputationHash,omitempty"`
	Resource       string `json:"resource"`
	// the policy rule that allowed the post
	Rule           string `json:"rule"`
	RuntimeID      string `json:"runtimeId"`
	Subject        string `json:"subject"`
	TriggerEventID string `json:"triggerEventId"`
	TriggerKind    string `json:"triggerKind"`
	TriggerSource  string `json:"triggerSource"`
}

// ActionGrant permits exactly what one decision allowed.
type ActionGrant struct {
	Registered
	KeyClaims
	Actions                   []string `json:"actions"`
	BindingHashes             []string `json:"bindingHashes"`
	ContentHashes             []string `json:"contentHashes"`
	EnvironmentHash           string   `json:"environmentHash"`
	OriginEvidenceHashes      []string `json:"originEvidenceHashes"`
	OriginEvidenceIDs         []string `json:"originEvidenceIds"`
	OriginVerificationMethods []string `json:"originVerificationMethods"`
	PolicyDecisionHashes      []string `json:"policyDecisionHashes"`
	PolicyDecisionIDs         []string `json:"policyDecisionIds"`
	PolicyHash                string   `json:"policyHash"`
	Resources                 []string `json:"resources"`
	RuntimeIDs                []string `json:"runtimeIds"`
	Subject                   string   `json:"subject"`
	TriggerEventIDs           []string `json:"triggerEventIds"`
	TriggerSources            []string `json:"triggerSources"`
}

func (c *ActionGrant) check() error {
	for _, list := range [][]string{
		c.Actions, c.BindingHashes, c.ContentHashes, c.OriginEvidenceHashes, c.OriginEvidenceIDs,
		c.OriginVerificationMethods,
		c.PolicyDecisionHashes, c.PolicyDecisionIDs, c.Resources, c.RuntimeIDs, c.TriggerEventIDs, c.TriggerSources,
	} {
		// A reader could take an empty list for "no limit".
		if len(list) == 0 {
			return refusal.New("artifact_malformed", "the %s leaves one of its scopes empty", actionGrant.Typ)
		}
	}
	return nil
}

// RequestProof binds the final call to the capability and to the access token.
type RequestProof struct {
	Registered
	KeyClaims
	// SHA-256 of the Authorization value that the API will get, or of the empty text
	AccessTokenHash string `json:"accessTokenHash"`
	Action          string `json:"action"`
	BindingHash     string `json:"bindingHash"`
	CapabilityID    string `json:"capabilityId"`
	ContentHash     string `json:"contentHash"`
	Resource        string `json:"resource"`
	Subject         string `json:"subject"`
}

// SignerCertificate certifies one version of a signing key. It carries the public key, so a verifier needs no other
// source of keys.
type SignerCertificate struct {
	Registered
	AccessibleToAgent    bool     `json:"accessibleToAgent"`
	AccessibleToUsers    bool     `json:"accessibleToUsers"`
	KeyCustody           string   `json:"keyCustody"` // of the certified key
	KeyExportable        bool     `json:"keyExportable"`
	Observed             []string `json:"observed,omitempty"` // see RuntimeAttestation.Observed
	Purposes             []string `json:"purposes"`
	SubjectIssuer        string   `json:"subjectIssuer"`
	SubjectKeyID         string   `json:"subjectKeyId"`
	SubjectPublicKey     string   `json:"subjectPublicKey"` // base64url (RFC 8037 section 2)
	SubjectPublicKeyHash string   `json:"subjectPublicKeyHash"`
}

func (c *SignerCertificate) key() KeyClaims { return KeyClaims{c.KeyCustody, c.KeyExportable} }

func (c *SignerCertificate) check() error {
	if len(c.Purposes) != 1 {
		return refusal.New("artifact_malformed", "the %s for key %s must give exactly one purpose",
			signerCertificate.Typ, c.SubjectKeyID)
	}
	if IsSecretID(c.SubjectKeyID) {
		return refusal.New("artifact_malformed", "the %s is for the shared secret %s; only keys are certified",
			signerCertificate.Typ, c.SubjectKeyID)
	}
	return nil
}

// DeploymentCertificate is the auditor's signature for one manifest.
type DeploymentCertificate struct {
	Registered
	ControlsHash string `json:"controlsHash"`
	DeploymentID string `json:"deploymentId"`
	ManifestHash string `json:"manifestHash"`
	Version      string `json:"version"`
}
