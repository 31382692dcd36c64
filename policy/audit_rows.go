package policy

import (
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Values that a strict policy may allow, and values that it must deny.
var (
	autonomousKinds = []string{evidence.TriggerSourceEvent, evidence.TriggerScheduled, evidence.TriggerAutonomousPolicy}
	verifiedMethods = []string{evidence.MethodWebhookSignature, evidence.MethodSchedulerLock,
		evidence.MethodPolicyEngineDecision, evidence.MethodQueueClaim, evidence.MethodExternalAttestation}
	protectedCustody = []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}
	deniedInputKinds = []string{evidence.InputHumanPrompt, evidence.InputManualShell, evidence.TriggerUnknown}

	deniedTriggerKinds = []string{evidence.TriggerHumanRequest, evidence.TriggerUnknown}
)

// The rows of the audit. Each new field of the manifest needs one.
type (
	// role is the signer of one kind of artifact, with the part that all policies have.
	role struct {
		code, path, what string
		allowed          *Allowed
		keys             *KeyCustody // nil if the policy makes no demands
		age
	}
	age struct {
		ms    int64
		field string
		bound time.Duration
	}
	list struct {
		values, from []string // an empty from allows any nonempty value
		code, path   string
		what         string
	}
	requirement struct {
		set        bool
		code, path string
		sentence   string
	}
	hash struct {
		code, path  string
		value, same string // same is the required hash, if there is one
		optional    bool
	}
	duration struct {
		ms       int64
		bound    time.Duration
		code     string
		path     string
		what     string
		optional bool
	}
)

const (
	runtimePath    = "runtimePolicy"
	receiptPath    = runtimePath + ".triggerReceiptPolicy"
	originPath     = receiptPath + ".originProofPolicy"
	signerPath     = "signerCertificatePolicy"
	deploymentPath = "deploymentCertificatePolicy"
	sessionPath    = "agentSessionReceiptPolicy"
	decisionPath   = "policyDecisionPolicy"
	grantPath      = "grantPolicy"
	requestPath    = "requestProofPolicy"

	interactionPath = "interactionReceiptPolicy"
	autonomyPath    = "autonomyPolicy"
	statementPath   = "agentStatementPolicy"
	webBotAuthPath  = "webBotAuthPolicy"
)

func (m *Manifest) runtimeParts() (*RuntimePolicy, *ReceiptPolicy, *OriginPolicy) {
	p := &m.RuntimePolicy
	return p, &p.TriggerReceiptPolicy, &p.TriggerReceiptPolicy.OriginProofPolicy
}

// roles begin with the runtime's.
func (m *Manifest) roles() []role {
	runtime, receipt, origin := m.runtimeParts()
	signers, deployment, session := &m.SignerCertificatePolicy, &m.DeploymentCertificatePolicy,
		&m.AgentSessionReceiptPolicy
	decision, grant, request := &m.PolicyDecisionPolicy, &m.GrantPolicy, &m.RequestProofPolicy
	roles := []role{
		{"runtime", runtimePath, "runtime attestation", &runtime.Allowed, nil,
			age{runtime.MaxAttestationAgeMs, "maxAttestationAgeMs", MaxFresh}},
		{"trigger_receipt", receiptPath, "trigger receipt", &receipt.Allowed, nil,
			age{receipt.MaxReceiptAgeMs, "maxReceiptAgeMs", MaxFresh}},
		{"origin_proof", originPath, "trigger origin proof", &origin.Allowed, nil,
			age{origin.MaxProofAgeMs, "maxProofAgeMs", MaxFresh}},
		{"signer_certificate", signerPath, "signer custody certificate", &signers.Allowed, &signers.KeyCustody,
			age{signers.MaxCertificateAgeMs, "maxCertificateAgeMs", MaxSignerAge}},
		{"deployment_certificate", deploymentPath, "deployment certificate", &deployment.Allowed, nil,
			age{deployment.MaxCertificateAgeMs, "maxCertificateAgeMs", MaxDeploymentAge}},
		{"agent_session", sessionPath, "agent session receipt", &session.Allowed, &session.KeyCustody,
			age{session.MaxReceiptAgeMs, "maxReceiptAgeMs", MaxFresh}},
		{"policy_decision", decisionPath, "policy decision", &decision.Allowed, &decision.KeyCustody,
			age{decision.MaxProofAgeMs, "maxProofAgeMs", MaxFresh}},
		{"action_grant", grantPath, "action grant", &grant.Allowed, &grant.KeyCustody,
			age{grant.MaxProofAgeMs, "maxProofAgeMs", MaxFresh}},
		{"request_proof", requestPath, "request proof", &request.Allowed, &request.KeyCustody,
			age{request.MaxProofAgeMs, "maxProofAgeMs", MaxFresh}},
	}
	if p := m.InteractionReceiptPolicy; p != nil {
		roles = append(roles, role{"interaction_receipt", interactionPath, "interaction receipt", &p.Allowed,
			&p.KeyCustody, age{p.MaxReceiptAgeMs, "maxReceiptAgeMs", MaxFresh}})
	}
	if p := m.AutonomyPolicy; p != nil {
		roles = append(roles, role{"autonomy", autonomyPath, "reputation token", &p.Allowed, &p.KeyCustody,
			age{p.MaxReputationAgeMs, "maxReputationAgeMs", MaxReputationAge}})
	}
	if p := m.AgentStatementPolicy; p != nil {
		roles = append(roles, role{"agent_statement", statementPath, "agent's statement", &p.Allowed, &p.KeyCustody,
			age{p.MaxStatementAgeMs, "maxStatementAgeMs", MaxFresh}})
	}
	if p := m.WebBotAuthPolicy; p != nil {
		roles = append(roles, role{"web_bot_auth", webBotAuthPath, "key directory", &p.Allowed, &p.KeyCustody,
			age{p.MaxDirectoryAgeMs, "maxDirectoryAgeMs", MaxDirectoryAge}})
	}
	return roles
}

