package policy

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Manifest is the strict deployment manifest (seed: deployment), under the seed's names. Durations whose names end in Ms are in
// milliseconds.
//
// Three policies that the seed's caller hands to the verifiers beside the manifest are part of it here: signerCertificatePolicy,
// policyDecisionPolicy and grantPolicy. Left to the caller, the keys that may certify, decide and grant would be outside of what
// the auditor signs, and the certificate would say less than it seems to.
type Manifest struct {
	Version                     string            `json:"version"` // 1.0 or 1.1
	DeploymentID                string            `json:"deploymentId"`
	RuntimePolicy               RuntimePolicy     `json:"runtimePolicy"`
	SignerCertificatePolicy     CertificatePolicy `json:"signerCertificatePolicy"`
	DeploymentCertificatePolicy DeploymentPolicy  `json:"deploymentCertificatePolicy"`
	AgentSessionReceiptPolicy   SessionPolicy     `json:"agentSessionReceiptPolicy"`
	PolicyDecisionPolicy        ProofPolicy       `json:"policyDecisionPolicy"`
	GrantPolicy                 ProofPolicy       `json:"grantPolicy"`
	RequestProofPolicy          RequestPolicy     `json:"requestProofPolicy"`
	// InteractionReceiptPolicy is for deployments whose sidecars make interaction receipts. Without it no interaction receipt is believed.
	InteractionReceiptPolicy *InteractionPolicy `json:"interactionReceiptPolicy,omitempty"`
	// AutonomyPolicy, of version 1.1, is for deployments whose policy asks for the reputation of agents. Without it none is believed.
	AutonomyPolicy *AutonomyPolicy `json:"autonomyPolicy,omitempty"`
	// AgentStatementPolicy, of version 1.1, is for deployments whose agents publish signals and dispute those of others. Without it no sidecar
	// signs for its agent.
	AgentStatementPolicy *StatementPolicy `json:"agentStatementPolicy,omitempty"`
	MaxChallengeAgeMs    int64            `json:"maxChallengeAgeMs"`
	CapabilityTTLMs      int64            `json:"capabilityTtlMs"`
	MaxCapabilityAgeMs   int64            `json:"maxCapabilityAgeMs"`
	Controls             Controls         `json:"controls"`
}

// The versions of the manifest that are known. Only version1_1 has an autonomyPolicy and an agentStatementPolicy; otherwise they say
// the same.
const (
	version1_0 = "1.0"
	version1_1 = "1.1"
)

// Allowed is the part that every policy has: whose artifacts, for whom, by which keys. A key id without a version accepts every
// version that the registry certifies.
type Allowed struct {
	AllowedIssuers   []string `json:"allowedIssuers"`
	AllowedAudiences []string `json:"allowedAudiences"`
	AllowedKeyIDs    []string `json:"allowedKeyIds"`
}

// KeyCustody is what a policy demands of the key behind an artifact.
type KeyCustody struct {
	AllowedKeyCustody       []string `json:"allowedKeyCustody"`
	RequireNonExportableKey bool     `json:"requireNonExportableKey"`
}

// RuntimePolicy is for the runtime attestation (seed: runtimePolicy, runtimeAttestationPolicy). What may be left out has the strict
// answer as its default, and a manifest can only say it again or demand more: the mode is autonomous, the trigger is of a kind that is
// no human's, and the keys of runtime, trigger mediator and source verifier are external or hardware-backed and not exportable. That
// no human interacts is always demanded.
type RuntimePolicy struct {
	Allowed
	AllowedKeyCustody       []string      `json:"allowedKeyCustody,omitempty"`
	RequireNonExportableKey bool          `json:"requireNonExportableKey,omitempty"`
	AllowedRuntimeIDs       []string      `json:"allowedRuntimeIds,omitempty"` // empty leaves it to agentSessionReceiptPolicy
	AllowedTriggerKinds     []string      `json:"allowedTriggerKinds,omitempty"`
	DeniedTriggerKinds      []string      `json:"deniedTriggerKinds,omitempty"`
	RequiredMode            string        `json:"requiredMode,omitempty"`
	MaxAttestationAgeMs     int64         `json:"maxAttestationAgeMs"`
	RequiredPolicyHash      string        `json:"requiredPolicyHash"` // see Rules.Hash
	RequiredEnvironmentHash string        `json:"requiredEnvironmentHash"`
	TriggerReceiptPolicy    ReceiptPolicy `json:"triggerReceiptPolicy"`
}

