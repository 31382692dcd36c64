package evidence

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Registered are the claims of RFC 7519 section 4.1 that every artifact has.
type Registered struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"` // NumericDate, Unix seconds
	IssuedAt int64  `json:"iat"` // NumericDate, Unix seconds
	Issuer   string `json:"iss"`
	ID       string `json:"jti"`
}

// NewRegistered stamps a fresh jti, valid from now for lifetime.
func NewRegistered(issuer, audience string, now time.Time, lifetime time.Duration) Registered {
	return Registered{
		Audience: audience, Issuer: issuer, ID: NewOrderedID(now),
		IssuedAt: now.Unix(), Expires: now.Add(lifetime).Unix(),
	}
}

func (r *Registered) registered() *Registered { return r }

func (r Registered) check(typ string, maxLifetime time.Duration) error {
	switch {
	case r.Issuer == "" || r.Audience == "" || r.ID == "":
		return refusal.New("claims_malformed", "the %s lacks one of iss, aud, jti", typ)
	case len(r.Issuer) > maxName || len(r.Audience) > maxName || len(r.ID) > maxName:
		return refusal.New("claims_malformed", "iss, aud or jti of the %s is longer than %d bytes", typ, maxName)
	case r.IssuedAt <= 0 || r.Expires <= r.IssuedAt:
		return refusal.New("lifetime_invalid", "the %s expires before or when it is issued", typ)
	case r.Expires-r.IssuedAt > int64(maxLifetime/time.Second):
		return refusal.New("lifetime_too_long", "the %s is valid for %d s; at most %d s are accepted", typ, r.Expires-r.IssuedAt, int64(maxLifetime/time.Second))
	}
	return nil
}

// Custody classes that a policy can ask for (seed: keyCustody).
const (
	CustodyExternalMediator = "external_mediator"
	CustodyHardwareBacked   = "hardware_backed"
)

// KeyClaims are what the signer says of its own key (seed: keyCustody, keyExportable). A verifier holds them against the
// key's custody certificate.
type KeyClaims struct {
	KeyCustody    string `json:"keyCustody"`
	KeyExportable bool   `json:"keyExportable"`
}

func (k *KeyClaims) keyClaims() *KeyClaims { return k }

// Trigger kinds (seed: trigger.kind). The last two never get a receipt.
const (
	TriggerSourceEvent      = "source_event"
	TriggerScheduled        = "scheduled"
	TriggerAutonomousPolicy = "autonomous_policy"
	TriggerHumanRequest     = "human_request"
	TriggerUnknown          = "unknown"
)

// Verification methods of an origin (seed: verificationMethod). The last two are never evidence.
const (
	MethodWebhookSignature     = "webhook_signature"
	MethodSchedulerLock        = "scheduler_lock"
	MethodPolicyEngineDecision = "policy_engine_decision"
	MethodQueueClaim           = "queue_claim"
	MethodExternalAttestation  = "external_attestation"
	MethodManual               = "manual"
	MethodSelfReported         = "self_reported"
)

// Session input kinds besides the trigger kinds (seed: deniedInputKinds).
const (
	InputHumanPrompt = "human_prompt"
	InputManualShell = "manual_shell"
)

// TriggerOriginProof says how the origin of an event was verified (seed: createTriggerOriginProof).
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

func (c *TriggerOriginProof) check() error {
	return checkClaims(TriggerOriginProofKind.Typ,
		texts{"eventId", c.EventID, "evidenceId", c.EvidenceID, "kind", c.Kind, "source", c.Source, "verificationMethod", c.VerificationMethod},
		hashes{"bindingHash", c.BindingHash, "evidenceHash", c.EvidenceHash, "payloadHash", c.PayloadHash})
}

// TriggerReceipt says that a durable, non-human trigger stands behind exactly this binding (seed: createTriggerReceipt).
// It names the origin proof that it rests on by hash; the proof travels beside it.
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