func (m *Manifest) lists() []list {
	_, receipt, origin := m.runtimeParts()
	session := &m.AgentSessionReceiptPolicy
	return []list{
		{receipt.AllowedKinds, autonomousKinds, "trigger_receipt_kinds", receiptPath + ".allowedKinds",
			"trigger kinds"},
		{receipt.AllowedSources, nil, "trigger_receipt_sources", receiptPath + ".allowedSources", "trigger sources"},
		{origin.AllowedKinds, autonomousKinds, "origin_proof_kinds", originPath + ".allowedKinds", "trigger kinds"},
		{origin.AllowedSources, nil, "origin_proof_sources", originPath + ".allowedSources", "trigger sources"},
		{origin.AllowedVerificationMethods, verifiedMethods, "origin_proof_methods",
			originPath + ".allowedVerificationMethods", "verification methods"},
		{m.DeploymentCertificatePolicy.AllowedDeploymentIDs, nil, "deployment_certificate_deployment_ids",
			deploymentPath + ".allowedDeploymentIds", "deployments"},
		{session.AllowedRuntimeIDs, nil, "agent_session_runtime_ids", sessionPath + ".allowedRuntimeIds", "runtimes"},
		{session.AllowedInputKinds, autonomousKinds, "agent_session_input_kinds", sessionPath + ".allowedInputKinds",
			"input kinds"},
	}
}

