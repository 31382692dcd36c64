package receipts

import (
	"strings"
	"unicode"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
)

// challenge is what the agent of a session has to answer. Its receipts tell of it. It is in memory, like the session.
type challenge struct {
	ref    *interaction.ChallengeRef // nil while there is none; never changed, only replaced
	probes map[string]string         // prompts by their ids, of those that were not sent
}

// open reports whether the agent has yet to answer.
func (c challenge) open() bool { return c.ref != nil && !c.ref.CommitmentRevealed }

// Challenged says that the agent was given a challenge, which takes the place of the one before, and its probes:
// prompts by their ids. The chain keeps the map. The same challenge again changes nothing: its probes are not good once
// more.
func (c *Chain) Challenged(nonce string, probes map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.challenge.ref; ref != nil && ref.ChallengeNonce == nonce {
		return
	}
	c.challenge = challenge{&interaction.ChallengeRef{ChallengeNonce: nonce}, probes}
}

// Committed says that the node keeps what the agent has committed to. Of a challenge other than the last it changes
// nothing.
func (c *Chain) Committed(nonce, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.challenge.ref; ref != nil && ref.ChallengeNonce == nonce && ref.CommitmentHash == "" {
		c.challenge.ref = &interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash}
	}
}

// Revealed says that the agent has shown what hash is the commitment to, and that the node keeps it. Where that is not
// what the agent has committed to in this session it changes nothing.
func (c *Chain) Revealed(nonce, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.challenge.ref; ref != nil && ref.ChallengeNonce == nonce && ref.CommitmentHash == hash {
		c.challenge.ref = &interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash, CommitmentRevealed: true}
	}
}

// Probe returns the prompt of a probe that was not sent yet.
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
	"the last challenge of this session has no probe with this id that was not sent yet")

// meet notes in the claims of a call which challenge is in force as it is sent, and uses its probe up. The caller holds
// the chain's mutex.
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

// Answered says what the model has answered to the probe of a call. Answers that differ in case, in spaces, or in
// punctuation around them are the same.
func (call *Call) Answered(text string) {
	if call == nil || call.claims.Model.Probe == nil {
		return
	}
	text = strings.Join(strings.Fields(strings.ToLower(strings.ToValidUTF8(text, "\uFFFD"))), " ")
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
	call.claims.Model.Probe.Answer = call.chain.tagOf("probe", text).String()
}