func (c *TriggerReceipt) check() error {
	return checkClaims(TriggerReceiptKind.Typ,
		texts{"eventId", c.EventID, "kind", c.Kind, "source", c.Source},
		hashes{"bindingHash", c.BindingHash, "originProofHash", c.OriginProofHash, "payloadHash", c.PayloadHash})
}

// Trigger names the event that caused a run (seed: trigger).
type Trigger struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Source string `json:"source"`
}

// ModeAutonomous is the only mode that a strict policy accepts.
const ModeAutonomous = "autonomous"

// RuntimeAttestation is the runtime's receipt for one challenge and one binding (seed: createRuntimeAttestation).
type RuntimeAttestation struct {
	Registered
	KeyClaims
	BindingHash     string `json:"bindingHash"`
	ChallengeID     string `json:"challengeId"`
	ContentHash     string `json:"contentHash"`
	EnvironmentHash string `json:"environmentHash"`
	// HumanInteractive is whether a human could talk to the agent during the run.
	HumanInteractive bool   `json:"humanInteractive"`
	Mode             string `json:"mode"`
	// Observed names those of the other claims that the signer saw for itself; every other one is only declared.
	Observed           []string `json:"observed,omitempty"`
	PolicyHash         string   `json:"policyHash"`
	RuntimeID          string   `json:"runtimeId"`
	Trigger            Trigger  `json:"trigger"`
	TriggerReceiptHash string   `json:"triggerReceiptHash"`
}

func (c *RuntimeAttestation) check() error {
	if err := checkList(RuntimeAttestationKind.Typ, "observed", c.Observed); err != nil {
		return err
	}
	return checkClaims(RuntimeAttestationKind.Typ,
		texts{"challengeId", c.ChallengeID, "mode", c.Mode, "runtimeId", c.RuntimeID, "keyCustody", c.KeyCustody,
			"trigger.id", c.Trigger.ID, "trigger.kind", c.Trigger.Kind, "trigger.source", c.Trigger.Source},
		hashes{"bindingHash", c.BindingHash, "contentHash", c.ContentHash, "environmentHash", c.EnvironmentHash,
			"policyHash", c.PolicyHash, "triggerReceiptHash", c.TriggerReceiptHash})
}

// SessionReceipt is the session controller's record of what the agent's run was given and who could reach it
// (seed: createAutonomousAgentSessionReceipt).
type SessionReceipt struct {
	Registered
	KeyClaims
	AgentEnvironmentUserAccessible bool     `json:"agentEnvironmentUserAccessible"`
	BindingHash                    string   `json:"bindingHash"`
	ChallengeID                    string   `json:"challengeId"`
	EnvironmentHash                string   `json:"environmentHash"`
	EventID                        string   `json:"eventId"`
	HumanOperatorPresent           bool     `json:"humanOperatorPresent"`
	HumanPromptPresent             bool     `json:"humanPromptPresent"`
	InputKind                      string   `json:"inputKind"`
	InputSource                    string   `json:"inputSource"`
	Observed                       []string `json:"observed,omitempty"` // see RuntimeAttestation.Observed
	PolicyHash                     string   `json:"policyHash"`
	RuntimeID                      string   `json:"runtimeId"`
	SessionID                      string   `json:"sessionId"`
	// TranscriptHash is the hash chain over the calls that the session has made so far, as the mediator saw them.
	TranscriptHash  string `json:"transcriptHash"`
	UserShellAccess bool   `json:"userShellAccess"`
}

func (c *SessionReceipt) check() error {
	if err := checkList(SessionReceiptKind.Typ, "observed", c.Observed); err != nil {
		return err
	}
	return checkClaims(SessionReceiptKind.Typ,
		texts{"challengeId", c.ChallengeID, "eventId", c.EventID, "inputKind", c.InputKind, "inputSource", c.InputSource,
			"runtimeId", c.RuntimeID, "sessionId", c.SessionID, "keyCustody", c.KeyCustody},
		hashes{"bindingHash", c.BindingHash, "environmentHash", c.EnvironmentHash, "policyHash", c.PolicyHash, "transcriptHash", c.TranscriptHash})
}

