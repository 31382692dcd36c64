package policy

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Manifest is the strict deployment manifest (seed: deployment), with the seed's names. Names ending in Ms are in
// milliseconds.
//
// Unlike in the seed, it includes signerCertificatePolicy, policyDecisionPolicy and grantPolicy, so that the auditor
// also signs which keys may certify, decide and grant.
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
	// InteractionReceiptPolicy is for sidecars that make interaction receipts. Without it none is accepted.
	InteractionReceiptPolicy *InteractionPolicy `json:"interactionReceiptPolicy,omitempty"`
	// AutonomyPolicy, of version 1.1, is for policies that use agents' reputation. Without it none is accepted.
	AutonomyPolicy *AutonomyPolicy `json:"autonomyPolicy,omitempty"`
	// AgentStatementPolicy, of version 1.1, is for agents that publish signals and disputes. Without it no sidecar
	// signs for its agent.
	AgentStatementPolicy *StatementPolicy `json:"agentStatementPolicy,omitempty"`
	// WebBotAuthPolicy, of version 1.1, is for sidecars that sign requests. Without it none signs.
	WebBotAuthPolicy *WebBotAuthPolicy `json:"webBotAuthPolicy,omitempty"`
	// EgressCeiling is what no sidecar's rule and no learning session may exceed. Without it they have no bound.
	EgressCeiling      []EgressPattern `json:"egressCeiling,omitempty"`
	MaxChallengeAgeMs  int64           `json:"maxChallengeAgeMs"`
	CapabilityTTLMs    int64           `json:"capabilityTtlMs"`
	MaxCapabilityAgeMs int64           `json:"maxCapabilityAgeMs"`
	Controls           Controls        `json:"controls"`
}

// EgressPattern matches calls, in the language of a sidecar's rules.
type EgressPattern struct {
	URL     string   `json:"url"`
	Methods []string `json:"methods,omitempty"` // empty: all
}

// The known versions. Only version1_1 has autonomyPolicy, agentStatementPolicy and webBotAuthPolicy.
const (
	version1_0 = "1.0"
	version1_1 = "1.1"
)

// Allowed is the part that all policies have. A key id without a version accepts every certified version. Key ids and
// runtime ids may end in [evidence.AnySegment].
type Allowed struct {
	AllowedIssuers   []string `json:"allowedIssuers"`
	AllowedAudiences []string `json:"allowedAudiences"`
	AllowedKeyIDs    []string `json:"allowedKeyIds"`
}

// KeyCustody is a policy's demands on a key.
type KeyCustody struct {
	AllowedKeyCustody       []string `json:"allowedKeyCustody"`
	RequireNonExportableKey bool     `json:"requireNonExportableKey"`
}

// RuntimePolicy is for the runtime attestation (seed: runtimePolicy, runtimeAttestationPolicy). Optional fields default
// to the strict answer, and may only repeat it or demand more: autonomous mode, a non-human trigger kind, external or
// hardware custody, keys that cannot be exported. Human interaction is always refused.
type RuntimePolicy struct {
	Allowed
	AllowedKeyCustody       []string `json:"allowedKeyCustody,omitempty"`
	RequireNonExportableKey bool     `json:"requireNonExportableKey,omitempty"`
	AllowedRuntimeIDs       []string `json:"allowedRuntimeIds,omitempty"` // empty: those of agentSessionReceiptPolicy
	AllowedTriggerKinds     []string `json:"allowedTriggerKinds,omitempty"`
	DeniedTriggerKinds      []string `json:"deniedTriggerKinds,omitempty"`
	RequiredMode            string   `json:"requiredMode,omitempty"`
	MaxAttestationAgeMs     int64    `json:"maxAttestationAgeMs"`
	RequiredPolicyHash      string   `json:"requiredPolicyHash"` // see decide.Rules.Hash
	RequiredEnvironmentHash string   `json:"requiredEnvironmentHash"`
	// AlsoEnvironmentHashes, at most 8, are of further programs that may run, such as the earlier one during an
	// upgrade.
	AlsoEnvironmentHashes []string      `json:"alsoEnvironmentHashes,omitempty"`
	TriggerReceiptPolicy  ReceiptPolicy `json:"triggerReceiptPolicy"`
}

// ReceiptPolicy is for the trigger receipt (seed: triggerReceiptPolicy). Its two hashes belong to one request. Engine
// and gate always compare the request's own, so only a manifest for a single event sets them.
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

// OriginPolicy is for the trigger origin proof (seed: originProofPolicy). See [ReceiptPolicy] for its hashes.
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

