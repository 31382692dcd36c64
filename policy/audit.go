package policy

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/evidence"
)

// Issue is one safeguard that a manifest lacks (seed: auditStrictAutonomousDeploymentManifest).
type Issue struct {
	Code     string `json:"code"` // stable
	Path     string `json:"path"` // where in the manifest
	Sentence string `json:"sentence"`
	Mend     string `json:"mend"`
}

// The bounds on freshness, in milliseconds: how old an artifact may be when it is verified. A policy above one of them is weak.
const (
	maxFreshMs       = 60_000
	maxDeploymentMs  = 7 * 24 * 3_600_000
	maxCertificateMs = 400 * 24 * 3_600_000
)

// Audit lists every safeguard that the manifest lacks, in the manifest's order. A clean manifest has none.
func (m *Manifest) Audit() []Issue {
	a := &audit{}
	if m.Version == "" {
		a.add("manifest_version_missing", "version", "The manifest names no version.", "Set version to 1.0.")
	}
	if m.DeploymentID == "" {
		a.add("deployment_id_missing", "deploymentId", "The manifest names no deployment.", "Name the deployment.")
	}
	a.runtime(&m.RuntimePolicy)
	a.certificates(&m.SignerCertificatePolicy)
	a.deployment(m)
	a.session(&m.AgentSessionReceiptPolicy)
	a.proof("policyDecisionPolicy", &m.PolicyDecisionPolicy)
	a.proof("grantPolicy", &m.GrantPolicy)
	a.proof("requestProofPolicy", &m.RequestProofPolicy.ProofPolicy)
	a.require("requestProofPolicy.requireBindingHash", m.RequestProofPolicy.RequireBindingHash)
	a.require("requestProofPolicy.requireCapabilityId", m.RequestProofPolicy.RequireCapabilityID)
	a.fresh("maxChallengeAgeMs", m.MaxChallengeAgeMs, maxFreshMs)
	a.fresh("capabilityTtlMs", m.CapabilityTTLMs, maxFreshMs)
	a.fresh("maxCapabilityAgeMs", m.MaxCapabilityAgeMs, maxFreshMs)
	a.separation(m)
	for _, c := range controls {
		if got, ok := m.Controls[c.name]; !ok || got != c.want {
			a.add(c.code(), "controls."+c.name, c.wrong, fmt.Sprintf("Make it so that %s is %t, and then say so.", c.name, c.want))
		}
	}
	return a.issues
}

// AuditRuntimePolicy lists what a runtime policy by itself lacks (seed: auditAutonomousActionPolicy).
func AuditRuntimePolicy(p RuntimePolicy) []Issue {
	a := &audit{}
	a.runtime(&p)
	return a.issues
}

// DefaultRuntimePolicy fills what p leaves open with the strict defaults (seed: createAutonomousRuntimePolicy,
// createStrictAutonomousActionPolicy). Whom to believe has no default.
func DefaultRuntimePolicy(p RuntimePolicy) RuntimePolicy {
	receipt, origin := &p.TriggerReceiptPolicy, &p.TriggerReceiptPolicy.OriginProofPolicy
	if len(p.AllowedKeyCustody) == 0 {
		p.AllowedKeyCustody = []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}
	}
	p.RequireNonExportableKey = true
	receipt.RequireEventID, receipt.RequireOriginProof, receipt.RequireVerifiedOriginProof = true, true, true
	origin.RequireEventID, origin.RequireEvidenceID = true, true
	for _, ms := range []*int64{&p.MaxAttestationAgeMs, &receipt.MaxReceiptAgeMs, &origin.MaxProofAgeMs} {
		if *ms == 0 {
			*ms = 15_000
		}
	}
	for _, kinds := range []*[]string{&receipt.AllowedKinds, &origin.AllowedKinds} {
		if len(*kinds) == 0 {
			*kinds = slices.Clone(autonomousKinds)
		}
	}
	if len(origin.AllowedVerificationMethods) == 0 {
		origin.AllowedVerificationMethods = slices.Clone(verifiedMethods)
	}
	return p
}

// What may stand in an allowlist, and what has to stand in the list of denied input kinds.
var (
	autonomousKinds  = []string{evidence.TriggerSourceEvent, evidence.TriggerScheduled, evidence.TriggerAutonomousPolicy}
	verifiedMethods  = []string{evidence.MethodWebhookSignature, evidence.MethodSchedulerLock, evidence.MethodPolicyEngineDecision, evidence.MethodQueueClaim, evidence.MethodExternalAttestation}
	deniedInputKinds = []string{evidence.InputHumanPrompt, evidence.InputManualShell, evidence.TriggerUnknown}
	protectedCustody = []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}
)