// DecisionAllow is the only decision that is ever signed: a denial is a refusal, not an artifact.
const DecisionAllow = "allow"

// PolicyDecision is the policy engine's decision for exactly one binding and trigger (seed: createAutonomousPolicyDecision).
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
	Resource                 string `json:"resource"`
	// Rule names the policy rule that allowed it.
	Rule           string `json:"rule"`
	RuntimeID      string `json:"runtimeId"`
	Subject        string `json:"subject"`
	TriggerEventID string `json:"triggerEventId"`
	TriggerKind    string `json:"triggerKind"`
	TriggerSource  string `json:"triggerSource"`
}

func (c *PolicyDecision) check() error {
	return checkClaims(PolicyDecisionKind.Typ,
		texts{"action", c.Action, "challengeId", c.ChallengeID, "decision", c.Decision, "originEvidenceId", c.OriginEvidenceID,
			"originVerificationMethod", c.OriginVerificationMethod, "resource", c.Resource, "rule", c.Rule, "runtimeId", c.RuntimeID,
			"subject", c.Subject, "triggerEventId", c.TriggerEventID, "triggerKind", c.TriggerKind, "triggerSource", c.TriggerSource, "keyCustody", c.KeyCustody},
		hashes{"bindingHash", c.BindingHash, "contentHash", c.ContentHash, "environmentHash", c.EnvironmentHash,
			"originEvidenceHash", c.OriginEvidenceHash, "policyHash", c.PolicyHash})
}

// ActionGrant is the authorization service's permission for exactly what one decision allowed (seed: createAutonomousActionGrant).
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
		c.Actions, c.BindingHashes, c.ContentHashes, c.OriginEvidenceHashes, c.OriginEvidenceIDs, c.OriginVerificationMethods,
		c.PolicyDecisionHashes, c.PolicyDecisionIDs, c.Resources, c.RuntimeIDs, c.TriggerEventIDs, c.TriggerSources,
	} {
		// An empty list would read as "no limit" somewhere, sometime.
		if len(list) == 0 {
			return refusal.New("claims_malformed", "the %s leaves one of its scopes empty", ActionGrantKind.Typ)
		}
		if err := checkList(ActionGrantKind.Typ, "of a scope", list); err != nil {
			return err
		}
	}
	return checkClaims(ActionGrantKind.Typ, texts{"subject", c.Subject, "keyCustody", c.KeyCustody},
		hashes{"environmentHash", c.EnvironmentHash, "policyHash", c.PolicyHash})
}

// RequestProof binds the final call to the capability and to the access token that goes with it (seed: createAutonomousRequestProof).
type RequestProof struct {
	Registered
	KeyClaims
	// AccessTokenHash is the SHA-256 of the Authorization value that the API will see; of the empty text where there is none.
	AccessTokenHash string `json:"accessTokenHash"`
	Action          string `json:"action"`
	BindingHash     string `json:"bindingHash"`
	CapabilityID    string `json:"capabilityId"`
	ContentHash     string `json:"contentHash"`
	Resource        string `json:"resource"`
	Subject         string `json:"subject"`
}

func (c *RequestProof) check() error {
	return checkClaims(RequestProofKind.Typ,
		texts{"action", c.Action, "capabilityId", c.CapabilityID, "resource", c.Resource, "subject", c.Subject, "keyCustody", c.KeyCustody},
		hashes{"accessTokenHash", c.AccessTokenHash, "bindingHash", c.BindingHash, "contentHash", c.ContentHash})
}

// SignerCertificate is the key registry's statement about one version of one signing key (seed: createSignerCustodyCertificate).
// It carries the public key itself, so a verifier that pins the registry needs no other source of keys.
type SignerCertificate struct {
	Registered
	AccessibleToAgent    bool     `json:"accessibleToAgent"`
	AccessibleToUsers    bool     `json:"accessibleToUsers"`
	KeyCustody           string   `json:"keyCustody"` // of the certified key, not of the registry's
	KeyExportable        bool     `json:"keyExportable"`
	Observed             []string `json:"observed,omitempty"` // see RuntimeAttestation.Observed
	Purposes             []string `json:"purposes"`
	SubjectIssuer        string   `json:"subjectIssuer"`
	SubjectKeyID         string   `json:"subjectKeyId"`
	SubjectPublicKey     string   `json:"subjectPublicKey"` // base64url of the 32 bytes (RFC 8037 section 2)
	SubjectPublicKeyHash string   `json:"subjectPublicKeyHash"`
}

