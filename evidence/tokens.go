package evidence

import (
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
)

// ChallengeToken is a challenge issuer's note to itself: what it needs to verify the response, without tasks and
// answers (seed: "How it works").
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
		return refusal.New("artifact_malformed", "the %s holds no task", ChallengeTokenKind.Typ)
	}
	for _, a := range c.Answers {
		if err := checkClaims(ChallengeTokenKind.Typ,
			texts{"answers.id", a.ID, "answers.kind", a.Kind, "answers.salt", a.Salt},
			hashes{"answers.hash", a.Hash}); err != nil {
			return err
		}
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
			ChallengeTokenKind.Typ)
	}
	return checkClaims(ChallengeTokenKind.Typ, texts{"difficulty", c.Difficulty}, hashes{"tasksHash", c.TasksHash})
}

// Capability permits one post, once. A verifier mints it after the whole chain held (seed: capability). Its jti is the
// capability id.
type Capability struct {
	Registered
	Binding     Binding `json:"binding"`
	ChallengeID string  `json:"challengeId"`
	DecisionID  string  `json:"decisionId,omitempty"`
	GrantID     string  `json:"grantId,omitempty"`
	// Runtime and Session summarise the verified attestation and receipt.
	Runtime *RuntimeSummary `json:"runtime,omitempty"`
	Session *SessionSummary `json:"session,omitempty"`
	// VerificationConsumed: the ids of the chain are consumed.
	VerificationConsumed bool `json:"verificationConsumed"`
}

// RuntimeSummary repeats claims of the runtime attestation.
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

// SessionSummary repeats claims of the session receipt.
type SessionSummary struct {
	AgentEnvironmentUserAccessible bool   `json:"agentEnvironmentUserAccessible"`
	HumanOperatorPresent           bool   `json:"humanOperatorPresent"`
	HumanPromptPresent             bool   `json:"humanPromptPresent"`
	InputKind                      string `json:"inputKind"`
	ReceiptID                      string `json:"receiptId"`
	SessionID                      string `json:"sessionId"`
	UserShellAccess                bool   `json:"userShellAccess"`
}

func (c *Capability) check() error {
	if err := c.Binding.CheckNonce(); err != nil {
		return err
	}
	t := slices.Concat(texts{"challengeId", c.ChallengeID}, optional("decisionId", c.DecisionID),
		optional("grantId", c.GrantID))
	var h hashes
	if r := c.Runtime; r != nil {
		t = append(t, "runtime.attestationId", r.AttestationID, "runtime.issuer", r.Issuer, "runtime.keyId", r.KeyID,
			"runtime.runtimeId", r.RuntimeID,
			"runtime.trigger.id", r.Trigger.ID, "runtime.trigger.kind", r.Trigger.Kind, "runtime.trigger.source",
			r.Trigger.Source)
		h = hashes{"runtime.environmentHash", r.EnvironmentHash, "runtime.policyHash", r.PolicyHash}
	}
	if s := c.Session; s != nil {
		t = append(t, "session.inputKind", s.InputKind, "session.receiptId", s.ReceiptID, "session.sessionId", s.SessionID)
	}
	return checkClaims(CapabilityKind.Typ, t, h)
}