type audit struct{ issues []Issue }

func (a *audit) add(code, path, sentence, mend string) {
	a.issues = append(a.issues, Issue{Code: code, Path: path, Sentence: sentence, Mend: mend})
}

// list demands a list that is neither empty nor holds anything empty or beyond allowed (nil: anything).
func (a *audit) list(path string, got, allowed []string) {
	switch {
	case len(got) == 0 || slices.Contains(got, ""):
		a.add("allowlist_empty", path, "The list is empty or holds an empty text, so it says nothing.", "List exactly what is accepted.")
	case allowed != nil && slices.ContainsFunc(got, func(s string) bool { return !slices.Contains(allowed, s) }):
		a.add("allowlist_unsafe", path, "The list holds something that no strict policy accepts.", fmt.Sprintf("Choose from %v.", allowed))
	}
}

// fresh demands a bound on age that is set and not above limit.
func (a *audit) fresh(path string, ms, limit int64) {
	switch {
	case ms <= 0:
		a.add("freshness_missing", path, "There is no bound on age, so an old artifact is as good as a fresh one.", fmt.Sprintf("Set it to at most %d ms.", limit))
	case ms > limit:
		a.add("freshness_over_bound", path, fmt.Sprintf("The bound on age, %d ms, is above %d ms.", ms, limit), fmt.Sprintf("Set it to at most %d ms.", limit))
	}
}

func (a *audit) require(path string, set bool) {
	if !set {
		a.add("requirement_off", path, "The requirement is switched off.", "Set it to true.")
	}
}

func (a *audit) hash(path, h string) {
	if !evidence.IsHash(h) {
		a.add("hash_missing", path, "The required hash is missing or is not a lowercase hex SHA-256, so what runs is not pinned.", "Set it to the hash of what was reviewed.")
	}
}

func (a *audit) allowed(path string, p *Allowed) {
	a.list(path+".allowedIssuers", p.AllowedIssuers, nil)
	a.list(path+".allowedAudiences", p.AllowedAudiences, nil)
	a.list(path+".allowedKeyIds", p.AllowedKeyIDs, nil)
}

func (a *audit) custody(path string, k *KeyCustody) {
	a.list(path+".allowedKeyCustody", k.AllowedKeyCustody, protectedCustody)
	a.require(path+".requireNonExportableKey", k.RequireNonExportableKey)
}

func (a *audit) runtime(p *RuntimePolicy) {
	const path = "runtimePolicy"
	a.allowed(path, &p.Allowed)
	a.custody(path, &p.KeyCustody)
	a.list(path+".allowedRuntimeIds", p.AllowedRuntimeIDs, nil)
	a.fresh(path+".maxAttestationAgeMs", p.MaxAttestationAgeMs, maxFreshMs)
	a.hash(path+".requiredPolicyHash", p.RequiredPolicyHash)
	a.hash(path+".requiredEnvironmentHash", p.RequiredEnvironmentHash)

	receipt, at := &p.TriggerReceiptPolicy, path+".triggerReceiptPolicy"
	a.allowed(at, &receipt.Allowed)
	a.list(at+".allowedKinds", receipt.AllowedKinds, autonomousKinds)
	a.list(at+".allowedSources", receipt.AllowedSources, nil)
	a.require(at+".requireEventId", receipt.RequireEventID)
	a.fresh(at+".maxReceiptAgeMs", receipt.MaxReceiptAgeMs, maxFreshMs)
	a.require(at+".requireOriginProof", receipt.RequireOriginProof)
	a.require(at+".requireVerifiedOriginProof", receipt.RequireVerifiedOriginProof)

	origin, at := &receipt.OriginProofPolicy, at+".originProofPolicy"
	a.allowed(at, &origin.Allowed)
	a.list(at+".allowedKinds", origin.AllowedKinds, autonomousKinds)
	a.list(at+".allowedSources", origin.AllowedSources, nil)
	a.list(at+".allowedVerificationMethods", origin.AllowedVerificationMethods, verifiedMethods)
	a.require(at+".requireEventId", origin.RequireEventID)
	a.require(at+".requireEvidenceId", origin.RequireEvidenceID)
	a.fresh(at+".maxProofAgeMs", origin.MaxProofAgeMs, maxFreshMs)
}

