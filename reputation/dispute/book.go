// Package dispute holds the rules by which agents publish signals and dispute each other (seed 002, and seed 003's
// challenge protocol; docs/disputes.md). It has no clock, store or network: the same log always gives the same state.
//
//	document.go  signals, contracts and challenges
//	entry.go     the entries of the log
//	book.go      the log and its state; rows.go its rows; apply.go one entry
//	file.go      the checks of an incoming signal or filing
//	standing.go  what an agent can lose, and how agents share bounds
//	arbiters.go  panels of arbiters and appeals
//	judge.go     trials; timing.go and consistency.go (with knowledge) the rules of each type
//	decide.go    what ends signals and disputes, and a wrong time
//	token.go     the tokens: resolution, arbiter's decision
package dispute

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/translog"
)

// Book is the state of a node's log. It keeps the rows that it reads or changes. It is not safe for concurrent use.
type Book struct {
	stored Rows // nil if all rows are in memory
	rows   map[string]*row
	state  state
	err    error // of the stored rows
}

// SignalState is a signal and its state.
type SignalState struct {
	Published
	Number int64 // of its entry
	At     int64
	Final  bool
	// Resolved are the disputes that take effect when the window closes, in the order of their resolution.
	Resolved []string
}

// State is a dispute and its state.
type State struct {
	Opened
	Number int64 // of the entry that opened it
	At     int64
	Since  int64 // of its deadline: when it was opened, or appealed
	Status string
	Votes  []Voted // of the panel that decides now
	// Appealed says that the second panel decides, and Appeal is the hash of the document that asked for it.
	Appealed bool
	Appeal   string
	// The rest is set once the dispute is resolved.
	Resolved   Resolved
	ResolvedAt int64
	Log        accrual.Log // including the entry that resolved it
	Appealable bool        // now
	// Effective says that the logs of both agents have the outcome. Before, it is provisional.
	Effective bool
}

// party is what is known of an agent, or of an owner for all its agents: these have tallies alone.
type party struct {
	Registered int64      `json:"registered,omitempty"` // as of its last document
	From       int64      `json:"from,omitempty"`       // see [Book.Standing]: the standing is the time since then
	Acted      int64      `json:"acted,omitempty"`      // when From was set
	Fell       int64      `json:"fell,omitempty"`       // when it last lost an effective dispute as the accused
	Falls      []fall     `json:"falls,omitempty"`
	Violations []violated `json:"violations,omitempty"`
	Open       tally      `json:"open,omitzero"`     // signals
	Accusing   tally      `json:"accusing,omitzero"` // unresolved disputes that it has opened
}

type fall struct {
	At      int64    `json:"at"`
	Dispute string   `json:"dispute"`
	Faults  []string `json:"faults"`
}

type violated struct {
	At       int64  `json:"at"`
	Rule     string `json:"rule"`
	Document string `json:"document"`
}

// ended is a dispute that takes effect with an entry.
type ended struct {
	dispute *State  // before the entry
	found   Finding // by those who resolved it
	finding Finding // that counts
	lost    bool    // the target, even if it does not count
	bonus   bool    // the winner gains points: the pair's first decided dispute, between known and different owners
}

// Account is an entry for the log of an agent.
type Account struct {
	Agent accrual.Agent
	Entry accrual.Entry
}

// Step is the effect of an entry: the new state of the log and the entries for agents' logs, in one transaction.
type Step struct {
	Entry    Entry
	Text     []byte
	Log      accrual.Log
	Accounts []Account
	// Completed are the hashes that the entry completes: see [translog.Tree.With].
	Completed []tlog.Hash

	tree  translog.Tree
	after accrual.Log
	ended []ended
}

// NewBook returns the empty log, in memory.
func NewBook() *Book { return &Book{rows: make(map[string]*row)} }

// Open returns the book with these rows. It reads [RowLog] alone, and first.
func Open(stored Rows) (*Book, error) {
	b := NewBook()
	b.stored = stored
	b.state = *cmp.Or(loaded[state](b, RowLog), new(state))
	return b, b.err
}

// Err returns why rows could not be read. Then the other results are wrong, and nothing may be stored.
func (b *Book) Err() error { return b.err }

