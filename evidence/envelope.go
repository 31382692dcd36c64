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

// MaxEnvelope bounds an envelope as it travels, in bytes.
const MaxEnvelope = 32 << 10

// ParseEnvelope reads one strict JSON envelope: unknown and duplicate members, trailing text and anything over [MaxEnvelope]
// are refused.
func ParseEnvelope(raw []byte) (Envelope, error) {
	var e Envelope
	if len(raw) > MaxEnvelope {
		return e, Refuse("envelope_too_large", "the envelope has %d bytes; at most %d are read", len(raw), MaxEnvelope)
	}
	if err := ParseStrict(raw, &e); err != nil {
		return Envelope{}, Refuse("envelope_malformed", "the envelope is malformed: %v", err)
	}
	return e, nil
}
