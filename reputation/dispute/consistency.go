package dispute

import (
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// contradicts reports whether a receipt cannot follow another with the given hash in an honest chain (see package
// interaction). Receipts that are not adjacent prove nothing.
func contradicts(before *interaction.Receipt, hash string, c *interaction.Receipt) bool {
	if c.Chain.SequenceNumber != before.Chain.SequenceNumber+1 {
		return false
	}
	was, is := before.Session, c.Session
	return c.Chain.PreviousReceiptHash != hash || before.Closing != nil || c.EventID != before.EventID ||
		c.RuntimeID != before.RuntimeID ||
		is.OpenedMS != was.OpenedMS || c.IssuedAt < before.IssuedAt ||
		is.Calls < was.Calls || is.CallsObserved < was.CallsObserved || is.BytesOut < was.BytesOut ||
		is.BytesOutObserved < was.BytesOutObserved
}

type toolCalls struct {
	made     map[string]bool // by tag
	returned map[string]bool
	unknown  bool // an answer made calls that its receipt does not name
}

func (r *Record) addConsistency(c *interaction.Receipt) {
	r.measured.Add("", c) // only for the traces of its challenges
	m := c.Model
	if m == nil {
		return
	}
	calls := &r.calls
	made := m.Figures.ToolCallsMade
	unanswered := c.Outcome == interaction.OutcomeFailed && c.Timing.LLMEnd == 0
	calls.unknown = calls.unknown || !unanswered && made.State != interaction.StateObserved ||
		made.Value > int64(len(m.ToolCalls))
	for _, call := range m.ToolCalls {
		calls.unknown = calls.unknown || call.ID == ""
		calls.made[call.ID] = true
	}
	for _, call := range m.ReturnedCalls {
		calls.returned[call] = true
	}
}

func (r *Record) endConsistency() (found, doubt string) {
	if r.closed() && !r.calls.unknown {
		for call := range r.calls.returned {
			if !r.calls.made[call] {
				return ReasonResultWithout, ""
			}
		}
	}
	for _, c := range r.challenges {
		switch {
		case r.measured.Broke(c) && !r.broken[c.Nonce]:
			return ReasonStrategyBroken, ""
		case c.Commitment != "" && c.Strategy == nil:
			doubt = ReasonStrategyHidden
		}
	}
	return "", doubt
}

// inputs returns the hashes of the evidence: the head, which fixes the chain, and the node's challenge records.
func (r *Record) inputs() (hashes []string) {
	if n := len(r.hashes); n > 0 {
		hashes = append(hashes, r.hashes[n-1])
	}
	if len(r.challenges) > 0 {
		if hash, err := evidence.HashValue(r.challenges); err == nil {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// MinPairs is the least number of repeated questions for a decision: good models err now and then.
const MinPairs = 3

func (r *Record) addKnowledge(c *interaction.Receipt) {
	if c.Model == nil || c.Model.Probe == nil || c.Model.Probe.Answer == "" {
		return
	}
	if p := c.Model.Probe; r.answers[p.ID] == "" {
		r.answers[p.ID] = p.Answer
	}
}

func (r *Record) endKnowledge() (found, doubt string) {
	both, equal := autonomy.Agreement(r.challenges, r.answers)
	differ := both - int64(len(equal))
	switch {
	case both < MinPairs:
		return "", ReasonProbesUnanswered
	case 2*differ > both:
		return ReasonProbesDisagree, ""
	case differ > 0:
		return "", ReasonProbesDivided
	}
	return "", ""
}
