// Package policy holds the strict deployment manifest with its audit and certificate, the policy engine that decides single posts by
// CEL rules and grants them, and the assurance report.
package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

// Manifest is the strict deployment manifest (seed: deployment), under the seed's names. Three policies that the seed hands to its
// verifiers beside the manifest are part of it here, so that one certified document says all that a gate demands:
// signerCertificatePolicy, policyDecisionPolicy and grantPolicy.
type Manifest struct {
	Version                     string            `yaml:"version" json:"version"`
	DeploymentID                string            `yaml:"deploymentId" json:"deploymentId"`
	RuntimePolicy               RuntimePolicy     `yaml:"runtimePolicy" json:"runtimePolicy"`
	SignerCertificatePolicy     CertificatePolicy `yaml:"signerCertificatePolicy" json:"signerCertificatePolicy"`
	DeploymentCertificatePolicy DeploymentPolicy  `yaml:"deploymentCertificatePolicy" json:"deploymentCertificatePolicy"`
	AgentSessionReceiptPolicy   SessionPolicy     `yaml:"agentSessionReceiptPolicy" json:"agentSessionReceiptPolicy"`
	PolicyDecisionPolicy        ProofPolicy       `yaml:"policyDecisionPolicy" json:"policyDecisionPolicy"`
	GrantPolicy                 ProofPolicy       `yaml:"grantPolicy" json:"grantPolicy"`
	RequestProofPolicy          RequestPolicy     `yaml:"requestProofPolicy" json:"requestProofPolicy"`
	MaxChallengeAgeMs           int64             `yaml:"maxChallengeAgeMs" json:"maxChallengeAgeMs"`
	CapabilityTTLMs             int64             `yaml:"capabilityTtlMs" json:"capabilityTtlMs"`
	MaxCapabilityAgeMs          int64             `yaml:"maxCapabilityAgeMs" json:"maxCapabilityAgeMs"`
	Controls                    Controls          `yaml:"controls" json:"controls"`
}

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

// RuntimePolicy is for the runtime attestation (seed: runtimePolicy).
type RuntimePolicy struct {
	Allowed                 `yaml:",inline"`
	KeyCustody              `yaml:",inline"`
	AllowedRuntimeIDs       []string      `yaml:"allowedRuntimeIds" json:"allowedRuntimeIds"`
	MaxAttestationAgeMs     int64         `yaml:"maxAttestationAgeMs" json:"maxAttestationAgeMs"`
	RequiredPolicyHash      string        `yaml:"requiredPolicyHash" json:"requiredPolicyHash"`
	RequiredEnvironmentHash string        `yaml:"requiredEnvironmentHash" json:"requiredEnvironmentHash"`
	TriggerReceiptPolicy    ReceiptPolicy `yaml:"triggerReceiptPolicy" json:"triggerReceiptPolicy"`
}

// ReceiptPolicy is for the trigger receipt (seed: triggerReceiptPolicy). The seed's requiredBindingHash and its like belong to one
// request and not to a deployment: the gate always demands them of the request at hand.
type ReceiptPolicy struct {
	Allowed                    `yaml:",inline"`
	AllowedKinds               []string     `yaml:"allowedKinds" json:"allowedKinds"`
	AllowedSources             []string     `yaml:"allowedSources" json:"allowedSources"`
	RequireEventID             bool         `yaml:"requireEventId" json:"requireEventId"`
	MaxReceiptAgeMs            int64        `yaml:"maxReceiptAgeMs" json:"maxReceiptAgeMs"`
	RequireOriginProof         bool         `yaml:"requireOriginProof" json:"requireOriginProof"`
	RequireVerifiedOriginProof bool         `yaml:"requireVerifiedOriginProof" json:"requireVerifiedOriginProof"`
	OriginProofPolicy          OriginPolicy `yaml:"originProofPolicy" json:"originProofPolicy"`
}

// OriginPolicy is for the trigger origin proof (seed: originProofPolicy).
type OriginPolicy struct {
	Allowed                    `yaml:",inline"`
	AllowedKinds               []string `yaml:"allowedKinds" json:"allowedKinds"`
	AllowedSources             []string `yaml:"allowedSources" json:"allowedSources"`
	AllowedVerificationMethods []string `yaml:"allowedVerificationMethods" json:"allowedVerificationMethods"`
	RequireEventID             bool     `yaml:"requireEventId" json:"requireEventId"`
	RequireEvidenceID          bool     `yaml:"requireEvidenceId" json:"requireEvidenceId"`
	MaxProofAgeMs              int64    `yaml:"maxProofAgeMs" json:"maxProofAgeMs"`
}