// ReceiptPolicy is for the trigger receipt (seed: triggerReceiptPolicy). The two hashes belong to one request: engine and gate
// always compare those of the request at hand, so a manifest leaves them out, unless it is made for one event alone.
type ReceiptPolicy struct {
	Allowed
	AllowedKinds               []string     `json:"allowedKinds"`
	AllowedSources             []string     `json:"allowedSources"`
	RequireEventID             bool         `json:"requireEventId"`
	RequiredPayloadHash        string       `json:"requiredPayloadHash,omitempty"`
	RequiredBindingHash        string       `json:"requiredBindingHash,omitempty"`
	MaxReceiptAgeMs            int64        `json:"maxReceiptAgeMs"`
	RequireOriginProof         bool         `json:"requireOriginProof"`
	RequireVerifiedOriginProof bool         `json:"requireVerifiedOriginProof"`
	OriginProofPolicy          OriginPolicy `json:"originProofPolicy"`
}

// OriginPolicy is for the trigger origin proof (seed: originProofPolicy). For its three hashes see [ReceiptPolicy].
type OriginPolicy struct {
	Allowed
	AllowedKinds               []string `json:"allowedKinds"`
	AllowedSources             []string `json:"allowedSources"`
	AllowedVerificationMethods []string `json:"allowedVerificationMethods"`
	RequireEventID             bool     `json:"requireEventId"`
	RequireEvidenceID          bool     `json:"requireEvidenceId"`
	RequiredPayloadHash        string   `json:"requiredPayloadHash,omitempty"`
	RequiredBindingHash        string   `json:"requiredBindingHash,omitempty"`
	RequiredEvidenceHash       string   `json:"requiredEvidenceHash,omitempty"`
	MaxProofAgeMs              int64    `json:"maxProofAgeMs"`
}

// CertificatePolicy is for signer custody certificates (seed: signerCertificatePolicy). The seed bounds their age by their lifetime
// alone; here the age has its own bound, so that a certificate that was made too long is not believed for longer.
type CertificatePolicy struct {
	Allowed
	KeyCustody
	DenyAgentAccessible         bool `json:"denyAgentAccessible"`
	DenyUserAccessible          bool `json:"denyUserAccessible"`
	RequireSubjectPublicKeyHash bool `json:"requireSubjectPublicKeyHash"`
	// MaxRevocationListAgeMs refuses everything unless the bundle has a revocation list that is no older. Left out, a bundle needs none;
	// one that is there counts all the same.
	MaxRevocationListAgeMs int64 `json:"maxRevocationListAgeMs,omitempty"`
	// RequirePostQuantumSignature refuses a bundle unless the registry's ML-DSA-65 key is pinned and has signed too.
	RequirePostQuantumSignature bool  `json:"requirePostQuantumSignature,omitempty"`
	MaxCertificateAgeMs         int64 `json:"maxCertificateAgeMs"`
}

// DeploymentPolicy is for the deployment certificate (seed: deploymentCertificatePolicy).
type DeploymentPolicy struct {
	Allowed
	AllowedDeploymentIDs []string `json:"allowedDeploymentIds"`
	// RequirePostQuantumSignature refuses the certificate unless the auditor's ML-DSA-65 key is pinned and has signed too.
	RequirePostQuantumSignature bool  `json:"requirePostQuantumSignature,omitempty"`
	MaxCertificateAgeMs         int64 `json:"maxCertificateAgeMs"`
}

// SessionPolicy is for the agent session receipt (seed: agentSessionReceiptPolicy).
type SessionPolicy struct {
	Allowed
	KeyCustody
	AllowedRuntimeIDs             []string `json:"allowedRuntimeIds"`
	AllowedInputKinds             []string `json:"allowedInputKinds"`
	DeniedInputKinds              []string `json:"deniedInputKinds"`
	RequireChallengeID            bool     `json:"requireChallengeId"`
	RequireBindingHash            bool     `json:"requireBindingHash"`
	RequireNoHumanPrompt          bool     `json:"requireNoHumanPrompt"`
	RequireNoHumanOperator        bool     `json:"requireNoHumanOperator"`
	DenyUserShellAccess           bool     `json:"denyUserShellAccess"`
	DenyUserAccessibleEnvironment bool     `json:"denyUserAccessibleAgentEnvironment"`
	RequiredPolicyHash            string   `json:"requiredPolicyHash"`
	RequiredEnvironmentHash       string   `json:"requiredEnvironmentHash"`
	MaxReceiptAgeMs               int64    `json:"maxReceiptAgeMs"`
}

