// Package accrual computes the reputation of an agent from its log of scored sessions and ended disputes (seed 003:
// Reputation Accrual), and R, its rating (seed 002). It has no clock, store or network: the same log always gives the
// same reputation and rating, byte for byte.
//
//	entry.go           the entries of the log; form.go their form
//	account.go         the log
//	reputation.go      the reputation; points.go its part of disputes; token.go its token
//	rating.go          the rating; inputs.go what it is computed from, and factors.go how
//
// A reputation is a likelihood. It never proves that no human was involved.
package accrual

import (
	"fmt"
	"reflect"

	"github.com/actionproof/mediator/evidence"
)

// Account is the log of one agent; its reputation and its rating follow from it. It is not safe for concurrent use.
type Account struct {
	agent    Agent
	formulas string // hash of the formulas whose scores count
	log      Log
	first    int64    // time of the first entry
	events   []*event // in the order of their first sessions
	byEvent  map[string]*event
	eventOf  map[string]string // event id by session id
	disputes map[string]side
	points   []points // in order
	flagged  int      // events before the last lost dispute; they no longer count

	recorded
	rating  Rating
	changed bool  // since the last midnight
	last    int64 // time of the last entry
}

type event struct{ sessions []scored }

type scored struct {
	Session
	at int64
}

// Log identifies a state of a log.
type Log struct {
	Entries int64  `json:"entries" form:"count"`
	Head    string `json:"head" form:"hash"`
}

// Empty returns the empty log of the agent with this id. Its head is the SHA-256 of the id.
func Empty(agent string) Log { return Log{Head: evidence.HashBytes([]byte(agent))} }

// With returns the log with one more entry. The new head is the SHA-256 of the old head, a line feed, and the entry's
// canonical JSON.
func (l Log) With(entry []byte) Log {
	return Log{Entries: l.Entries + 1, Head: evidence.HashBytes(append([]byte(l.Head+"\n"), entry...))}
}

// NewAccount returns the empty log of an agent. Only scores by the formulas with this hash count.
func NewAccount(agent Agent, formulas string) (*Account, error) {
	if err := agent.check(); err != nil {
		return nil, err
	}
	a := &Account{
		agent: agent, formulas: formulas, log: Empty(agent.String()), recorded: recorded{citedBy: make(owners)},
		byEvent: make(map[string]*event), eventOf: make(map[string]string), disputes: make(map[string]side),
	}
	a.rating.Lacks = a.lacks()
	return a, nil
}

// Replay returns the account of a whole log.
func Replay(agent Agent, entries []Entry, formulas string) (*Account, error) {
	a, err := NewAccount(agent, formulas)
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		if _, err := a.Add(e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return a, nil
}

// Log returns how far the log was read.
func (a *Account) Log() Log { return a.log }

// Add adds one entry and reports whether it says anything new. It refuses a contradicting entry.
func (a *Account) Add(e Entry) (added bool, err error) {
	raw, err := e.Encode()
	if err != nil {
		return false, err
	}
	before := *a
	a.reach(e.At)
	switch {
	case e.Session != nil:
		added, err = a.addSession(*e.Session, e.At)
	case e.Raised != nil:
		added, err = a.addDispute(Dispute(*e.Raised), true)
	case e.Dispute != nil:
		added, err = a.addDispute(*e.Dispute, false)
	default:
		added = true
	}
	if err != nil || !added {
		*a = before
		return false, err
	}
	if a.log.Entries == 0 {
		a.first = e.At
	}
	a.record(e, a.last)
	a.changed = true
	a.log = a.log.With(raw)
	return true, nil
}

func (a *Account) addSession(s Session, at int64) (bool, error) {
	if of, known := a.eventOf[s.ID]; known {
		if of != s.EventID {
			return false, fmt.Errorf("accrual: the session %s belongs to another event than %.80q", s.ID, s.EventID)
		}
		return a.byEvent[of].replace(s, at), nil
	}
	a.eventOf[s.ID] = s.EventID
	of, known := a.byEvent[s.EventID]
	if !known {
		of = new(event)
		a.byEvent[s.EventID] = of
		a.events = append(a.events, of)
	}
	of.sessions = append(of.sessions, scored{s, at})
	return true, nil
}

func (e *event) replace(s Session, at int64) bool {
	for i := range e.sessions {
		old := &e.sessions[i]
		if old.ID != s.ID {
			continue
		}
		if reflect.DeepEqual(old.Session, s) {
			return false
		}
		*old = scored{s, at}
		return true
	}
	return false
}