// CertificatePolicy is for signer custody certificates (seed: signerCertificatePolicy).
type CertificatePolicy struct {
	Allowed                     `yaml:",inline"`
	KeyCustody                  `yaml:",inline"`
	DenyAgentAccessible         bool  `yaml:"denyAgentAccessible" json:"denyAgentAccessible"`
	DenyUserAccessible          bool  `yaml:"denyUserAccessible" json:"denyUserAccessible"`
	RequireSubjectPublicKeyHash bool  `yaml:"requireSubjectPublicKeyHash" json:"requireSubjectPublicKeyHash"`
	MaxCertificateAgeMs         int64 `yaml:"maxCertificateAgeMs" json:"maxCertificateAgeMs"`
}

// DeploymentPolicy is for the deployment certificate (seed: deploymentCertificatePolicy).
type DeploymentPolicy struct {
	Allowed              `yaml:",inline"`
	AllowedDeploymentIDs []string `yaml:"allowedDeploymentIds" json:"allowedDeploymentIds"`
	MaxCertificateAgeMs  int64    `yaml:"maxCertificateAgeMs" json:"maxCertificateAgeMs"`
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

// RequestPolicy is for the request proof (seed: requestProofPolicy).
type RequestPolicy struct {
	ProofPolicy         `yaml:",inline"`
	RequireBindingHash  bool `yaml:"requireBindingHash" json:"requireBindingHash"`
	RequireCapabilityID bool `yaml:"requireCapabilityId" json:"requireCapabilityId"`
}

// ParseManifest reads a manifest, YAML or JSON, strictly: an unknown key, a missing key, a key twice, a value of another type or a
// second document is an error, and all of them are said at once, each with its line.
func ParseManifest(raw []byte) (*Manifest, error) {
	var m Manifest
	if err := decodeStrict(raw, &m); err != nil {
		return nil, evidence.Refuse("manifest_malformed", "the manifest is malformed: %w", err)
	}
	return &m, nil
}

// Hash returns the hash of the manifest's canonical JSON (seed: hashStrictAutonomousDeploymentManifest). It does not depend on how
// the file is written.
func (m *Manifest) Hash() string { return mustHash(m) }

// ControlsHash returns the hash of the controls alone.
func (m *Manifest) ControlsHash() string { return mustHash(m.Controls) }

// mustHash hashes a value of our own types, which always have a canonical form unless a text is not valid UTF-8; such a manifest
// hashes to nothing, and nothing verifies against it.
func mustHash(v any) string {
	h, err := evidence.HashValue(v)
	if err != nil {
		return ""
	}
	return h
}

// Strict turns a manifest that audits clean into what the gate demands (seed: createStrictAutonomousDeploymentPolicy).
func (m *Manifest) Strict() (*Strict, error) {
	if issues := m.Audit(); len(issues) > 0 {
		var codes []string
		for _, i := range issues[:min(5, len(issues))] {
			codes = append(codes, i.Code+" ("+i.Path+")")
		}
		return nil, evidence.Refuse("deployment_unsafe", "the deployment manifest has %d issue(s), among them %s; mediator deployment audit explains each", len(issues), strings.Join(codes, ", "))
	}
	r, receipt, origin := m.RuntimePolicy, m.RuntimePolicy.TriggerReceiptPolicy, m.RuntimePolicy.TriggerReceiptPolicy.OriginProofPolicy
	session := m.AgentSessionReceiptPolicy
	return &Strict{
		DeploymentID: m.DeploymentID, ManifestHash: m.Hash(), ControlsHash: m.ControlsHash(),
		Deployment: DeploymentExpected{Expected: m.DeploymentCertificatePolicy.expected(m.DeploymentCertificatePolicy.MaxCertificateAgeMs, KeyCustody{}), DeploymentIDs: m.DeploymentCertificatePolicy.AllowedDeploymentIDs},
		Signers: evidence.SignerPolicy{
			Expected:            m.SignerCertificatePolicy.expected(m.SignerCertificatePolicy.MaxCertificateAgeMs, m.SignerCertificatePolicy.KeyCustody),
			DenyAgentAccessible: m.SignerCertificatePolicy.DenyAgentAccessible, DenyUserAccessible: m.SignerCertificatePolicy.DenyUserAccessible,
		},
		Runtime: RuntimeExpected{Expected: r.expected(r.MaxAttestationAgeMs, r.KeyCustody), RuntimeIDs: r.AllowedRuntimeIDs, PolicyHash: r.RequiredPolicyHash, EnvironmentHash: r.RequiredEnvironmentHash},
		Receipt: ReceiptExpected{Expected: receipt.expected(receipt.MaxReceiptAgeMs, r.KeyCustody), Kinds: receipt.AllowedKinds, Sources: receipt.AllowedSources},
		Origin:  OriginExpected{Expected: origin.expected(origin.MaxProofAgeMs, r.KeyCustody), Kinds: origin.AllowedKinds, Sources: origin.AllowedSources, Methods: origin.AllowedVerificationMethods},
		Session: SessionExpected{
			Expected: session.expected(session.MaxReceiptAgeMs, session.KeyCustody), RuntimeIDs: session.AllowedRuntimeIDs, InputKinds: session.AllowedInputKinds,
			DeniedInputKinds: session.DeniedInputKinds, PolicyHash: session.RequiredPolicyHash, EnvironmentHash: session.RequiredEnvironmentHash,
		},
		Decision:        m.PolicyDecisionPolicy.expected(m.PolicyDecisionPolicy.MaxProofAgeMs, m.PolicyDecisionPolicy.KeyCustody),
		Grant:           m.GrantPolicy.expected(m.GrantPolicy.MaxProofAgeMs, m.GrantPolicy.KeyCustody),
		RequestProof:    m.RequestProofPolicy.expected(m.RequestProofPolicy.MaxProofAgeMs, m.RequestProofPolicy.KeyCustody),
		MaxChallengeAge: millis(m.MaxChallengeAgeMs), CapabilityTTL: millis(m.CapabilityTTLMs), MaxCapabilityAge: millis(m.MaxCapabilityAgeMs),
	}, nil
}

func (a Allowed) expected(maxAgeMs int64, k KeyCustody) evidence.Expected {
	return evidence.Expected{
		Issuers: a.AllowedIssuers, Audiences: a.AllowedAudiences, KeyIDs: a.AllowedKeyIDs, MaxAge: millis(maxAgeMs),
		Custody: k.AllowedKeyCustody, RequireNonExportable: k.RequireNonExportableKey,
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Certify signs the manifest with the auditor's key (seed: createStrictAutonomousDeploymentCertificate). A manifest with issues is
// refused.
func Certify(ctx context.Context, key signer.Key, m *Manifest, o signer.Options) (string, error) {
	if _, err := m.Strict(); err != nil {
		return "", err
	}
	issuer, err := signer.New(evidence.DeploymentCertificateKind, key, o)
	if err != nil {
		return "", err
	}
	token, _, err := issuer.Sign(ctx, evidence.DeploymentCertificate{
		ControlsHash: m.ControlsHash(), DeploymentID: m.DeploymentID, ManifestHash: m.Hash(), Version: m.Version,
	})
	if err != nil {
		return "", fmt.Errorf("certify the deployment: %w", err)
	}
	return token, nil
}

// VerifyCertificate verifies a deployment certificate against the manifest behind s (seed:
// verifyStrictAutonomousDeploymentCertificate).
func VerifyCertificate(v *evidence.Verifier, token string, s *Strict) (evidence.DeploymentCertificate, error) {
	c, err := evidence.Open(v, evidence.DeploymentCertificateKind, token, s.Deployment.Expected)
	switch {
	case err != nil:
	case !slices.Contains(s.Deployment.DeploymentIDs, c.DeploymentID) || c.DeploymentID != s.DeploymentID:
		err = evidence.Refuse("deployment_id_not_allowed", "the certificate is for deployment %q, which is not this one or not allowed", c.DeploymentID)
	case c.ManifestHash != s.ManifestHash:
		err = evidence.Refuse("deployment_manifest_mismatch", "the certificate is for another manifest than the one in force")
	case c.ControlsHash != s.ControlsHash:
		err = evidence.Refuse("deployment_controls_mismatch", "the certificate is for other controls than those in force")
	}
	if err != nil {
		return evidence.DeploymentCertificate{}, err
	}
	return c, nil
}
