package rating

import (
	"fmt"

	"github.com/actionproof/mediator/reputation/accrual"
)

// Fact is one thing that the node knows of an agent. Exactly one of its parts is there.
type Fact struct {
	At        int64            // Unix seconds, by the clock of the node
	Session   *accrual.Session // closed and scored, or scored again: as in the agent's log
	Signal    *Checklist       // the window of a signal of the agent has closed
	Dispute   *Dispute         // a dispute has ended, and counts
	Violation string           // which rule against spam the agent has broken
}

// Checklist says of one signal what can be checked of it (seed 002: transparency). Each is what the node has found itself, and no word of the agent.
type Checklist struct {
	Trace        bool `json:"trace"`        // what led to it can be followed
	Sources      bool `json:"sources"`      // what it rests on is named, and is there
	Context      bool `json:"context"`      // it is bound to the session and the event that it came from
	Verification bool `json:"verification"` // the agent had passed a verification
	Timestamp    bool `json:"timestamp"`    // its time is about that of the node
	Schema       bool `json:"schema"`       // it is a signal by the published schema
}

// Dispute is a dispute that the agent was a party of, as it has ended.
type Dispute struct {
	ID         string
	About      string        // the signal, or the first of the receipts, that is disputed: what an agent loses about one of them it loses once
	Challenger bool          // the agent has opened it; otherwise it was accused
	Other      accrual.Agent // the other party
	Outcome    string        // [accrual.ChallengerWins], [accrual.TargetWins] or [accrual.Inconclusive]
}

func (f Fact) check() error {
	parts := 0
	for _, there := range []bool{f.Session != nil, f.Signal != nil, f.Dispute != nil, f.Violation != ""} {
		if there {
			parts++
		}
	}
	switch {
	case f.At <= 0:
		return fmt.Errorf("rating: a fact has no time")
	case parts != 1:
		return fmt.Errorf("rating: a fact says %d things, and has to say one", parts)
	case f.Session != nil && !(f.Session.Score >= 0 && f.Session.Score <= 100):
		return fmt.Errorf("rating: the score of the session %.80q is not within 0 and 100", f.Session.ID)
	}
	if f.Dispute == nil {
		return nil
	}
	switch f.Dispute.Outcome {
	case accrual.ChallengerWins, accrual.TargetWins, accrual.Inconclusive:
		return nil
	}
	return fmt.Errorf("rating: the dispute %.80q ended as %.40q, which is no outcome", f.Dispute.ID, f.Dispute.Outcome)
}
