package evidence

// Envelope carries the whole chain of one post side by side, before the capability exists (seed:
// createStrictGrantedAutonomousPostingProof). The request proof is no part of it: it is signed over the capability.
type Envelope struct {
	ChallengeToken        string   `json:"challengeToken"`
	Response              Response `json:"response"`
	OriginProof           string   `json:"originProof"`
	TriggerReceipt        string   `json:"triggerReceipt"`
	PolicyDecision        string   `json:"policyDecision"`
	Grant                 string   `json:"grant"`
	Attestation           string   `json:"attestation"`
	SessionReceipt        string   `json:"sessionReceipt"`
	DeploymentCertificate string   `json:"deploymentCertificate"`
}

// Response answers a challenge (seed: the agent's response).
type Response struct {
	ChallengeID string            `json:"challengeId"`
	Answers     map[string]string `json:"answers"` // task id to lowercase hex SHA-256
}