func (m *Manifest) requirements() []requirement {
	signers, session, request := &m.SignerCertificatePolicy, &m.AgentSessionReceiptPolicy, &m.RequestProofPolicy
	_, receipt, origin := m.runtimeParts()
	return []requirement{
		{receipt.RequireEventID, "trigger_receipt_event_id_not_required", receiptPath + ".requireEventId",
			"A trigger receipt may leave open which event it is for."},
		{receipt.RequireOriginProof, "trigger_receipt_origin_proof_not_required", receiptPath + ".requireOriginProof",
			"A trigger receipt may rest on nothing."},
		{receipt.RequireVerifiedOriginProof, "trigger_receipt_origin_proof_not_verified",
			receiptPath + ".requireVerifiedOriginProof",
			"A trigger receipt may rest on an origin proof that was not verified."},
		{origin.RequireEventID, "origin_proof_event_id_not_required", originPath + ".requireEventId",
			"An origin proof may leave open which event it is for."},
		{origin.RequireEvidenceID, "origin_proof_evidence_id_not_required", originPath + ".requireEvidenceId",
			"An origin proof may leave open which evidence it rests on."},
		{signers.DenyAgentAccessible, "signer_certificate_agent_access_not_denied", signerPath + ".denyAgentAccessible",
			"Keys that the agent can reach are believed."},
		{signers.DenyUserAccessible, "signer_certificate_user_access_not_denied", signerPath + ".denyUserAccessible",
			"Keys that users can reach are believed."},
		{signers.RequireSubjectPublicKeyHash, "signer_certificate_key_hash_not_required",
			signerPath + ".requireSubjectPublicKeyHash", "A custody certificate may leave open which key it is for."},
		{session.RequireChallengeID, "agent_session_challenge_id_not_required", sessionPath + ".requireChallengeId",
			"A session receipt may leave open which challenge it is for."},
		{session.RequireBindingHash, "agent_session_binding_hash_not_required", sessionPath + ".requireBindingHash",
			"A session receipt may leave open which content it is for."},
		{session.RequireNoHumanPrompt, "agent_session_human_prompt_not_denied", sessionPath + ".requireNoHumanPrompt",
			"A session that a human has prompted is accepted."},
		{session.RequireNoHumanOperator, "agent_session_human_operator_not_denied", sessionPath +
			".requireNoHumanOperator", "A session that a human operates is accepted."},
		{session.DenyUserShellAccess, "agent_session_user_shell_not_denied", sessionPath + ".denyUserShellAccess",
			"A session with a user's shell in it is accepted."},
		{session.DenyUserAccessibleEnvironment, "agent_session_user_environment_not_denied",
			sessionPath + ".denyUserAccessibleAgentEnvironment",
			"A session whose environment users can reach is accepted."},
		{request.RequireBindingHash, "request_proof_binding_hash_not_required", requestPath + ".requireBindingHash",
			"A request proof may leave open which content it is for."},
		{request.RequireCapabilityID, "request_proof_capability_id_not_required", requestPath + ".requireCapabilityId",
			"A request proof may leave open which capability it is for."},
	}
}

func (m *Manifest) hashes() []hash {
	runtime, receipt, origin := m.runtimeParts()
	session := &m.AgentSessionReceiptPolicy
	policy, environment := runtime.RequiredPolicyHash, runtime.RequiredEnvironmentHash
	rows := []hash{
		{"runtime_policy_hash", runtimePath + ".requiredPolicyHash", policy, "", false},
		{"runtime_environment_hash", runtimePath + ".requiredEnvironmentHash", environment, "", false},
		{"trigger_receipt_payload_hash", receiptPath + ".requiredPayloadHash", receipt.RequiredPayloadHash, "", true},
		{"trigger_receipt_binding_hash", receiptPath + ".requiredBindingHash", receipt.RequiredBindingHash, "", true},
		{"origin_proof_payload_hash", originPath + ".requiredPayloadHash", origin.RequiredPayloadHash, "", true},
		{"origin_proof_binding_hash", originPath + ".requiredBindingHash", origin.RequiredBindingHash, "", true},
		{"origin_proof_evidence_hash", originPath + ".requiredEvidenceHash", origin.RequiredEvidenceHash, "", true},
		{"agent_session_policy_hash", sessionPath + ".requiredPolicyHash", session.RequiredPolicyHash, policy, false},
		{"agent_session_environment_hash", sessionPath + ".requiredEnvironmentHash", session.RequiredEnvironmentHash,
			environment, false},
	}
	also := runtime.AlsoEnvironmentHashes
	for _, h := range also[:min(len(also), maxEnvironments+1)] {
		rows = append(rows, hash{"runtime_also_environment_hash", runtimePath + ".alsoEnvironmentHashes", h, "", false})
	}
	if p := m.AutonomyPolicy; p != nil {
		rows = append(rows, hash{"autonomy_scoring_hash", autonomyPath + ".scoringHash", p.ScoringHash, "", false})
	}
	return rows
}

func (m *Manifest) durations() []duration {
	return []duration{
		{m.MaxChallengeAgeMs, MaxFresh, "challenge_max_age", "maxChallengeAgeMs", "the age of a challenge", false},
		{m.CapabilityTTLMs, MaxFresh, "capability_ttl", "capabilityTtlMs", "the lifetime of a capability", false},
		{m.MaxCapabilityAgeMs, MaxFresh, "capability_max_age", "maxCapabilityAgeMs", "the age of a capability", false},
		{m.SignerCertificatePolicy.MaxRevocationListAgeMs, MaxRevocationAge, "revocation_list_max_age",
			signerPath + ".maxRevocationListAgeMs", "the age of the revocation list", true},
	}
}
