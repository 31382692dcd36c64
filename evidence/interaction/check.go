package interaction

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

type short struct {
	name, value string
	longest     int
	optional    bool
}

func checkShort(all ...short) error {
	for _, t := range all {
		if t.value == "" && !t.optional || len(t.value) > t.longest {
			return fmt.Errorf("%s is missing, or longer than %d bytes", t.name, t.longest)
		}
	}
	return nil
}

func checkTag(name, tag string, optional bool) error {
	if (tag != "" || !optional) && !evidence.IsHash(tag+tag) { // half as long as a hash
		return fmt.Errorf("%s is not a tag of 32 lowercase hex digits", name)
	}
	return nil
}

type hash struct {
	name, value string
}

func checkHashes(all ...hash) error {
	for _, h := range all {
		if !evidence.IsHash(h.value) {
			return fmt.Errorf("%s is not a lowercase hex SHA-256", h.name)
		}
	}
	return nil
}

func oneOf(name, value string, of ...string) error {
	if !slices.Contains(of, value) {
		return fmt.Errorf("%s is %.40q", name, value)
	}
	return nil
}

func check(c *Receipt) error {
	link := c.Chain
	switch {
	case c.Expires-c.IssuedAt != int64(Lifetime/time.Second):
		return errors.New("exp is not ten minutes after iat")
	case !c.Probabilistic || c.NonHumanIdentityProven:
		return errors.New("it claims more than a likelihood, or that no human was involved")
	case !slices.Equal(c.Observed, ObservedOf(*c)):
		return errors.New("observed does not name what a mediator observes, and nothing else")
	case len(c.Owner) != thumbprintChars:
		return errors.New("owner is not a thumbprint")
	case link.SequenceNumber < 1 || link.SequenceNumber == 1 != (link.PreviousReceiptHash == ""):
		return errors.New("its number does not fit the receipt before it: only receipt 1 has none before it")
	}
	hashes := []hash{
		{"policy_id", c.PolicyID}, {"inputs_commitment", c.InputsCommitment},
		{"constraints_commitment", c.ConstraintsCommitment},
		{"llm_commitment", c.LLMCommitment}, {"output_clean_hash", c.OutputCleanHash},
		{"output_transport_hash", c.OutputTransportHash},
	}
	if link.SequenceNumber > 1 {
		hashes = append(hashes, hash{"chain.previous_receipt_hash", link.PreviousReceiptHash})
	}
	return cmp.Or(
		checkHashes(hashes...),
		oneOf("enforcement", c.Enforcement, append(evidence.Enforcements(), "")...),
		checkShort(
			short{"keyCustody", c.KeyCustody, maxShortName, false},
			short{"request_id", c.RequestID, maxName, false}, short{"agent", c.Agent, maxAgentName, false},
			short{"runtime_id", c.RuntimeID, maxName, false}, short{"event_id", c.EventID, maxAgentName, false},
			short{"chain.session_id", link.SessionID, maxName, false},
		),
		c.checkAbout(), c.Timing.check(c.IssuedAt), c.Challenge.check(), c.checkRelayed(), c.Session.check(),
	)
}

func (c *Receipt) checkAbout() error {
	var actions, outcomes []string
	n := 0
	if c.Model != nil {
		n++
		actions = []string{ActionGeneric, ActionChallengeResponse, ActionConfidentialCall}
		outcomes = []string{OutcomeCompleted, OutcomeFailed, OutcomeUnfinished, OutcomeCut, OutcomeLeft,
			OutcomeIndeterminate, OutcomeNotMeasured}
	}
	if c.Post != nil {
		n++
		actions, outcomes = []string{ActionComposePost}, []string{OutcomeCompleted, OutcomeFailed, OutcomeIndeterminate}
	}
	if c.Closing != nil {
		n++
		actions, outcomes = []string{ActionGeneric}, []string{OutcomeCompleted}
	}
	if n != 1 {
		return fmt.Errorf("it must be about exactly one of a call to a model, a post and the end of a session, but is "+
			"about %d", n)
	}
	return cmp.Or(
		oneOf("action_type", c.ActionType, actions...), oneOf("outcome", c.Outcome, outcomes...),
		c.Model.check(c.Outcome), c.Post.check(), c.Closing.check(),
	)
}

// check refuses moments out of order, or after the receipt's signing.
func (t Timing) check(issued int64) error {
	last := t.RequestReceived
	if last <= 0 {
		return errors.New("request_received_ms is missing")
	}
	for _, at := range []int64{t.LLMStart, t.LLMEnd, t.ResponseSent} {
		switch {
		case at == 0: // not seen
			continue
		case at < last:
			return errors.New("its times are out of order")
		}
		last = at
	}
	if last/1000 > issued {
		return errors.New("it is issued before the interaction was over")
	}
	return nil
}

func (r *ChallengeRef) check() error {
	switch {
	case r == nil:
		return nil
	case r.CommitmentHash != "" && !evidence.IsHash(r.CommitmentHash):
		return errors.New("challenge.commitment_hash is not a lowercase hex SHA-256")
	case r.CommitmentRevealed && r.CommitmentHash == "":
		return errors.New("it reveals a commitment that was never made")
	}
	return checkShort(short{"challenge.challenge_nonce", r.ChallengeNonce, maxName, false})
}

func (p *PostMade) check() error {
	switch {
	case p == nil:
		return nil
	case !evidence.IsHash(p.BindingHash):
		return errors.New("post.binding_hash is not a lowercase hex SHA-256")
	case p.Status != 0 && (p.Status < 100 || p.Status > 999):
		return errors.New("post.status is not a status of HTTP")
	case len(p.Artifacts) == 0 || len(p.Artifacts) > MaxNamed:
		return fmt.Errorf("post.artifacts names none, or more than %d", MaxNamed)
	}
	for i, a := range p.Artifacts {
		if slices.ContainsFunc(p.Artifacts[:i], func(b NamedArtifact) bool { return a.Name == b.Name }) {
			return errors.New("post.artifacts names an artifact twice")
		}
		if !evidence.IsHash(a.Hash) {
			return errors.New("post.artifacts.hash is not a lowercase hex SHA-256")
		}
		if err := checkShort(short{"post.artifacts.name", a.Name, maxShortName, false}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Closing) check() error {
	if c == nil {
		return nil
	}
	return oneOf("closing.reason", c.Reason, ClosedEnded, ClosedShutdown, ClosedLost)
}

func (c *Receipt) checkRelayed() error {
	if len(c.Relayed) > MaxRelayed || int64(len(c.Relayed)) > c.RelayedCount || len(c.Relayed) < MaxRelayed &&
		int64(len(c.Relayed)) != c.RelayedCount {
		return fmt.Errorf("relayed is not the last %d of relayed_count calls", MaxRelayed)
	}
	for _, r := range c.Relayed {
		err := cmp.Or(
			checkShort(short{"relayed.host", r.Host, maxName, false}, short{"relayed.tool", r.Tool, maxName, false}),
			checkTag("relayed.arguments", r.Arguments, true), checkTag("relayed.call_id", r.CallID, true),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s SessionTotals) check() error {
	switch {
	case s.OpenedMS <= 0:
		return errors.New("session.opened_ms is missing")
	case s.CallsObserved < 0 || s.CallsObserved > s.Calls || s.BytesOutObserved < 0 || s.BytesOutObserved > s.BytesOut:
		return errors.New("session counts more calls or bytes as read than were made")
	}
	return nil
}