func (a *audit) certificates(p *CertificatePolicy) {
	const path = "signerCertificatePolicy"
	a.allowed(path, &p.Allowed)
	a.custody(path, &p.KeyCustody)
	a.require(path+".denyAgentAccessible", p.DenyAgentAccessible)
	a.require(path+".denyUserAccessible", p.DenyUserAccessible)
	a.require(path+".requireSubjectPublicKeyHash", p.RequireSubjectPublicKeyHash)
	a.fresh(path+".maxCertificateAgeMs", p.MaxCertificateAgeMs, maxCertificateMs)
}

func (a *audit) deployment(m *Manifest) {
	const path = "deploymentCertificatePolicy"
	p := &m.DeploymentCertificatePolicy
	a.allowed(path, &p.Allowed)
	a.list(path+".allowedDeploymentIds", p.AllowedDeploymentIDs, nil)
	a.fresh(path+".maxCertificateAgeMs", p.MaxCertificateAgeMs, maxDeploymentMs)
	if !slices.Contains(p.AllowedDeploymentIDs, m.DeploymentID) {
		a.add("deployment_id_not_listed", path+".allowedDeploymentIds", "The deployment itself is not among the allowed ones.", "List deploymentId.")
	}
}

func (a *audit) session(p *SessionPolicy) {
	const path = "agentSessionReceiptPolicy"
	a.allowed(path, &p.Allowed)
	a.custody(path, &p.KeyCustody)
	a.list(path+".allowedRuntimeIds", p.AllowedRuntimeIDs, nil)
	a.list(path+".allowedInputKinds", p.AllowedInputKinds, autonomousKinds)
	for _, kind := range deniedInputKinds {
		if !slices.Contains(p.DeniedInputKinds, kind) {
			a.add("denied_kind_missing", path+".deniedInputKinds", "The input kind "+kind+" is not denied.", "List "+kind+".")
		}
	}
	a.require(path+".requireChallengeId", p.RequireChallengeID)
	a.require(path+".requireBindingHash", p.RequireBindingHash)
	a.require(path+".requireNoHumanPrompt", p.RequireNoHumanPrompt)
	a.require(path+".requireNoHumanOperator", p.RequireNoHumanOperator)
	a.require(path+".denyUserShellAccess", p.DenyUserShellAccess)
	a.require(path+".denyUserAccessibleAgentEnvironment", p.DenyUserAccessibleEnvironment)
	a.hash(path+".requiredPolicyHash", p.RequiredPolicyHash)
	a.hash(path+".requiredEnvironmentHash", p.RequiredEnvironmentHash)
	a.fresh(path+".maxReceiptAgeMs", p.MaxReceiptAgeMs, maxFreshMs)
}

func (a *audit) proof(path string, p *ProofPolicy) {
	a.allowed(path, &p.Allowed)
	a.custody(path, &p.KeyCustody)
	a.fresh(path+".maxProofAgeMs", p.MaxProofAgeMs, maxFreshMs)
}

// separation demands that no two roles share an issuer or a key: who holds two roles' key is both.
func (a *audit) separation(m *Manifest) {
	receipt := &m.RuntimePolicy.TriggerReceiptPolicy
	roles := []struct {
		path string
		p    *Allowed
	}{
		{"runtimePolicy", &m.RuntimePolicy.Allowed},
		{"runtimePolicy.triggerReceiptPolicy", &receipt.Allowed},
		{"runtimePolicy.triggerReceiptPolicy.originProofPolicy", &receipt.OriginProofPolicy.Allowed},
		{"signerCertificatePolicy", &m.SignerCertificatePolicy.Allowed},
		{"deploymentCertificatePolicy", &m.DeploymentCertificatePolicy.Allowed},
		{"agentSessionReceiptPolicy", &m.AgentSessionReceiptPolicy.Allowed},
		{"policyDecisionPolicy", &m.PolicyDecisionPolicy.Allowed},
		{"grantPolicy", &m.GrantPolicy.Allowed},
		{"requestProofPolicy", &m.RequestProofPolicy.Allowed},
	}
	keys, issuers := make(map[string]string), make(map[string]string)
	for _, r := range roles {
		for _, kid := range r.p.AllowedKeyIDs {
			a.exclusive(keys, "key_shared", r.path+".allowedKeyIds", "key "+kid, r.path)
		}
		for _, iss := range r.p.AllowedIssuers {
			a.exclusive(issuers, "issuer_shared", r.path+".allowedIssuers", "issuer "+iss, r.path)
		}
	}
}

func (a *audit) exclusive(owner map[string]string, code, path, what, role string) {
	if first, ok := owner[what]; ok && first != role {
		a.add(code, path, fmt.Sprintf("The %s is also allowed by %s.", what, first), "Give each role a key and an issuer of its own.")
		return
	}
	owner[what] = role
}
