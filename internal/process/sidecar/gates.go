package sidecar

import (
	"cmp"
	"crypto/rand"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/policy"
)

// gateSecret makes the gate's secret from text. If text is empty, the secret is random and exists only in memory.
func gateSecret(text string) (evidence.Secret, error) {
	if text != "" {
		return evidence.NewSecret([]byte(text))
	}
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails; see evidence.NewID
	return evidence.NewSecret(b[:])
}

// newGate makes the gate that a manifest asks for.
func newGate(c config.Gate, secret evidence.Secret, v *evidence.Verifier, strict *policy.Strict) (*gate.Gate, error) {
	name, difficulty := cmp.Or(c.Issuer, "mediator-gate"), cmp.Or(c.Difficulty, "standard")
	challenges, err := challenge.NewIssuer(secret, challenge.Options{
		Issuer: name, Audience: name, Lifetime: strict.MaxChallengeAge, Difficulty: challenge.Difficulty(difficulty),
		Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	return gate.New(gate.Options{Challenges: challenges, Secret: secret, Issuer: name, Verifier: v, Strict: strict})
}