// CertificatePolicy is for signer custody certificates (seed: signerCertificatePolicy). Unlike in the seed it bounds
// their age itself, so that one with too long a lifetime is not accepted for that long.
type CertificatePolicy struct {
	Allowed
	KeyCustody
	DenyAgentAccessible         bool `json:"denyAgentAccessible"`
	DenyUserAccessible          bool `json:"denyUserAccessible"`
	RequireSubjectPublicKeyHash bool `json:"requireSubjectPublicKeyHash"`
	// MaxRevocationListAgeMs refuses everything without a revocation list of at most this age. If zero, a bundle needs
	// no list; a list in the bundle always counts.
	MaxRevocationListAgeMs int64 `json:"maxRevocationListAgeMs,omitempty"`
	// RequirePostQuantumSignature also demands the registry's ML-DSA-65 signatures.
	RequirePostQuantumSignature bool  `json:"requirePostQuantumSignature,omitempty"`
	MaxCertificateAgeMs         int64 `json:"maxCertificateAgeMs"`
}

// DeploymentPolicy is for the deployment certificate (seed: deploymentCertificatePolicy).
type DeploymentPolicy struct {
	Allowed
	AllowedDeploymentIDs []string `json:"allowedDeploymentIds"`
	// RequirePostQuantumSignature also demands the auditor's ML-DSA-65 signature.
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

// ProofPolicy is for the policy decision and the action grant (seed: policyDecisionPolicy, grantPolicy).
type ProofPolicy struct {
	Allowed
	KeyCustody
	MaxProofAgeMs int64 `json:"maxProofAgeMs"`
}

// InteractionPolicy is for receipts of model calls and posts.
type InteractionPolicy struct {
	Allowed
	KeyCustody
	MaxReceiptAgeMs int64 `json:"maxReceiptAgeMs"`
}

// AutonomyPolicy is for a node's reputation tokens. This deployment's key registry certifies the node's key.
type AutonomyPolicy struct {
	Allowed
	KeyCustody
	// MaxReputationAgeMs bounds how late the policy learns that an agent lost a dispute.
	MaxReputationAgeMs int64  `json:"maxReputationAgeMs"`
	ScoringHash        string `json:"scoringHash"`
	// RequireVerification accepts only verified agents' reputation. Rules without reputation are not affected, because
	// an agent must post before it can be verified.
	RequireVerification bool `json:"requireVerification,omitempty"`
	// AllowDegraded accepts an agent's verification even if a server of the xray bridge did not answer.
	AllowDegraded bool `json:"allowDegraded,omitempty"`
}

// StatementPolicy is for statements that sidecars sign for agents.
type StatementPolicy struct {
	Allowed
	KeyCustody
	MaxStatementAgeMs int64 `json:"maxStatementAgeMs"`
}

// WebBotAuthPolicy is for the keys that sign requests to APIs (Web Bot Auth). The issuers are the directories' origins.
type WebBotAuthPolicy struct {
	Allowed
	KeyCustody
	// MaxDirectoryAgeMs bounds the time that verifiers cache the directory. A key's new version signs only after that.
	MaxDirectoryAgeMs int64 `json:"maxDirectoryAgeMs"`
}

// RequestPolicy is for the request proof (seed: requestProofPolicy).
type RequestPolicy struct {
	ProofPolicy
	RequireBindingHash  bool `json:"requireBindingHash"`
	RequireCapabilityID bool `json:"requireCapabilityId"`
}

// ParseManifest reads one JSON manifest of at most 256 KiB. It refuses every text whose hash is not the manifest's: one
// with an unknown key, a missing key, or an empty optional key. [Manifest.Audit] judges its safety. Package
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

// Hash returns the hash of the manifest's canonical JSON (seed: hashStrictAutonomousDeploymentManifest).
func (m *Manifest) Hash() string { return canonicalHash(m) }

// Canonical returns the JSON that Hash hashes (RFC 8785).
func (m *Manifest) Canonical() (string, error) {
	text, err := strictjson.CanonicalOf(m)
	return string(text), err
}

// ControlsHash hashes the controls alone, as Hash does the whole.
func (m *Manifest) ControlsHash() string { return canonicalHash(m.Controls) }

// canonicalHash hashes one of our own types. Invalid UTF-8 hashes to the empty text, which no certificate contains.
func canonicalHash(v any) string {
	h, err := evidence.HashValue(v)
	if err != nil {
		return ""
	}
	return h
}

// MaxFile bounds a manifest or a policy file, in bytes.
const MaxFile = 256 << 10

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
