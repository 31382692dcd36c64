package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Strict holds a clean manifest's demands on each artifact (seed: createStrictAutonomousDeploymentPolicy). Only
// [Manifest.Strict] makes one.
type Strict struct {
	DeploymentID string
	ManifestHash string // seed: hashStrictAutonomousDeploymentManifest
	ControlsHash string

	Deployment   DeploymentExpected
	Signers      evidence.SignerPolicy
	Runtime      RuntimeExpected
	Receipt      ReceiptExpected
	Origin       OriginExpected
	Session      SessionExpected
	Decision     evidence.Expected
	Grant        evidence.Expected
	RequestProof evidence.Expected
	Interaction  evidence.Expected // of interaction receipts; empty refuses all
	Autonomy     AutonomyExpected
	Statement    evidence.Expected // of agents' statements; empty refuses all
	// WebBotAuth has the directory's age as MaxAge; empty, no request is signed.
	WebBotAuth evidence.Expected

	EgressCeiling []EgressPattern // empty: none

	MaxChallengeAge  time.Duration
	CapabilityTTL    time.Duration
	MaxCapabilityAge time.Duration
}

// DeploymentExpected is what the deployment certificate must satisfy.
type DeploymentExpected struct {
	evidence.Expected
	DeploymentIDs []string
}

// RuntimeExpected is what the runtime attestation must satisfy, besides autonomous mode and no human interaction.
type RuntimeExpected struct {
	evidence.Expected
	RuntimeIDs        []string // empty: any, if session receipt and decision agree
	TriggerKinds      []string // allowed by both runtime and receipt policy
	PolicyHash        string
	EnvironmentHashes []string // any one, the same for attestation, session receipt and decision
}

// ReceiptExpected is what the trigger receipt must satisfy. An empty hash pins nothing.
type ReceiptExpected struct {
	evidence.Expected
	Kinds                    []string
	Sources                  []string
	PayloadHash, BindingHash string
}

// OriginExpected is what the trigger origin proof must satisfy. An empty hash pins nothing.
type OriginExpected struct {
	evidence.Expected
	Kinds                                  []string
	Sources                                []string
	Methods                                []string
	PayloadHash, BindingHash, EvidenceHash string
}

// SessionExpected is what the agent session receipt must satisfy, besides having no human flag.
type SessionExpected struct {
	evidence.Expected
	RuntimeIDs       []string
	InputKinds       []string
	DeniedInputKinds []string
	PolicyHash       string
}

// AutonomyExpected is what a reputation token must satisfy. Empty, it refuses all.
type AutonomyExpected struct {
	evidence.Expected
	ScoringHash         string
	RequireVerification bool
	AllowDegraded       bool
}

// Pins refuses a policy file without the pinned hash (pin_mismatch).
func (s *Strict) Pins(policyHash string) error {
	if policyHash == "" || policyHash != s.Runtime.PolicyHash {
		return refusal.New("pin_mismatch",
			"the policy file has hash %s, but the manifest requires %s: write the file's hash into the "+
				"manifest, and certify it", policyHash,
			s.Runtime.PolicyHash)
	}
	return nil
}

const namedIssues = 5

// Strict turns a clean manifest into the gate's demands. It refuses one with issues (deployment_unsafe).
func (m *Manifest) Strict() (*Strict, error) {
	if issues := m.Audit(); len(issues) > 0 {
		var named []string
		for _, i := range issues[:min(namedIssues, len(issues))] {
			named = append(named, i.Code+" ("+i.Path+")")
		}
		return nil, refusal.New("deployment_unsafe",
			"the deployment manifest lacks %d safeguard(s), among them %s; run mediator config check for an "+
				"explanation of each", len(issues), strings.Join(named, ", "))
	}
	s := m.RuntimePolicy.strict()
	s.DeploymentID, s.ManifestHash, s.ControlsHash = m.DeploymentID, m.Hash(), m.ControlsHash()
	s.EgressCeiling = m.EgressCeiling
	s.MaxChallengeAge, s.CapabilityTTL, s.MaxCapabilityAge = millis(m.MaxChallengeAgeMs), millis(m.CapabilityTTLMs),
		millis(m.MaxCapabilityAgeMs)

	deployment := m.DeploymentCertificatePolicy
	s.Deployment = DeploymentExpected{
		// Pinning a root vouches for its custody.
		Expected:      deployment.expected(deployment.MaxCertificateAgeMs, KeyCustody{}),
		DeploymentIDs: deployment.AllowedDeploymentIDs,
	}
	s.Deployment.RequirePostQuantum = deployment.RequirePostQuantumSignature
	signers := m.SignerCertificatePolicy
	s.Signers = evidence.SignerPolicy{
		Expected:            signers.expected(signers.MaxCertificateAgeMs, signers.KeyCustody),
		DenyAgentAccessible: signers.DenyAgentAccessible, DenyUserAccessible: signers.DenyUserAccessible,
	}
	s.Signers.RequirePostQuantum, s.Signers.MaxRevocationAge = signers.RequirePostQuantumSignature,
		millis(signers.MaxRevocationListAgeMs)
	session := m.AgentSessionReceiptPolicy
	s.Session = SessionExpected{
		Expected: session.expected(session.MaxReceiptAgeMs, session.KeyCustody), RuntimeIDs: session.AllowedRuntimeIDs,
		InputKinds: session.AllowedInputKinds, DeniedInputKinds: session.DeniedInputKinds,
		PolicyHash: session.RequiredPolicyHash,
	}
	s.Decision, s.Grant, s.RequestProof = m.PolicyDecisionPolicy.strict(), m.GrantPolicy.strict(),
		m.RequestProofPolicy.strict()
	if p := m.InteractionReceiptPolicy; p != nil {
		s.Interaction = p.expected(p.MaxReceiptAgeMs, p.KeyCustody)
	}
	if p := m.AutonomyPolicy; p != nil {
		s.Autonomy = AutonomyExpected{
			Expected: p.expected(p.MaxReputationAgeMs, p.KeyCustody), ScoringHash: p.ScoringHash,
			RequireVerification: p.RequireVerification, AllowDegraded: p.AllowDegraded,
		}
	}
	if p := m.AgentStatementPolicy; p != nil {
		s.Statement = p.expected(p.MaxStatementAgeMs, p.KeyCustody)
	}
	if p := m.WebBotAuthPolicy; p != nil {
		s.WebBotAuth = p.expected(p.MaxDirectoryAgeMs, p.KeyCustody)
	}
	return s, nil
}

