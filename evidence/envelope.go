package evidence

// Envelope carries the chain of one post until there is a capability (seed: createStrictGrantedAutonomousPostingProof).
// The request proof comes later: it is signed over the capability.
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
