package challenge

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Want is what a verifier demands of a response.
type Want struct {
	// Binding is the operation that the response must be bound to; its nonce is the token's. The zero binding accepts any, and is
	// for challenges that are bound to nothing.
	Binding evidence.Binding
	// MaxAge bounds the time since the challenge was issued. Required.
	MaxAge time.Duration
}

// Verify is [Issuer.VerifyToken], and also holds the tasks as they were shown against the token.
func (i *Issuer) Verify(ctx context.Context, ch Challenge, r evidence.Response, want Want) (evidence.ChallengeToken, error) {
	token, err := i.VerifyToken(ctx, ch.Token, r, want)
	if err != nil {
		return evidence.ChallengeToken{}, err
	}
	hash, err := hashTasks(ch.Tasks)
	if err != nil {
		return evidence.ChallengeToken{}, err
	}
	if subtle.ConstantTimeCompare([]byte(hash), []byte(token.TasksHash)) != 1 {
		return evidence.ChallengeToken{}, evidence.Refuse("challenge_tasks_altered", "the tasks are not those that the challenge was issued with")
	}
	return token, nil
}

// VerifyToken verifies a response against the token of its challenge: signature, expiry, age, binding, and every answer. It
// consumes nothing; the caller reserves the challenge's id before it rests anything on it.
func (i *Issuer) VerifyToken(_ context.Context, token string, r evidence.Response, want Want) (evidence.ChallengeToken, error) {
	var none evidence.ChallengeToken
	c, err := evidence.OpenMAC(i.secret, evidence.ChallengeTokenKind, token, evidence.Expected{
		Issuers: []string{i.o.Issuer}, Audiences: []string{i.o.Audience}, MaxAge: want.MaxAge,
	}, i.o.Now(), evidence.DefaultSkew)
	if err != nil {
		return none, err
	}
	switch bound := want.Binding != (evidence.Binding{}); {
	case bound && (c.Binding == nil || !c.Binding.SameAction(want.Binding)):
		return none, evidence.Refuse("challenge_binding_mismatch", "the challenge is bound to another subject, action, resource or content")
	case r.ChallengeID != c.ID:
		return none, evidence.Refuse("response_other_challenge", "the response answers another challenge")
	case len(r.Answers) != len(c.Answers):
		return none, evidence.Refuse("response_incomplete", "the response has %d answers; the challenge has %d tasks", len(r.Answers), len(c.Answers))
	}
	right := 1
	for _, a := range c.Answers {
		answer, ok := r.Answers[a.ID]
		if !ok {
			return none, evidence.Refuse("response_incomplete", "the response has no answer for task %s", a.ID)
		}
		if !evidence.IsHash(answer) {
			return none, evidence.Refuse("response_malformed", "the answer for task %s is not 64 lowercase hex characters", a.ID)
		}
		// All answers are compared, so that the time says nothing of which one was wrong.
		right &= subtle.ConstantTimeCompare([]byte(a.Hash), []byte(salted(a.Salt, c.ID, a.ID, answer)))
	}
	if right != 1 {
		return none, evidence.Refuse("response_wrong", "at least one answer is wrong")
	}
	return c, nil
}
