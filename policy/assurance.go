package policy

// ClaimControlledPath is the only claim that an assurance report ever makes.
const ClaimControlledPath = "controlled_autonomous_path"

// Held says which parts of the chain held for one post.
type Held struct {
	DeploymentAudit   bool // the manifest audits clean and its certificate verified
	FreshWork         bool // the challenge was solved for exactly this content
	TriggerEvidence   bool // origin proof and trigger receipt verified
	RuntimeAttested   bool // the runtime attestation verified
	SessionReceipt    bool // the agent session receipt verified, with none of its human flags set
	PolicyDecision    bool // the policy decision verified
	Grant             bool // the action grant verified
	RequestProof      bool // the request proof verified, bound to the access token
	SingleUseConsumed bool // every single-use key was consumed, durably, before the post
}

// Threat is one threat with what covers it and what does not.
type Threat struct {
	Name       string `json:"name"`
	Covered    bool   `json:"covered"`
	By         string `json:"by"`
	NotCovered string `json:"notCovered"`
}

// Assurance is the report on one post (seed: assessAutonomousPostingAssurance).
type Assurance struct {
	OK     bool     `json:"ok"`
	Claim  string   `json:"claim,omitempty"`
	Issues []string `json:"issues"`
	// NonHumanIdentityProven is always false: evidence of a controlled path is no proof that no human was involved anywhere.
	NonHumanIdentityProven bool     `json:"nonHumanIdentityProven"`
	Threats                []Threat `json:"threats"`
}

// Assess reports what the parts that held amount to. The claim is made only when everything is there.
func Assess(h Held) Assurance {
	a := Assurance{Issues: []string{}}
	for _, part := range []struct {
		held  bool
		issue string
	}{
		{h.DeploymentAudit, "deployment_audit_missing"}, {h.FreshWork, "fresh_work_missing"}, {h.TriggerEvidence, "trigger_evidence_missing"},
		{h.RuntimeAttested, "runtime_attestation_missing"}, {h.SessionReceipt, "session_receipt_missing"}, {h.PolicyDecision, "policy_decision_missing"},
		{h.Grant, "grant_missing"}, {h.RequestProof, "request_proof_missing"}, {h.SingleUseConsumed, "consumption_missing"},
	} {
		if !part.held {
			a.Issues = append(a.Issues, part.issue)
		}
	}
	if a.OK = len(a.Issues) == 0; a.OK {
		a.Claim = ClaimControlledPath
	}
	a.Threats = []Threat{
		{"stolen_token", h.RequestProof && h.SingleUseConsumed, "the request proof binds the call to the access token and to a capability that is good once", "a thief who also controls the request mediator's key"},
		{"replay", h.FreshWork && h.SingleUseConsumed, "every challenge, receipt, attestation and capability is consumed once, durably", "a verifier whose ledger is lost or restored from an old copy"},
		{"altered_content", h.FreshWork && h.RequestProof, "every artifact is bound to the hash of exactly this content", "content whose meaning changes at the API without its bytes changing"},
		{"human_trigger", h.TriggerEvidence && h.PolicyDecision, "the trigger's origin was verified by a service of its own, and the policy refuses human requests", "a human who makes the verified source emit an event"},
		{"human_in_session", h.SessionReceipt && h.RuntimeAttested, "the session controller and the runtime say that nobody prompted, operated or reached the run", "what they only declare and do not observe"},
		{"unapproved_action", h.PolicyDecision && h.Grant, "the decision and the grant are for exactly this subject, action, resource and content", "a policy that allows too much"},
		{"unsafe_deployment", h.DeploymentAudit, "an auditor has signed exactly this manifest, which audits clean", "a manifest that does not say what is true"},
	}
	return a
}
