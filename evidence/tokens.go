package evidence

import "github.com/actionproof/mediator/internal/refusal"

// ChallengeToken is all that a challenge issuer needs to verify the response, without tasks and answers.
type ChallengeToken struct {
	Registered
	Answers     []SaltedAnswer `json:"answers"`
	Binding     *Binding       `json:"binding,omitempty"`
	BindingHash string         `json:"bindingHash,omitempty"`
	Difficulty  string         `json:"difficulty"`
	TasksHash   string         `json:"tasksHash"`
}

// SaltedAnswer is the salted hash of one task's expected answer.
type SaltedAnswer struct {
	Hash string `json:"hash"`
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Salt string `json:"salt"`
}

func (c *ChallengeToken) check() error {
	if len(c.Answers) == 0 {
		return refusal.New("artifact_malformed", "the %s holds no task", challengeToken.Typ)
	}
	bound := ""
	if c.Binding != nil {
		if err := c.Binding.CheckNonce(); err != nil {
			return err
		}
		bound = c.Binding.Hash()
	}
	if c.BindingHash != bound {
		return refusal.New("artifact_malformed", "the bindingHash of the %s is not the hash of its binding",
			challengeToken.Typ)
	}
	return nil
}

// Capability permits one post, once. A verifier mints it after the whole chain held.
type Capability struct {
	Registered
	Binding     Binding `json:"binding"`
	ChallengeID string  `json:"challengeId"`
	DecisionID  string  `json:"decisionId,omitempty"`
	GrantID     string  `json:"grantId,omitempty"`
	// Runtime and Session summarise the verified attestation and receipt.
	Runtime *RuntimeSummary `json:"runtime,omitempty"`
	Session *SessionSummary `json:"session,omitempty"`
	// VerificationConsumed means that the ids of the chain are consumed.
	VerificationConsumed bool `json:"verificationConsumed"`
}

// RuntimeSummary is what a capability keeps of the attestation.
type RuntimeSummary struct {
	AttestationID   string  `json:"attestationId"`
	EnvironmentHash string  `json:"environmentHash"`
	IssuedAt        int64   `json:"issuedAt"`
	Issuer          string  `json:"issuer"`
	KeyID           string  `json:"keyId"`
	PolicyHash      string  `json:"policyHash"`
	RuntimeID       string  `json:"runtimeId"`
	Trigger         Trigger `json:"trigger"`
}

// SessionSummary is what a capability keeps of the session receipt.
type SessionSummary struct {
	AgentEnvironmentUserAccessible bool   `json:"agentEnvironmentUserAccessible"`
	HumanOperatorPresent           bool   `json:"humanOperatorPresent"`
	HumanPromptPresent             bool   `json:"humanPromptPresent"`
	InputKind                      string `json:"inputKind"`
	ReceiptID                      string `json:"receiptId"`
	SessionID                      string `json:"sessionId"`
	UserShellAccess                bool   `json:"userShellAccess"`
}

func (c *Capability) check() error { return c.Binding.CheckNonce() }
