package accrual

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Entry is one entry of an agent's log. Exactly one member but At is there.
type Entry struct {
	At        int64      `json:"at"` // Unix seconds, by the clock of the node
	Session   *Session   `json:"session,omitempty"`
	Dispute   *Dispute   `json:"dispute,omitempty"`
	Raised    *Raised    `json:"raised,omitempty"`
	Signal    *Signal    `json:"signal,omitempty"`
	Cited     *Cited     `json:"cited,omitempty"`
	Violation *Violation `json:"violation,omitempty"`
}

// Session is a session that has been closed, with its score. A later entry for the same session replaces it: receipts can come late, and
// change the score.
type Session struct {
	ID          string  `json:"session_id"`
	EventID     string  `json:"event_id"`    // of the verified event that opened it
	Score       float64 `json:"score"`       // the composite, 0 to 100, by [Round]
	Coverage    float64 `json:"coverage"`    // the share of the session that was observed, 0 to 1, by [Round]
	ScoringHash string  `json:"scoringHash"` // of the formulas that the score is by
	// Interactions are the answered calls to models at hosts that the appraiser believes, and Hosts those of these hosts that were called, in
	// ascending order. An agent may own any other host, and with it everything that comes from there.
	Interactions int64    `json:"interactions"`
	Hosts        []string `json:"hosts"`
}

// Dispute is a dispute in which the agent is the one who is accused (seed: Challenge). While Outcome is empty it is open.
type Dispute struct {
	ID      string `json:"dispute_id"`
	Outcome string `json:"outcome,omitempty"`
	// Bonus says that the agent has won and gains points. Package dispute says when a dispute gives them.
	Bonus bool `json:"bonus,omitempty"`
	// Other is the id of the other agent, and About the signal or the first of the receipts that were disputed, once it has ended.
	Other string `json:"other,omitempty"`
	About string `json:"about,omitempty"`
}

// Raised is a dispute that the agent has raised against another, and that has ended.
type Raised struct {
	ID      string `json:"dispute_id"`
	Outcome string `json:"outcome"`
	Bonus   bool   `json:"bonus,omitempty"` // this and the rest as of [Dispute]
	Other   string `json:"other,omitempty"`
	About   string `json:"about,omitempty"`
}

// How a dispute has ended (seed: outcome).
const (
	ChallengerWins = "challenger_wins" // the agent has lost
	TargetWins     = "target_wins"
	Inconclusive   = "inconclusive"
)

// Bounds of an entry.
const (
	MaxHosts = 32
	maxName  = 128      // bytes of a session's id, a dispute's or a host
	maxEvent = 256      // bytes
	maxEntry = 64 << 10 // bytes of an entry as text
)

// ParseEntry reads the canonical JSON of one entry, which [Entry.Encode] writes, and refuses any other spelling.
func ParseEntry(raw []byte) (Entry, error) {
	var e Entry
	if err := strictjson.ParseCanonical(raw, &e, maxEntry); err != nil {
		return Entry{}, fmt.Errorf("accrual: an entry is malformed: %w", err)
	}
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// Encode returns the entry as RFC 8785 canonical JSON. It refuses an entry that no log may have.
func (e Entry) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	text, err := strictjson.CanonicalOf(e)
	if err == nil && len(text) > maxEntry { // a log with such an entry could never be read again
		err = fmt.Errorf("accrual: an entry has %d bytes; at most %d are written", len(text), maxEntry)
	}
	return text, err
}

func (e Entry) check() error {
	switch {
	case e.At <= 0 || e.At > maxWhole:
		return errors.New("accrual: an entry has no time")
	case len(e.about()) != 1:
		return fmt.Errorf("accrual: an entry is about %d things, and not about one", len(e.about()))
	}
	return e.about()[0].check()
}

// about returns what the entry is about.
func (e Entry) about() (all []interface{ check() error }) {
	if e.Session != nil {
		all = append(all, e.Session)
	}
	if e.Dispute != nil {
		all = append(all, e.Dispute)
	}
	if e.Raised != nil {
		all = append(all, e.Raised)
	}
	if e.Signal != nil {
		all = append(all, e.Signal)
	}
	if e.Cited != nil {
		all = append(all, e.Cited)
	}
	if e.Violation != nil {
		all = append(all, e.Violation)
	}
	return all
}

func (s *Session) check() error {
	switch {
	case !named(s.ID, maxName) || !named(s.EventID, maxEvent):
		return errors.New("accrual: a session lacks its id or its event's, or one is too long")
	case !within(s.Score, 100) || !within(s.Coverage, 1):
		return fmt.Errorf("accrual: the score or the coverage of the session %s is not within its bounds, or not rounded", s.ID)
	case !evidence.IsHash(s.ScoringHash):
		return fmt.Errorf("accrual: the session %s does not say by which formulas it is scored", s.ID)
	case s.Interactions < 0 || s.Interactions > maxWhole || s.Hosts == nil || len(s.Hosts) > MaxHosts || s.Interactions > 0 && len(s.Hosts) == 0:
		return fmt.Errorf("accrual: the interactions of the session %s and their hosts do not fit together", s.ID)
	}
	for i, host := range s.Hosts {
		if !named(host, maxName) || i > 0 && host <= s.Hosts[i-1] {
			return fmt.Errorf("accrual: the hosts of the session %s are no names in ascending order", s.ID)
		}
	}
	return nil
}

func (d *Dispute) check() error {
	return d.checkAs(TargetWins, "", ChallengerWins, TargetWins, Inconclusive)
}

func (r *Raised) check() error {
	d := Dispute(*r)
	return d.checkAs(ChallengerWins, ChallengerWins, TargetWins, Inconclusive)
}

// checkAs refuses what no dispute is of which the agent wins one outcome. Only who has won gains points.
func (d *Dispute) checkAs(won string, outcomes ...string) error {
	switch {
	case !named(d.ID, maxName):
		return errors.New("accrual: a dispute lacks its id, or it is too long")
	case !slices.Contains(outcomes, d.Outcome):
		return fmt.Errorf("accrual: the dispute %s ended as %.40q, which is no outcome", d.ID, d.Outcome)
	case d.Bonus && d.Outcome != won:
		return fmt.Errorf("accrual: the dispute %s gives points to an agent that has not won it", d.ID)
	case (d.Other == "") != (d.About == "") || d.Other != "" && d.Outcome == "" || len(d.About) > maxName:
		return fmt.Errorf("accrual: the dispute %s does not say with whom it was and about what, or says it before it has ended", d.ID)
	case d.Other == "":
		return nil
	}
	_, err := ParseAgent(d.Other)
	return err
}

// maxWhole is the greatest whole number of which a double is no other number as well.
const maxWhole = 1<<53 - 1

func named(text string, longest int) bool { return text != "" && len(text) <= longest }

// within reports whether f is between 0 and most, and rounded. Of NaN nothing holds, and -0 is no number that a log has.
func within(f, most float64) bool { return f >= 0 && f <= most && !math.Signbit(f) && f == Round(f) }
