package rating

import (
	"cmp"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Recorded returns the facts about an agent that the log of disputes has: its signals, as of when their windows close; the disputes that it was a
// party of and that count; and its violations. Its sessions are in its own log (package accrual).
func Recorded(b *dispute.Book, agent accrual.Agent) (facts []Fact, err error) {
	id := agent.String()
	known := b.Facts(id)
	for _, signal := range known.Signals {
		if s, ok := b.Signal(signal); ok {
			facts = append(facts, Fact{At: s.Closes, Signal: checked(s)})
		}
	}
	for _, e := range known.Ended {
		d, _ := b.Dispute(e.DisputeID)
		other := e.Challenger
		if e.Challenger == id {
			other = e.Target
		}
		of, err := accrual.ParseAgent(other)
		if err != nil {
			return nil, err
		}
		facts = append(facts, Fact{At: e.At, Dispute: &Dispute{ID: e.DisputeID, About: about(d), Challenger: e.Challenger == id, Other: of, Outcome: e.Outcome}})
	}
	for _, v := range known.Violations {
		facts = append(facts, Fact{At: v.At, Violation: v.Rule})
	}
	return facts, nil
}

// checked returns what the node has found of a signal when it came in. It takes none of another form, of another time than its own, or of an agent that
// has passed no verification.
func checked(s dispute.SignalState) *Checklist {
	observed := s.Basis == dispute.BasisObserved
	of, err := accrual.ParseAgent(s.Agent)
	return &Checklist{
		Trace: observed, Sources: observed, Context: err == nil && of.Owner != "", // a sidecar has signed it
		Verification: true, Timestamp: true, Schema: true,
	}
}

// about returns what is disputed: the signal, or the first of the receipts in their order; without either what was filed.
func about(d dispute.State) string {
	first := ""
	for _, r := range d.Receipts {
		if first == "" || r < first {
			first = r
		}
	}
	return cmp.Or(d.SignalID, first, d.Document)
}