// Replay returns the book of a whole log.
func Replay(entries []Entry) (*Book, error) {
	b := NewBook()
	for i, e := range entries {
		if _, err := b.Add(e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return b, nil
}

// Log returns the state of the log. Its head is the root of [Book.Tree], in hex.
func (b *Book) Log() accrual.Log { return logOf(b.state.Tree) }

// Tree returns the tree over the entries' canonical JSON.
func (b *Book) Tree() translog.Tree { return b.state.Tree }

func logOf(t translog.Tree) accrual.Log {
	head := t.Head()
	return accrual.Log{Entries: head.Size, Head: hex.EncodeToString(head.Root[:])}
}

// Time returns the time for the next entry: now, but never before the last one. Only [Book.SetBack] lowers it.
func (b *Book) Time(now time.Time) int64 { return max(now.Unix(), b.state.Last) }

// Next returns the effect of an entry without changing anything. It refuses an entry that contradicts the log.
func (b *Book) Next(e Entry) (Step, error) {
	raw, err := e.Encode()
	if err != nil {
		return Step{}, err
	}
	return b.next(e, raw)
}

// Read is [Book.Next] for the canonical text of an entry.
func (b *Book) Read(raw []byte) (Step, error) {
	e, err := ParseEntry(raw)
	if err != nil {
		return Step{}, err
	}
	return b.next(e, raw)
}

func (b *Book) next(e Entry, raw []byte) (s Step, err error) {
	if e.At < b.state.Last && e.SetBack == nil {
		return Step{}, fmt.Errorf("dispute: the entry is older than the last one")
	}
	if err := b.admits(e); err != nil {
		return Step{}, fmt.Errorf("dispute: %w", err)
	}
	s = Step{Entry: e, Text: raw, after: b.Log(), ended: b.ending(e)}
	s.tree, s.Completed = b.state.Tree.With(raw)
	s.Log = logOf(s.tree)
	s.Accounts, err = b.accounts(e, s.ended)
	return s, errors.Join(err, b.err)
}

// Add adds one entry. A refused entry changes nothing.
func (b *Book) Add(e Entry) (Step, error) {
	s, err := b.Next(e)
	if err != nil {
		return s, err
	}
	return s, b.Take(s)
}

// Take applies a step that [Book.Next] returned for the current state of the log.
func (b *Book) Take(s Step) error {
	if s.after != b.Log() {
		return errors.New("dispute: the step is not the next one of the log")
	}
	b.state = state{s.tree, s.Entry.At}
	b.apply(s)
	b.save(RowLog, b.state, "", 0)
	return b.err
}

// Signal returns a signal.
func (b *Book) Signal(id string) (SignalState, bool) { return valueOf(b.signal(id)) }

// Dispute returns a dispute.
func (b *Book) Dispute(id string) (State, bool) { return valueOf(b.dispute(id)) }

func valueOf[T any](p *T) (v T, ok bool) {
	if p != nil {
		v = *p
	}
	return v, p != nil
}

// Provisional reports whether an outcome can change or does not count yet: the signal is open, or an appeal possible.
func (b *Book) Provisional(d State) bool { return d.Appealable || !b.closed(d.SignalID) }

// Judged returns the hashes of the evidence by which the dispute's target had lost before: see [NewTrial].
func (b *Book) Judged(id string) map[string]bool {
	all := make(map[string]bool)
	d := b.dispute(id)
	if d == nil {
		return all
	}
	for _, before := range b.agent(d.Target).Falls {
		if before.At >= d.At {
			break
		}
		if lost := b.dispute(before.Dispute); lost != nil {
			for _, hash := range lost.Resolved.Inputs {
				all[hash] = true
			}
		}
	}
	return all
}

// Closing returns the open signals whose window has closed, the earliest first, at most most.
func (b *Book) Closing(now time.Time, most int) []Waiting {
	return b.queued(queueSignals, rowSignal, b.Time(now), most)
}

// Untried returns the unresolved disputes that receipts decide, with their deadlines.
func (b *Book) Untried(most int) []Waiting {
	return b.queued(queueReceipts, rowDispute, math.MaxInt64, most)
}

// checked returns the entry that a signal makes in its agent's log once it is final.
func (s *SignalState) checked() *accrual.Signal {
	of, err := accrual.ParseAgent(s.Agent)
	return &accrual.Signal{
		ID: s.SignalID, Trace: s.Basis == BasisObserved, Sources: s.Sources, Context: err == nil && of.Owner != "",
		Verification: s.Registered > 0,
		Timestamp:    off(s.At, s.Written) <= seconds(MaxAge), Schema: true,
	}
}

func off(one, other int64) int64 { return max(one-other, other-one) }

// about returns the disputed signal, else the lowest disputed receipt, else the filing.
func (d *State) about() string {
	first := ""
	if len(d.Receipts) > 0 {
		first = slices.Min(d.Receipts)
	}
	return cmp.Or(d.SignalID, first, d.Document)
}
