package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// freshWork is step 4: a challenge bound to this operation, solved by the agent or by the runtime.
func (t *posting) freshWork(ctx context.Context) error {
	token, response := t.r.Header["Actionproof-Challenge"], t.r.Header["Actionproof-Response"]
	delete(t.r.Header, "Actionproof-Challenge") // the mediator's own protocol never goes upstream
	delete(t.r.Header, "Actionproof-Response")
	if t.action.AgentSolves && (len(token) > 0 || len(response) > 0) {
		return t.agentAnswer(token, response)
	}
	ch, err := t.action.Gate.Challenge(ctx, t.binding)
	if err != nil {
		return err
	}
	if ch.Binding == nil || !ch.Binding.SameAction(t.binding) {
		return refusal.New("challenge_refused",
			"the challenge is bound to an operation other than the call")
	}
	if t.action.AgentSolves {
		document, err := json.Marshal(ch)
		if err != nil {
			return err
		}
		return &challengeRequired{
			Refusal: refusal.New("challenge_required",
				"solve the challenge %s and make the same call again with the answers", ch.ID),
			document: document,
		}
	}
	answers, err := challenge.Solve(ctx, ch.Tasks)
	if err != nil {
		return err
	}
	return t.bind(*ch.Binding, ch.Token, evidence.Response{ChallengeID: ch.ID, Answers: answers})
}

// agentAnswer reads the agent's answer from its second call's headers. The gate verifies the token's nonce.
func (t *posting) agentAnswer(token, response []string) error {
	if len(token) != 1 || len(response) != 1 {
		return refusal.New("challenge_refused",
			"the call needs each of the headers ActionProof-Challenge and ActionProof-Response exactly once")
	}
	raw, err := base64.RawURLEncoding.DecodeString(response[0])
	if err != nil {
		return refusal.New("challenge_refused", "the header ActionProof-Response is not base64url without padding")
	}
	answer, err := challenge.ParseResponse(raw)
	if err != nil {
		return err
	}
	claims, err := evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), token[0])
	if err != nil {
		return err
	}
	if claims.Binding == nil || !claims.Binding.SameAction(t.binding) {
		return refusal.New("challenge_refused", "the challenge is for another operation or other content")
	}
	return t.bind(*claims.Binding, token[0], answer)
}

// bind ends step 4 with a binding that has its nonce.
func (t *posting) bind(b evidence.Binding, token string, response evidence.Response) error {
	t.binding = b
	t.record.BindingHash = b.Hash()
	// Room for a complete post.
	t.record.Artifacts, t.record.Checks = make([]ledger.Artifact, 0, 10), make([]ledger.Check, 0, 16)
	t.record.Steps = slices.Grow(t.record.Steps, maxSteps)
	t.envelope.ChallengeToken, t.envelope.Response = token, response
	t.artifact("challenge", token)
	return b.CheckNonce()
}

type challengeRequired struct {
	*refusal.Refusal
	document []byte
}
