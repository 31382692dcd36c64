package accrual

import "fmt"

// Entry is one entry of an agent's log: At and exactly one other member.
type Entry struct {
	At        int64      `json:"at" form:"time"` // Unix seconds, by the node's clock
	Session   *Session   `json:"session,omitempty"`
	Dispute   *Dispute   `json:"dispute,omitempty"`
	Raised    *Raised    `json:"raised,omitempty"`
	Signal    *Signal    `json:"signal,omitempty"`
	Cited     *Cited     `json:"cited,omitempty"`
	Violation *Violation `json:"violation,omitempty"`
}

// Session is a closed session with its score. A later entry replaces it: late receipts can change the score.
type Session struct {
	ID          string  `json:"session_id" form:"name:128"`
	EventID     string  `json:"event_id" form:"name:256"`  // the verified event that opened it
	Score       float64 `json:"score" form:"rounded:100"`  // the composite
	Coverage    float64 `json:"coverage" form:"rounded:1"` // the observed share of the session
	ScoringHash string  `json:"scoringHash" form:"hash"`   // of the formulas behind the score
	// Interactions counts the answered model calls at hosts that the appraiser trusts; Hosts lists those hosts in
	// ascending order. An agent may own any other host and forge its answers.
	Interactions int64    `json:"interactions" form:"count"`
	Hosts        []string `json:"hosts" form:"name:128 most:32 sorted"`
}

// Dispute is a dispute that accuses the agent (seed: Challenge). It is open while Outcome is empty.
type Dispute struct {
	ID      string `json:"dispute_id" form:"name:128"`
	Outcome string `json:"outcome,omitempty" form:"challenger_wins|target_wins|inconclusive"`
	// Bonus gives the winning agent points; package dispute decides when.
	Bonus bool `json:"bonus,omitempty"`
	// Other is the other agent, and About the disputed signal or first receipt; both are set once the dispute has ended.
	Other string `json:"other,omitempty" form:"agent"`
	About string `json:"about,omitempty" form:"name:128"`
}

// Raised is an ended dispute that the agent raised against another.
type Raised Dispute

// These entries count for the rating alone ([Rating]). They leave the reputation unchanged but for its log head.

// Signal is a signal of the agent whose window has closed, with the node's findings at its publication.
type Signal struct {
	ID           string `json:"signal_id" form:"name:128"`
	Trace        bool   `json:"trace"`        // the node held all receipts it rests on, all of the same agent
	Sources      bool   `json:"sources"`      // one of those receipts is of an answered model call at a trusted host
	Context      bool   `json:"context"`      // a sidecar signed it, so its session and event are known
	Verification bool   `json:"verification"` // the agent had passed a verification
	Timestamp    bool   `json:"timestamp"`    // its time was close to the node's
	Schema       bool   `json:"schema"`       // it followed the published schema
}

// Cited is another agent's closed signal that rests on receipts of this one. Only the first of an owner is entered.
type Cited struct {
	By       string `json:"by" form:"agent"` // the other agent's id
	SignalID string `json:"signal_id" form:"name:128"`
}

// Violation is a breach of a rule against spam; package dispute names the rules.
type Violation struct {
	Rule string `json:"rule" form:"name:128"`
}

const (
	ChallengerWins = "challenger_wins"
	TargetWins     = "target_wins"
	Inconclusive   = "inconclusive"
)

const maxEntry = 64 << 10

// ParseEntry reads the canonical JSON that [Entry.Encode] writes and refuses any other spelling.
func ParseEntry(raw []byte) (Entry, error) { return ParseEntryOf[Entry](raw, maxEntry) }

// Encode returns the entry as RFC 8785 canonical JSON. It refuses an invalid entry.
func (e Entry) Encode() ([]byte, error) { return EncodeEntry(e, maxEntry) }

// Check is for [CheckForm], like those below.
func (e Entry) Check() error {
	_, err := MemberOf(e)
	return err
}

func (s Session) Check() error {
	if s.Hosts == nil || s.Interactions > 0 && len(s.Hosts) == 0 {
		return fmt.Errorf("accrual: the interactions and hosts of the session %s contradict each other", s.ID)
	}
	return nil
}

func (d Dispute) Check() error { return d.checkAs(TargetWins) }

func (r Raised) Check() error {
	if r.Outcome == "" {
		return fmt.Errorf("accrual: the raised dispute %s has no outcome", r.ID)
	}
	return Dispute(r).checkAs(ChallengerWins)
}

// checkAs checks a dispute that the agent wins by the outcome won. Only the winner gains points.
func (d Dispute) checkAs(won string) error {
	switch {
	case d.Bonus && d.Outcome != won:
		return fmt.Errorf("accrual: the dispute %s gives points to an agent that did not win it", d.ID)
	case (d.Other == "") != (d.About == "") || d.Other != "" && d.Outcome == "":
		return fmt.Errorf("accrual: the dispute %s must name its other agent and its subject exactly when it has ended", d.ID)
	}
	return nil
}
