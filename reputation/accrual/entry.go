package accrual

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Entry is one entry of an agent's log: At and exactly one other member.
type Entry struct {
	At        int64      `json:"at"` // Unix seconds, by the node's clock
	Session   *Session   `json:"session,omitempty"`
	Dispute   *Dispute   `json:"dispute,omitempty"`
	Raised    *Raised    `json:"raised,omitempty"`
	Signal    *Signal    `json:"signal,omitempty"`
	Cited     *Cited     `json:"cited,omitempty"`
	Violation *Violation `json:"violation,omitempty"`
}

// Session is a closed session with its score. A later entry for the same session replaces it, because late receipts can
// change the score.
type Session struct {
	ID          string  `json:"session_id"`
	EventID     string  `json:"event_id"`    // the verified event that opened it
	Score       float64 `json:"score"`       // the composite, 0 to 100, by [Round]
	Coverage    float64 `json:"coverage"`    // the observed share of the session, 0 to 1, by [Round]
	ScoringHash string  `json:"scoringHash"` // of the formulas behind the score
	// Interactions counts the answered model calls at hosts that the appraiser trusts; Hosts lists those hosts in
	// ascending order. An agent may own any other host and forge its answers.
	Interactions int64    `json:"interactions"`
	Hosts        []string `json:"hosts"`
}

// Dispute is a dispute that accuses the agent (seed: Challenge). It is open while Outcome is empty.
type Dispute struct {
	ID      string `json:"dispute_id"`
	Outcome string `json:"outcome,omitempty"`
	// Bonus gives the winning agent points; package dispute decides when.
	Bonus bool `json:"bonus,omitempty"`
	// Other is the other agent, and About the disputed signal or first receipt; both are set once the dispute has ended.
	Other string `json:"other,omitempty"`
	About string `json:"about,omitempty"`
}

// Raised is an ended dispute that the agent raised against another.
type Raised Dispute

// Outcomes of a dispute.
const (
	ChallengerWins = "challenger_wins"
	TargetWins     = "target_wins"
	Inconclusive   = "inconclusive"
)

// Bounds of an entry.
const (
	MaxHosts = 32
	maxName  = 128 // bytes of the id of a session or dispute, or of a host
	maxEvent = 256
	maxEntry = 64 << 10
)

// ParseEntry reads the canonical JSON that [Entry.Encode] writes and refuses any other spelling.
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

// Encode returns the entry as RFC 8785 canonical JSON. It refuses an invalid entry.
func (e Entry) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	text, err := strictjson.CanonicalOf(e)
	if err == nil && len(text) > maxEntry { // such a log could never be read again
		err = fmt.Errorf("accrual: an entry has %d bytes; at most %d are written", len(text), maxEntry)
	}
	return text, err
}

func (e Entry) check() error {
	if e.At <= 0 || e.At > maxWhole {
		return errors.New("accrual: an entry has no time")
	}
	about := Members(e)
	if len(about) != 1 {
		return fmt.Errorf("accrual: an entry must have exactly one subject, and has %d", len(about))
	}
	return about[0].(interface{ check() error }).check()
}

// Members returns the pointers in an entry of a log that are set.
func Members(entry any) (set []any) {
	v := reflect.ValueOf(entry)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			set = append(set, f.Interface())
		}
	}
	return set
}

func (s *Session) check() error {
	switch {
	case !named(s.ID, maxName) || !named(s.EventID, maxEvent):
		return errors.New("accrual: the id of a session or of its event is missing or too long")
	case !within(s.Score, 100) || !within(s.Coverage, 1):
		return fmt.Errorf("accrual: the score or coverage of the session %s is out of range or not rounded", s.ID)
	case !evidence.IsHash(s.ScoringHash):
		return fmt.Errorf("accrual: the session %s names no scoring formulas", s.ID)
	case s.Interactions < 0 || s.Interactions > maxWhole || s.Hosts == nil || len(s.Hosts) > MaxHosts ||
		s.Interactions > 0 && len(s.Hosts) == 0:
		return fmt.Errorf("accrual: the interactions and hosts of the session %s contradict each other", s.ID)
	}
	for i, host := range s.Hosts {
		if !named(host, maxName) || i > 0 && host <= s.Hosts[i-1] {
			return fmt.Errorf("accrual: the hosts of the session %s are not in ascending order", s.ID)
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

// checkAs checks a dispute that the agent wins by the outcome won. Only the winner gains points.
func (d *Dispute) checkAs(won string, outcomes ...string) error {
	switch {
	case !named(d.ID, maxName):
		return errors.New("accrual: the id of a dispute is missing or too long")
	case !slices.Contains(outcomes, d.Outcome):
		return fmt.Errorf("accrual: the dispute %s has the unknown outcome %.40q", d.ID, d.Outcome)
	case d.Bonus && d.Outcome != won:
		return fmt.Errorf("accrual: the dispute %s gives points to an agent that did not win it", d.ID)
	case (d.Other == "") != (d.About == "") || d.Other != "" && d.Outcome == "" || len(d.About) > maxName:
		return fmt.Errorf("accrual: the dispute %s must name its other agent and its subject exactly when it has ended", d.ID)
	case d.Other == "":
		return nil
	}
	_, err := ParseAgent(d.Other)
	return err
}

// maxWhole is the greatest integer that a double represents uniquely.
const maxWhole = 1<<53 - 1

func named(text string, longest int) bool { return text != "" && len(text) <= longest }

// within reports whether f is rounded and between 0 and most. It refuses NaN and -0.
func within(f, most float64) bool { return f >= 0 && f <= most && !math.Signbit(f) && f == Round(f) }
