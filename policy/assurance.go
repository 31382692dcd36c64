package policy

import "encoding/json"

// Claims of an assurance report, strongest first.
const (
	// ClaimControlledPath means that the whole chain held.
	ClaimControlledPath = "controlled_autonomous_path"
	// ClaimFreshWork means that fresh work for this content was proven and consumed, but something else is missing.
	ClaimFreshWork = "fresh_work"
	// ClaimNone means anything less.
	ClaimNone = "none"
)

// Held tells which parts of one post's chain were verified.
type Held struct {
	DeploymentAudit   bool // the manifest's audit finds nothing, and its certificate verified
	FreshWork         bool
	TriggerEvidence   bool
	RuntimeAttested   bool
	SessionReceipt    bool // verified, without human flags
	PolicyDecision    bool
	Grant             bool
	RequestProof      bool // verified, and bound to the access token
	SingleUseConsumed bool // durably, before the post
}

type part struct {
	held  bool
	issue string
}

func (h Held) parts() []part {
	return []part{
		{h.DeploymentAudit, "deployment_audit_missing"}, {h.FreshWork, "fresh_work_missing"},
		{h.TriggerEvidence, "trigger_evidence_missing"},
		{h.RuntimeAttested, "runtime_attestation_missing"}, {h.SessionReceipt, "session_receipt_missing"},
		{h.PolicyDecision, "policy_decision_missing"},
		{h.Grant, "grant_missing"}, {h.RequestProof, "request_proof_missing"},
		{h.SingleUseConsumed, "consumption_missing"},
	}
}

// Threat is one row of an [Assurance].
type Threat struct {
	Name       string `json:"name"`
	Covered    bool   `json:"covered"`    // By held for this post
	By         string `json:"by"`         // what covers it; empty if nothing can
	NotCovered string `json:"notCovered"` // what remains open
}

// Assurance is the report on one post (seed: assessAutonomousPostingAssurance).
type Assurance struct {
	OK      bool     `json:"ok"` // Claim is ClaimControlledPath
	Claim   string   `json:"claim"`
	Issues  []string `json:"issues"` // one for each missing part
	Threats []Threat `json:"threats"`
}

// NonHumanIdentityProven is always false: a controlled path does not prove that no human was involved outside it.
func (Assurance) NonHumanIdentityProven() bool { return false }

func (a Assurance) MarshalJSON() ([]byte, error) {
	type report Assurance
	return json.Marshal(struct {
		report
		NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
	}{report(a), a.NonHumanIdentityProven()})
}

// Assess reports on the parts that held. The strongest claim needs all of them.
func Assess(h Held) Assurance {
	a := Assurance{Claim: ClaimNone, Issues: []string{}, Threats: h.threats()}
	for _, p := range h.parts() {
		if !p.held {
			a.Issues = append(a.Issues, p.issue)
		}
	}
	a.OK = len(a.Issues) == 0
	switch {
	case a.OK:
		a.Claim = ClaimControlledPath
	case h.FreshWork && h.SingleUseConsumed:
		a.Claim = ClaimFreshWork
	}
	return a
}

func (h Held) threats() []Threat {
	return []Threat{
		{"stolen_token", h.RequestProof && h.SingleUseConsumed,
			"The request proof binds the call to the access token and to a capability that is good once.",
			"A thief who also controls the request mediator's key; and, where the API does not " +
				"verify the proof itself, whoever has its credential and goes past the mediator."},
		{"replay", h.FreshWork && h.SingleUseConsumed,
			"Every challenge, receipt, attestation and capability is consumed once, durably, before the post.",
			"A verifier whose ledger is lost or restored from an old copy."},
		{"altered_content", h.FreshWork && h.RequestProof,
			"Every artifact is bound to the hash of exactly this content.",
			"The headers, which nothing binds; and content whose meaning changes at the API while its " +
				"bytes stay the same."},
		{"stale_or_copied_work", h.FreshWork,
			"The challenge is random, counts for a minute at most and was solved for exactly this operation.",
			"Who solved it: a human can hand the tasks to a program, and the mediator may have solved what " +
				"it gave out itself."},
		{"human_trigger", h.TriggerEvidence && h.PolicyDecision,
			"A service of its own verified the event's origin, and what it holds to be a human's request is refused.",
			"A human who makes the verified source emit an event that is not listed as a human's."},
		{"invented_trigger", h.TriggerEvidence && h.Grant,
			"Origin proof, trigger receipt, decision and grant are signed by four keys, and each " +
				"names what it rests on.", "Somebody who controls the source verifier and the trigger mediator."},
		{"human_in_session", h.SessionReceipt && h.RuntimeAttested,
			"The session controller and the runtime say that no human prompted, operated or could reach the run.",
			"What they declare from configuration and do not observe; each receipt lists what was observed."},
		{"stolen_signing_key", h.DeploymentAudit && h.RuntimeAttested && h.SessionReceipt && h.Grant,
			"Every key is certified for one purpose and to be out of the agent's and the users' reach, " +
				"and one key makes no chain.",
			"Somebody who controls the machines of all roles, or the key registry; and a certificate " +
				"that says more than is so."},
		{"unapproved_action", h.PolicyDecision && h.Grant,
			"The decision and the grant are for exactly this subject, action, resource and content.",
			"A policy that allows too much."},
		{"unsafe_deployment", h.DeploymentAudit,
			"The auditor has signed exactly this manifest, and it audits clean.",
			"A manifest that does not say what is true of the deployment."},
		{"human_identity", false, "",
			"Whether a human stands behind the source, the agent's instructions or the trusted control " +
				"points: nothing here can show that."},
	}
}
