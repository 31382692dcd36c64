package challenge

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Want is what a response must satisfy.
type Want struct {
	// Binding is the operation, without the nonce. Required, except that [Issuer.Verify] takes the challenge's own for
	// zero.
	Binding evidence.Binding
	// since the challenge; required
	MaxAge time.Duration
}

// Verify is [Issuer.VerifyToken], and verifies that the public challenge is the issued one.
func (i *Issuer) Verify(_ context.Context, ch Challenge, r evidence.Response, want Want) (evidence.ChallengeToken,
	error) {
	return i.verify(ch.Token, r, want, ch.intact)
}

// VerifyToken verifies a response with the token alone. It consumes nothing: the caller reserves the token's id first.
func (i *Issuer) VerifyToken(_ context.Context, token string, r evidence.Response, want Want) (evidence.ChallengeToken,
	error) {
	if want.Binding == (evidence.Binding{}) {
		return evidence.ChallengeToken{},
			refusal.New("not_allowed", "no challenge is accepted, because the calling code names no "+
				"binding (Want.Binding)")
	}
	return i.verify(token, r, want, func(evidence.ChallengeToken) error { return nil })
}

// verify calls more between its checks of token and answers.
func (i *Issuer) verify(token string, r evidence.Response, want Want,
	more func(evidence.ChallengeToken) error) (evidence.ChallengeToken, error) {
	c, err := i.open(token, want)
	if err == nil {
		err = more(c)
	}
	if err == nil {
		err = answered(c, r)
	}
	if err != nil {
		return evidence.ChallengeToken{}, err
	}
	return c, nil
}

func (i *Issuer) open(token string, want Want) (evidence.ChallengeToken, error) {
	c, err := evidence.OpenMAC(i.secret, evidence.ChallengeTokenKind(), token, evidence.Expected{
		Issuers: []string{i.o.Issuer}, Audiences: []string{i.o.Audience}, MaxAge: want.MaxAge,
	}, i.o.Now(), evidence.DefaultSkew)
	if err != nil {
		return c, err
	}
	if want.Binding != (evidence.Binding{}) && (c.Binding == nil || !c.Binding.SameAction(want.Binding)) {
		return c, refused("the challenge is bound to another subject, action, resource or content")
	}
	return c, nil
}

func answered(c evidence.ChallengeToken, r evidence.Response) error {
	if r.ChallengeID != c.ID {
		return refused("the response answers another challenge")
	}
	if len(r.Answers) != len(c.Answers) {
		return refused("the response has %d answers; the challenge has %d tasks", len(r.Answers), len(c.Answers))
	}
	for _, a := range c.Answers {
		if _, ok := r.Answers[a.ID]; !ok {
			return refused("the response has no answer for task %s", a.ID)
		}
	}
	right := 1
	for _, a := range c.Answers {
		answer := r.Answers[a.ID]
		if !evidence.IsHash(answer) {
			return refused("the answer for task %s is not 64 lowercase hex characters", a.ID)
		}
		// Compares all, so that neither time nor refusal tells which was wrong.
		right &= subtle.ConstantTimeCompare([]byte(a.Hash), []byte(salted(a.Salt, c.ID, a.ID, answer)))
	}
	if right != 1 {
		return refused("at least one answer is wrong")
	}
	return nil
}