// ProofPolicy is for the policy decision and for the action grant (seed: policyDecisionPolicy, grantPolicy).
type ProofPolicy struct {
	Allowed
	KeyCustody
	MaxProofAgeMs int64 `json:"maxProofAgeMs"`
}

// InteractionPolicy is for interaction receipts.
type InteractionPolicy struct {
	Allowed
	KeyCustody
	MaxReceiptAgeMs int64 `json:"maxReceiptAgeMs"`
}

// AutonomyPolicy is for the reputation tokens that a node signs of agents. The node's key is certified by this deployment's key registry, as every
// other key is.
type AutonomyPolicy struct {
	Allowed
	KeyCustody
	// MaxReputationAgeMs is how much later than the node the policy may learn that an agent has lost a dispute.
	MaxReputationAgeMs int64 `json:"maxReputationAgeMs"`
	// ScoringHash is that of the formulas by which sessions have to be scored.
	ScoringHash string `json:"scoringHash"`
	// RequireVerification believes the reputation of verified agents alone. Rules that ask for no reputation are as before: an agent has to be
	// able to post before it is verified, if only to register its plugin.
	RequireVerification bool `json:"requireVerification,omitempty"`
	// AllowDegraded counts an agent as verified although a server of the xray bridge did not answer.
	AllowDegraded bool `json:"allowDegraded,omitempty"`
}

// StatementPolicy is for the statements that sidecars sign for their agents.
type StatementPolicy struct {
	Allowed
	KeyCustody
	MaxStatementAgeMs int64 `json:"maxStatementAgeMs"`
}

// RequestPolicy is for the request proof (seed: requestProofPolicy).
type RequestPolicy struct {
	ProofPolicy
	RequireBindingHash  bool `json:"requireBindingHash"`
	RequireCapabilityID bool `json:"requireCapabilityId"`
}

// ParseManifest reads one manifest of at most 256 KiB, in JSON. It refuses every text whose hash is not that of the manifest: one with an
// unknown key, a missing key, or an optional one that is empty. [Manifest.Audit] says whether a manifest is safe. Package
// internal/manifest reads YAML.
func ParseManifest(raw []byte) (*Manifest, error) {
	malformed := func(why any) (*Manifest, error) {
		return nil, refusal.New("config_malformed", "the manifest is malformed: %v", why)
	}
	if len(raw) > MaxFile {
		return malformed(fmt.Sprintf("it has %d bytes; at most %d are read", len(raw), MaxFile))
	}
	var m Manifest
	if err := strictjson.Parse(raw, &m); err != nil {
		return malformed(err)
	}
	if hash, err := evidence.HashJSON(raw); err != nil || hash != m.Hash() {
		return malformed("a key is missing, or an optional one is empty or false")
	}
	return &m, nil
}

// Hash returns the lowercase hex SHA-256 of the manifest's RFC 8785 canonical JSON (seed: hashStrictAutonomousDeploymentManifest).
// How the file is written does not matter: of a manifest that is written as JSON it is the hash of that JSON.
func (m *Manifest) Hash() string { return canonicalHash(m) }

// Canonical returns the canonical JSON of the manifest, which [ParseManifest] reads as the same manifest.
func (m *Manifest) Canonical() (string, error) {
	text, err := strictjson.CanonicalOf(m)
	return string(text), err
}

// ControlsHash returns the hash of the controls alone, made in the same way.
func (m *Manifest) ControlsHash() string { return canonicalHash(m.Controls) }

// canonicalHash hashes a value of our own types. They always have a canonical form, unless a text is not valid UTF-8: that hashes to
// the empty text, which no certificate holds.
func canonicalHash(v any) string {
	h, err := evidence.HashValue(v)
	if err != nil {
		return ""
	}
	return h
}

// MaxFile bounds a manifest or a policy file, in bytes.
const MaxFile = 256 << 10

// join returns the key of a member of a part of the file.
func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