// key returns what the certificate says of the certified key.
func (c *SignerCertificate) key() KeyClaims { return KeyClaims{c.KeyCustody, c.KeyExportable} }

func (c *SignerCertificate) check() error {
	if len(c.Purposes) != 1 {
		return refusal.New("claims_malformed", "the %s for key %s must give exactly one purpose", SignerCertificateKind.Typ, c.SubjectKeyID)
	}
	if IsSecretID(c.SubjectKeyID) {
		return refusal.New("claims_malformed", "the %s is for the shared secret %s; only keys are certified", SignerCertificateKind.Typ, c.SubjectKeyID)
	}
	if err := checkList(SignerCertificateKind.Typ, "observed", c.Observed); err != nil {
		return err
	}
	return checkClaims(SignerCertificateKind.Typ,
		texts{"keyCustody", c.KeyCustody, "purposes", c.Purposes[0], "subjectIssuer", c.SubjectIssuer, "subjectKeyId", c.SubjectKeyID, "subjectPublicKey", c.SubjectPublicKey},
		hashes{"subjectPublicKeyHash", c.SubjectPublicKeyHash})
}

// DeploymentCertificate is the auditor's signature under one exact deployment manifest
// (seed: createStrictAutonomousDeploymentCertificate).
type DeploymentCertificate struct {
	Registered
	ControlsHash string `json:"controlsHash"`
	DeploymentID string `json:"deploymentId"`
	ManifestHash string `json:"manifestHash"`
	Version      string `json:"version"`
}

func (c *DeploymentCertificate) check() error {
	return checkClaims(DeploymentCertificateKind.Typ, texts{"deploymentId", c.DeploymentID, "version", c.Version},
		hashes{"controlsHash", c.ControlsHash, "manifestHash", c.ManifestHash})
}

// ChallengeToken is what the issuer of a challenge says to itself: everything that it needs to verify the response later,
// without the tasks and without the answers (seed: "How it works").
type ChallengeToken struct {
	Registered
	Answers     []SaltedAnswer `json:"answers"`
	Binding     *Binding       `json:"binding,omitempty"`
	BindingHash string         `json:"bindingHash,omitempty"`
	Difficulty  string         `json:"difficulty"`
	TasksHash   string         `json:"tasksHash"`
}

// SaltedAnswer is the salted hash of one task's expected answer.
type SaltedAnswer struct {
	Hash string `json:"hash"`
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Salt string `json:"salt"`
}

func (c *ChallengeToken) check() error {
	if len(c.Answers) == 0 {
		return refusal.New("claims_malformed", "the %s holds no task", ChallengeTokenKind.Typ)
	}
	for _, a := range c.Answers {
		if err := checkClaims(ChallengeTokenKind.Typ, texts{"answers.id", a.ID, "answers.kind", a.Kind, "answers.salt", a.Salt}, hashes{"answers.hash", a.Hash}); err != nil {
			return err
		}
	}
	bound := ""
	if c.Binding != nil {
		if err := c.Binding.CheckNonce(); err != nil {
			return err
		}
		bound = c.Binding.Hash()
	}
	if c.BindingHash != bound {
		return refusal.New("claims_malformed", "the bindingHash of the %s is not the hash of its binding", ChallengeTokenKind.Typ)
	}
	return checkClaims(ChallengeTokenKind.Typ, texts{"difficulty", c.Difficulty}, hashes{"tasksHash", c.TasksHash})
}

