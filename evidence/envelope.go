package evidence

// Envelope carries the chain of one post until there is a capability, over which the request proof is signed.
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

// Response is the agent's answer to a challenge.
type Response struct {
	ChallengeID string            `json:"challengeId"`
	Answers     map[string]string `json:"answers"` // task id to lowercase hex SHA-256
}