// Expected returns the demands on signers with a purpose. An unknown purpose accepts no signer.
func (s *Strict) Expected(purpose string) evidence.Expected {
	return map[string]evidence.Expected{
		evidence.PurposeTriggerOriginProof: s.Origin.Expected,
		evidence.PurposeTriggerReceipt:     s.Receipt.Expected,
		evidence.PurposePolicyDecision:     s.Decision,
		evidence.PurposeActionGrant:        s.Grant,
		evidence.PurposeRuntimeAttestation: s.Runtime.Expected,
		evidence.PurposeAgentSession:       s.Session.Expected,
		evidence.PurposeRequestProof:       s.RequestProof,
		evidence.PurposeInteraction:        s.Interaction,
		evidence.PurposeAppraiser:          s.Autonomy.Expected,
		evidence.PurposeStatement:          s.Statement,
		evidence.PurposeWebBotAuth:         s.WebBotAuth,
	}[purpose]
}

// CheckRuntime refuses a runtime that the manifest does not allow. The session's list is required, the runtime's own
// optional.
func (s *Strict) CheckRuntime(id string) error {
	own := s.Runtime.RuntimeIDs
	if len(own) > 0 && !evidence.MatchName(own, id) || !evidence.MatchName(s.Session.RuntimeIDs, id) {
		return refusal.New("not_allowed", "the manifest does not allow the runtime %q", id)
	}
	return nil
}

// CheckEnvironment refuses a program with a configuration that the manifest does not allow (pin_mismatch).
func (s *Strict) CheckEnvironment(hash string) error {
	if hash == "" || !slices.Contains(s.Runtime.EnvironmentHashes, hash) {
		return refusal.New("pin_mismatch",
			"the environment has hash %.64q, but the manifest requires %s: write the hash into the "+
				"manifest, and certify it", hash, strings.Join(s.Runtime.EnvironmentHashes, " or "))
	}
	return nil
}

func (p ProofPolicy) strict() evidence.Expected { return p.expected(p.MaxProofAgeMs, p.KeyCustody) }

func (p RuntimePolicy) strict() *Strict {
	custody := KeyCustody{AllowedKeyCustody: p.AllowedKeyCustody, RequireNonExportableKey: true}
	if len(custody.AllowedKeyCustody) == 0 {
		custody.AllowedKeyCustody = protectedCustody
	}
	receipt, origin := p.TriggerReceiptPolicy, p.TriggerReceiptPolicy.OriginProofPolicy
	return &Strict{
		Runtime: RuntimeExpected{
			Expected: p.expected(p.MaxAttestationAgeMs, custody), RuntimeIDs: p.AllowedRuntimeIDs,
			TriggerKinds:      p.triggerKinds(),
			PolicyHash:        p.RequiredPolicyHash,
			EnvironmentHashes: append([]string{p.RequiredEnvironmentHash}, p.AlsoEnvironmentHashes...),
		},
		Receipt: ReceiptExpected{
			Expected: receipt.expected(receipt.MaxReceiptAgeMs, custody), Kinds: receipt.AllowedKinds,
			Sources:     receipt.AllowedSources,
			PayloadHash: receipt.RequiredPayloadHash, BindingHash: receipt.RequiredBindingHash,
		},
		Origin: OriginExpected{
			Expected: origin.expected(origin.MaxProofAgeMs, custody), Kinds: origin.AllowedKinds,
			Sources: origin.AllowedSources,
			Methods: origin.AllowedVerificationMethods, PayloadHash: origin.RequiredPayloadHash,
			BindingHash:  origin.RequiredBindingHash,
			EvidenceHash: origin.RequiredEvidenceHash,
		},
	}
}

// triggerKinds are the kinds that an attestation may name: the receipt policy's, narrowed by the runtime policy's.
func (p RuntimePolicy) triggerKinds() []string {
	var kinds []string
	for _, kind := range p.TriggerReceiptPolicy.AllowedKinds {
		if (len(p.AllowedTriggerKinds) == 0 || slices.Contains(p.AllowedTriggerKinds, kind)) &&
			!slices.Contains(p.DeniedTriggerKinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (a Allowed) expected(maxAgeMs int64, k KeyCustody) evidence.Expected {
	return evidence.Expected{
		Issuers: a.AllowedIssuers, Audiences: a.AllowedAudiences, KeyIDs: a.AllowedKeyIDs, MaxAge: millis(maxAgeMs),
		Custody: k.AllowedKeyCustody, RequireNonExportable: k.RequireNonExportableKey,
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
