package policy

import (
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Manifest is the strict deployment manifest (seed: deployment), under the seed's names. Durations whose names end in Ms are in
// milliseconds.
//
// Three policies that the seed's caller hands to the verifiers beside the manifest are part of it here: signerCertificatePolicy,
// policyDecisionPolicy and grantPolicy. Left to the caller, the keys that may certify, decide and grant would be outside of what
// the auditor signs, and the certificate would say less than it seems to.
type Manifest struct {
	Version                     string            `yaml:"version" json:"version"` // 1.0 or 1.1
	DeploymentID                string            `yaml:"deploymentId" json:"deploymentId"`
	RuntimePolicy               RuntimePolicy     `yaml:"runtimePolicy" json:"runtimePolicy"`
	SignerCertificatePolicy     CertificatePolicy `yaml:"signerCertificatePolicy" json:"signerCertificatePolicy"`
	DeploymentCertificatePolicy DeploymentPolicy  `yaml:"deploymentCertificatePolicy" json:"deploymentCertificatePolicy"`
	AgentSessionReceiptPolicy   SessionPolicy     `yaml:"agentSessionReceiptPolicy" json:"agentSessionReceiptPolicy"`
	PolicyDecisionPolicy        ProofPolicy       `yaml:"policyDecisionPolicy" json:"policyDecisionPolicy"`
	GrantPolicy                 ProofPolicy       `yaml:"grantPolicy" json:"grantPolicy"`
	RequestProofPolicy          RequestPolicy     `yaml:"requestProofPolicy" json:"requestProofPolicy"`
	// InteractionReceiptPolicy is for deployments whose sidecars make interaction receipts. Without it no interaction receipt is believed.
	InteractionReceiptPolicy *InteractionPolicy `yaml:"interactionReceiptPolicy,omitempty" json:"interactionReceiptPolicy,omitempty"`
	// AutonomyPolicy, of version 1.1, is for deployments whose policy asks for the reputation of agents. Without it none is believed.
	AutonomyPolicy *AutonomyPolicy `yaml:"autonomyPolicy,omitempty" json:"autonomyPolicy,omitempty"`
	// AgentStatementPolicy, of version 1.1, is for deployments whose agents publish signals and dispute those of others. Without it no sidecar
	// signs for its agent.
	AgentStatementPolicy *StatementPolicy `yaml:"agentStatementPolicy,omitempty" json:"agentStatementPolicy,omitempty"`
	MaxChallengeAgeMs    int64            `yaml:"maxChallengeAgeMs" json:"maxChallengeAgeMs"`
	CapabilityTTLMs      int64            `yaml:"capabilityTtlMs" json:"capabilityTtlMs"`
	MaxCapabilityAgeMs   int64            `yaml:"maxCapabilityAgeMs" json:"maxCapabilityAgeMs"`
	Controls             Controls         `yaml:"controls" json:"controls"`
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
	AllowedIssuers   []string `yaml:"allowedIssuers" json:"allowedIssuers"`
	AllowedAudiences []string `yaml:"allowedAudiences" json:"allowedAudiences"`
	AllowedKeyIDs    []string `yaml:"allowedKeyIds" json:"allowedKeyIds"`
}

// KeyCustody is what a policy demands of the key behind an artifact.
type KeyCustody struct {
	AllowedKeyCustody       []string `yaml:"allowedKeyCustody" json:"allowedKeyCustody"`
	RequireNonExportableKey bool     `yaml:"requireNonExportableKey" json:"requireNonExportableKey"`
}

// RuntimePolicy is for the runtime attestation (seed: runtimePolicy, runtimeAttestationPolicy). What may be left out has the strict
// answer as its default, and a manifest can only say it again or demand more: the mode is autonomous, the trigger is of a kind that is
// no human's, and the keys of runtime, trigger mediator and source verifier are external or hardware-backed and not exportable. That
// no human interacts is always demanded.
type RuntimePolicy struct {
	Allowed                 `yaml:",inline"`
	AllowedKeyCustody       []string      `yaml:"allowedKeyCustody,omitempty" json:"allowedKeyCustody,omitempty"`
	RequireNonExportableKey bool          `yaml:"requireNonExportableKey,omitempty" json:"requireNonExportableKey,omitempty"`
	AllowedRuntimeIDs       []string      `yaml:"allowedRuntimeIds,omitempty" json:"allowedRuntimeIds,omitempty"` // empty leaves it to agentSessionReceiptPolicy
	AllowedTriggerKinds     []string      `yaml:"allowedTriggerKinds,omitempty" json:"allowedTriggerKinds,omitempty"`
	DeniedTriggerKinds      []string      `yaml:"deniedTriggerKinds,omitempty" json:"deniedTriggerKinds,omitempty"`
	RequiredMode            string        `yaml:"requiredMode,omitempty" json:"requiredMode,omitempty"`
	MaxAttestationAgeMs     int64         `yaml:"maxAttestationAgeMs" json:"maxAttestationAgeMs"`
	RequiredPolicyHash      string        `yaml:"requiredPolicyHash" json:"requiredPolicyHash"` // see Rules.Hash
	RequiredEnvironmentHash string        `yaml:"requiredEnvironmentHash" json:"requiredEnvironmentHash"`
	TriggerReceiptPolicy    ReceiptPolicy `yaml:"triggerReceiptPolicy" json:"triggerReceiptPolicy"`
}

// ReceiptPolicy is for the trigger receipt (seed: triggerReceiptPolicy). The two hashes belong to one request: engine and gate
// always compare those of the request at hand, so a manifest leaves them out, unless it is made for one event alone.
type ReceiptPolicy struct {
	Allowed                    `yaml:",inline"`
	AllowedKinds               []string     `yaml:"allowedKinds" json:"allowedKinds"`
	AllowedSources             []string     `yaml:"allowedSources" json:"allowedSources"`
	RequireEventID             bool         `yaml:"requireEventId" json:"requireEventId"`
	RequiredPayloadHash        string       `yaml:"requiredPayloadHash,omitempty" json:"requiredPayloadHash,omitempty"`
	RequiredBindingHash        string       `yaml:"requiredBindingHash,omitempty" json:"requiredBindingHash,omitempty"`
	MaxReceiptAgeMs            int64        `yaml:"maxReceiptAgeMs" json:"maxReceiptAgeMs"`
	RequireOriginProof         bool         `yaml:"requireOriginProof" json:"requireOriginProof"`
	RequireVerifiedOriginProof bool         `yaml:"requireVerifiedOriginProof" json:"requireVerifiedOriginProof"`
	OriginProofPolicy          OriginPolicy `yaml:"originProofPolicy" json:"originProofPolicy"`
}

// OriginPolicy is for the trigger origin proof (seed: originProofPolicy). For its three hashes see [ReceiptPolicy].
type OriginPolicy struct {
	Allowed                    `yaml:",inline"`
	AllowedKinds               []string `yaml:"allowedKinds" json:"allowedKinds"`
	AllowedSources             []string `yaml:"allowedSources" json:"allowedSources"`
	AllowedVerificationMethods []string `yaml:"allowedVerificationMethods" json:"allowedVerificationMethods"`
	RequireEventID             bool     `yaml:"requireEventId" json:"requireEventId"`
	RequireEvidenceID          bool     `yaml:"requireEvidenceId" json:"requireEvidenceId"`
	RequiredPayloadHash        string   `yaml:"requiredPayloadHash,omitempty" json:"requiredPayloadHash,omitempty"`
	RequiredBindingHash        string   `yaml:"requiredBindingHash,omitempty" json:"requiredBindingHash,omitempty"`
	RequiredEvidenceHash       string   `yaml:"requiredEvidenceHash,omitempty" json:"requiredEvidenceHash,omitempty"`
	MaxProofAgeMs              int64    `yaml:"maxProofAgeMs" json:"maxProofAgeMs"`
}

// CertificatePolicy is for signer custody certificates (seed: signerCertificatePolicy). The seed bounds their age by their lifetime
// alone; here the age has its own bound, so that a certificate that was made too long is not believed for longer.
type CertificatePolicy struct {
	Allowed                     `yaml:",inline"`
	KeyCustody                  `yaml:",inline"`
	DenyAgentAccessible         bool `yaml:"denyAgentAccessible" json:"denyAgentAccessible"`
	DenyUserAccessible          bool `yaml:"denyUserAccessible" json:"denyUserAccessible"`
	RequireSubjectPublicKeyHash bool `yaml:"requireSubjectPublicKeyHash" json:"requireSubjectPublicKeyHash"`
	// MaxRevocationListAgeMs refuses everything unless the bundle has a revocation list that is no older. Left out, a bundle needs none;
	// one that is there counts all the same.
	MaxRevocationListAgeMs int64 `yaml:"maxRevocationListAgeMs,omitempty" json:"maxRevocationListAgeMs,omitempty"`
	// RequirePostQuantumSignature refuses a bundle unless the registry's ML-DSA-65 key is pinned and has signed too.
	RequirePostQuantumSignature bool  `yaml:"requirePostQuantumSignature,omitempty" json:"requirePostQuantumSignature,omitempty"`
	MaxCertificateAgeMs         int64 `yaml:"maxCertificateAgeMs" json:"maxCertificateAgeMs"`
}

// DeploymentPolicy is for the deployment certificate (seed: deploymentCertificatePolicy).
type DeploymentPolicy struct {
	Allowed              `yaml:",inline"`
	AllowedDeploymentIDs []string `yaml:"allowedDeploymentIds" json:"allowedDeploymentIds"`
	// RequirePostQuantumSignature refuses the certificate unless the auditor's ML-DSA-65 key is pinned and has signed too.
	RequirePostQuantumSignature bool  `yaml:"requirePostQuantumSignature,omitempty" json:"requirePostQuantumSignature,omitempty"`
	MaxCertificateAgeMs         int64 `yaml:"maxCertificateAgeMs" json:"maxCertificateAgeMs"`
}

// SessionPolicy is for the agent session receipt (seed: agentSessionReceiptPolicy).
type SessionPolicy struct {
	Allowed                       `yaml:",inline"`
	KeyCustody                    `yaml:",inline"`
	AllowedRuntimeIDs             []string `yaml:"allowedRuntimeIds" json:"allowedRuntimeIds"`
	AllowedInputKinds             []string `yaml:"allowedInputKinds" json:"allowedInputKinds"`
	DeniedInputKinds              []string `yaml:"deniedInputKinds" json:"deniedInputKinds"`
	RequireChallengeID            bool     `yaml:"requireChallengeId" json:"requireChallengeId"`
	RequireBindingHash            bool     `yaml:"requireBindingHash" json:"requireBindingHash"`
	RequireNoHumanPrompt          bool     `yaml:"requireNoHumanPrompt" json:"requireNoHumanPrompt"`
	RequireNoHumanOperator        bool     `yaml:"requireNoHumanOperator" json:"requireNoHumanOperator"`
	DenyUserShellAccess           bool     `yaml:"denyUserShellAccess" json:"denyUserShellAccess"`
	DenyUserAccessibleEnvironment bool     `yaml:"denyUserAccessibleAgentEnvironment" json:"denyUserAccessibleAgentEnvironment"`
	RequiredPolicyHash            string   `yaml:"requiredPolicyHash" json:"requiredPolicyHash"`
	RequiredEnvironmentHash       string   `yaml:"requiredEnvironmentHash" json:"requiredEnvironmentHash"`
	MaxReceiptAgeMs               int64    `yaml:"maxReceiptAgeMs" json:"maxReceiptAgeMs"`
}

// ProofPolicy is for the policy decision and for the action grant (seed: policyDecisionPolicy, grantPolicy).
type ProofPolicy struct {
	Allowed       `yaml:",inline"`
	KeyCustody    `yaml:",inline"`
	MaxProofAgeMs int64 `yaml:"maxProofAgeMs" json:"maxProofAgeMs"`
}

// InteractionPolicy is for interaction receipts.
type InteractionPolicy struct {
	Allowed         `yaml:",inline"`
	KeyCustody      `yaml:",inline"`
	MaxReceiptAgeMs int64 `yaml:"maxReceiptAgeMs" json:"maxReceiptAgeMs"`
}

// AutonomyPolicy is for the reputation tokens that a node signs of agents. The node's key is certified by this deployment's key registry, as every
// other key is.
type AutonomyPolicy struct {
	Allowed    `yaml:",inline"`
	KeyCustody `yaml:",inline"`
	// MaxReputationAgeMs is how much later than the node the policy may learn that an agent has lost a dispute.
	MaxReputationAgeMs int64 `yaml:"maxReputationAgeMs" json:"maxReputationAgeMs"`
	// ScoringHash is that of the formulas by which sessions have to be scored.
	ScoringHash string `yaml:"scoringHash" json:"scoringHash"`
	// RequireVerification believes the reputation of verified agents alone. Rules that ask for no reputation are as before: an agent has to be
	// able to post before it is verified, if only to register its plugin.
	RequireVerification bool `yaml:"requireVerification,omitempty" json:"requireVerification,omitempty"`
	// AllowDegraded counts an agent as verified although a server of the xray bridge did not answer.
	AllowDegraded bool `yaml:"allowDegraded,omitempty" json:"allowDegraded,omitempty"`
}

// StatementPolicy is for the statements that sidecars sign for their agents.
type StatementPolicy struct {
	Allowed           `yaml:",inline"`
	KeyCustody        `yaml:",inline"`
	MaxStatementAgeMs int64 `yaml:"maxStatementAgeMs" json:"maxStatementAgeMs"`
}

// RequestPolicy is for the request proof (seed: requestProofPolicy).
type RequestPolicy struct {
	ProofPolicy         `yaml:",inline"`
	RequireBindingHash  bool `yaml:"requireBindingHash" json:"requireBindingHash"`
	RequireCapabilityID bool `yaml:"requireCapabilityId" json:"requireCapabilityId"`
}

// ParseManifest reads one manifest of at most 256 KiB, YAML or JSON. An unknown key, a missing key, a key twice, a value of another
// type (yes is no boolean) or a second document is refused as config_malformed; all that is wrong is said at once, each with its
// line. Whether the manifest is safe is for [Manifest.Audit] to say.
func ParseManifest(raw []byte) (*Manifest, error) {
	var m Manifest
	f, err := strict.Read(raw, &m, strict.Options{Complete: true, MaxBytes: MaxFile})
	if err == nil {
		err = f.Err("")
	}
	if err != nil {
		return nil, refusal.New("config_malformed", "the manifest is malformed: %w", err)
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
