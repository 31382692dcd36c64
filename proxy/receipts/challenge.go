package receipts

import (
	"strings"
	"unicode"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
)

type challenge struct {
	ref    *interaction.ChallengeRef // nil if there is none; replaced, never changed
	probes map[string]string         // unsent prompts by id
}

func (c challenge) open() bool { return c.ref != nil && !c.ref.CommitmentRevealed }

// Challenged replaces the challenge and the probes (prompts by id), unless the challenge is the same: its used probes
// stay used. The chain keeps the map.
func (c *Chain) Challenged(nonce string, probes map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.challenge.ref; ref != nil && ref.ChallengeNonce == nonce {
		return
	}
	c.challenge = challenge{&interaction.ChallengeRef{ChallengeNonce: nonce}, probes}
}

// Committed ignores a nonce other than the current challenge's.
func (c *Chain) Committed(nonce, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.challenge.ref; ref != nil && ref.ChallengeNonce == nonce && ref.CommitmentHash == "" {
		c.challenge.ref = &interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash}
	}
}

// Revealed ignores what the agent has not committed to.
func (c *Chain) Revealed(nonce, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.challenge.ref; ref != nil && ref.ChallengeNonce == nonce && ref.CommitmentHash == hash {
		c.challenge.ref = &interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash,
			CommitmentRevealed: true}
	}
}

// Probe returns the prompt of an unsent probe.
func (c *Chain) Probe(id string) (prompt string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prompt, ok := c.challenge.probes[id]
	if !ok {
		return "", errProbe
	}
	return prompt, nil
}

var errProbe = refusal.New("not_found",
	"the last challenge of this session has no such probe, or the probe was already sent")

// meet puts the challenge into the claims of a call about to be sent, and uses up its probe. The caller holds the
// chain's mutex.
func (call *Call) meet() error {
	now := call.chain.challenge
	claims := &call.claims
	claims.Challenge = now.ref
	if claims.Model == nil {
		return nil
	}
	if now.open() {
		claims.ActionType = interaction.ActionChallengeResponse
	}
	if p := claims.Model.Probe; p != nil {
		if _, ok := now.probes[p.ID]; !ok {
			return errProbe
		}
		delete(now.probes, p.ID)
	}
	return nil
}

// Answered notes the model's answer to a probe, ignoring case, white space and outer punctuation.
func (call *Call) Answered(text string) {
	if call == nil || call.claims.Model.Probe == nil {
		return
	}
	text = strings.Join(strings.Fields(strings.ToLower(strings.ToValidUTF8(text, "\uFFFD"))), " ")
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
	call.claims.Model.Probe.Answer = call.chain.tagOf("probe", text).String()
}