// Capability is the single-use permission for one post that a verifier gives after the whole chain held (seed: capability).
// Its jti is the capability id.
type Capability struct {
	Registered
	Binding     Binding `json:"binding"`
	ChallengeID string  `json:"challengeId"`
	DecisionID  string  `json:"decisionId,omitempty"`
	GrantID     string  `json:"grantId,omitempty"`
	// Runtime and Session summarise the verified attestation and receipt.
	Runtime *RuntimeSummary `json:"runtime,omitempty"`
	Session *SessionSummary `json:"session,omitempty"`
	// VerificationConsumed is whether the ids of the chain were consumed before this left the process that minted it.
	VerificationConsumed bool `json:"verificationConsumed"`
}

// RuntimeSummary is what a capability keeps of the runtime attestation.
type RuntimeSummary struct {
	AttestationID   string  `json:"attestationId"`
	EnvironmentHash string  `json:"environmentHash"`
	IssuedAt        int64   `json:"issuedAt"`
	Issuer          string  `json:"issuer"`
	KeyID           string  `json:"keyId"`
	PolicyHash      string  `json:"policyHash"`
	RuntimeID       string  `json:"runtimeId"`
	Trigger         Trigger `json:"trigger"`
}

// SessionSummary is what a capability keeps of the session receipt.
type SessionSummary struct {
	AgentEnvironmentUserAccessible bool   `json:"agentEnvironmentUserAccessible"`
	HumanOperatorPresent           bool   `json:"humanOperatorPresent"`
	HumanPromptPresent             bool   `json:"humanPromptPresent"`
	InputKind                      string `json:"inputKind"`
	ReceiptID                      string `json:"receiptId"`
	SessionID                      string `json:"sessionId"`
	UserShellAccess                bool   `json:"userShellAccess"`
}

func (c *Capability) check() error {
	if err := c.Binding.CheckNonce(); err != nil {
		return err
	}
	t := slices.Concat(texts{"challengeId", c.ChallengeID}, optional("decisionId", c.DecisionID), optional("grantId", c.GrantID))
	var h hashes
	if r := c.Runtime; r != nil {
		t = append(t, "runtime.attestationId", r.AttestationID, "runtime.issuer", r.Issuer, "runtime.keyId", r.KeyID, "runtime.runtimeId", r.RuntimeID,
			"runtime.trigger.id", r.Trigger.ID, "runtime.trigger.kind", r.Trigger.Kind, "runtime.trigger.source", r.Trigger.Source)
		h = hashes{"runtime.environmentHash", r.EnvironmentHash, "runtime.policyHash", r.PolicyHash}
	}
	if s := c.Session; s != nil {
		t = append(t, "session.inputKind", s.InputKind, "session.receiptId", s.ReceiptID, "session.sessionId", s.SessionID)
	}
	return checkClaims(CapabilityKind.Typ, t, h)
}

// checkList refuses a list that holds a text which is no claim.
func checkList(typ, name string, list []string) error {
	for _, text := range list {
		if err := checkClaims(typ, texts{name, text}, nil); err != nil {
			return err
		}
	}
	return nil
}

// texts and hashes are claims under check: each is its name and its value.
type texts []string
type hashes []string

// optional is a claim that may be missing.
func optional(name, value string) texts {
	if value == "" {
		return nil
	}
	return texts{name, value}
}

// checkClaims refuses a missing or oversized text and anything that should be a SHA-256 and is not.
func checkClaims(typ string, t texts, h hashes) error {
	for i := 0; i < len(t); i += 2 {
		name, value := t[i], t[i+1]
		if value == "" {
			return refusal.New("claims_malformed", "the %s lacks its claim %s", typ, name)
		}
		if len(value) > maxResource {
			return refusal.New("claims_malformed", "the claim %s of the %s is longer than %d bytes", name, typ, maxResource)
		}
	}
	for i := 0; i < len(h); i += 2 {
		if !IsHash(h[i+1]) {
			return refusal.New("claims_malformed", "the claim %s of the %s is not a lowercase hex SHA-256", h[i], typ)
		}
	}
	return nil
}
