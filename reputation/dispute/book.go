package dispute

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Book is what follows from the log of a node, as far as it was read. It forgets the details of what is over for 30 days: then nothing of it can come up again.
// Of each agent it keeps what it may do next, and which pairs have had a dispute with points. It is not safe for concurrent use.
type Book struct {
	log  accrual.Log
	last int64 // time of the last entry
	tree *compact.Range

	signals  map[string]*SignalState // by id
	disputes map[string]*State       // by id
	agents   map[string]*agent       // by id
	// contracts are challengers with the ids of their contracts, and substances the last dispute of each.
	contracts  map[[2]string]bool
	substances map[string]string
	pairs      map[[2]string]bool // of agents, in order, of which a dispute has given points
	cites      map[[2]string]bool // owners with the agents that they have cited
	running    map[string]bool    // ids of the signals that are not final
	unresolved map[string]bool    // ids of the disputes that are not resolved
	over       []past             // signals that are final and disputes that count, in the order in which they came to
}

// past is a signal or a dispute of which nothing more will come.
type past struct {
	at              int64
	signal, dispute string // one of them is empty
}

// SignalState is a signal as it stands.
type SignalState struct {
	Published
	At    int64 // when it was published
	Final bool
	// resolved are the disputes that end with the signal's window, in the order in which they were resolved.
	resolved []string
}

// State is a dispute as it stands.
type State struct {
	Opened
	At     int64 // when it was opened
	Status string
	// Resolved and the rest are there once it is resolved.
	Resolved   Resolved
	ResolvedAt int64
	Log        accrual.Log // with the entry that resolved it
	// Effective says that the accounts of both agents know. Until the window of its signal has closed, a resolution is provisional.
	Effective bool
}

// agent is what is kept of one agent.
type agent struct {
	open       int     // signals that are not final
	opened     []int64 // when it opened disputes, lately
	lost       []int64 // when it lost disputes that it had opened, lately
	fell       int64   // when it last lost a dispute in which it was accused, and that counts
	falls      []fall
	violations []violated
}

// fall is a dispute in which an agent was accused, and that the challenger has won: when it came to an end, and what the agent lost by.
type fall struct {
	at             int64
	faults, inputs []string
}

// violated is a violation that an agent has committed.
type violated struct {
	at       int64
	rule     string
	document string
}

// ended is a dispute that counts from an entry on.
type ended struct {
	dispute *State
	finding Finding // that counts
	// bonus says that the winner gains points: it is the pair's first dispute with a winner, and both have known and different owners.
	bonus bool
}

// Account is an entry for the log of an agent (package accrual).
type Account struct {
	Agent accrual.Agent
	Entry accrual.Entry
}

// Step is what an entry does: where the log stands then, and what is to be entered in the logs of agents, in the same transaction.
type Step struct {
	Entry    Entry
	Text     []byte // the entry's canonical JSON
	Log      accrual.Log
	Accounts []Account

	after accrual.Log // where the log stood
	ended []ended
}

// NewBook returns the empty log.
func NewBook() *Book {
	return &Book{
		log: accrual.Log{Head: evidence.HashBytes([]byte("dispute"))}, tree: (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0),
		signals: make(map[string]*SignalState), disputes: make(map[string]*State), agents: make(map[string]*agent), contracts: make(map[[2]string]bool),
		substances: make(map[string]string), pairs: make(map[[2]string]bool), cites: make(map[[2]string]bool), running: make(map[string]bool), unresolved: make(map[string]bool),
	}
}

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

// Log returns how far the log was read.
func (b *Book) Log() accrual.Log { return b.log }

// Root returns the Merkle tree head (RFC 6962 section 2.1, SHA-256) over the canonical JSON of the entries, in hex.
func (b *Book) Root() string {
	if b.tree.End() == 0 {
		return hex.EncodeToString(rfc6962.DefaultHasher.EmptyRoot())
	}
	root, err := b.tree.GetRootHash(nil)
	if err != nil {
		panic(err) // it fails only for a range that does not begin at 0
	}
	return hex.EncodeToString(root)
}

// Time returns the time that the next entry gets: now, and never before the last entry, whichever replica wrote that.
func (b *Book) Time(now time.Time) int64 { return max(now.Unix(), b.last) }

// Next says what an entry would do. It changes nothing, and refuses an entry that contradicts the log.
func (b *Book) Next(e Entry) (Step, error) {
	raw, err := e.Encode()
	if err != nil {
		return Step{}, err
	}
	return b.next(e, raw)
}

// Read is [Book.Next] of an entry as text, as the log keeps it.
func (b *Book) Read(raw []byte) (Step, error) {
	e, err := ParseEntry(raw)
	if err != nil {
		return Step{}, err
	}
	return b.next(e, raw)
}

// next says what an entry would do whose canonical JSON is raw.
func (b *Book) next(e Entry, raw []byte) (s Step, err error) {
	if e.At < b.last {
		return Step{}, fmt.Errorf("dispute: the entry is of a time before that of the last one")
	}
	if err := b.admits(e); err != nil {
		return Step{}, fmt.Errorf("dispute: %w", err)
	}
	s = Step{
		Entry: e, Text: raw, Log: accrual.Log{Entries: b.log.Entries + 1, Head: evidence.HashBytes(append([]byte(b.log.Head+"\n"), raw...))},
		after: b.log, ended: b.ending(e),
	}
	s.Accounts, err = b.accounts(e, s.ended)
	return s, err
}

// Add takes in one entry. The new head is the SHA-256 of the head before, a line feed, and the entry's canonical JSON. What Add refuses
// changes nothing.
func (b *Book) Add(e Entry) (Step, error) {
	s, err := b.Next(e)
	if err != nil {
		return s, err
	}
	return s, b.Take(s)
}

// Take takes in the entry of a step that [Book.Next] has returned. It refuses one after which the log has gone on.
func (b *Book) Take(s Step) error {
	if s.after != b.log {
		return errors.New("dispute: the step is not the next one of the log")
	}
	if err := b.tree.Append(rfc6962.DefaultHasher.HashLeaf(s.Text), nil); err != nil {
		panic(err) // it fails only for a tree with gaps
	}
	b.log, b.last = s.Log, s.Entry.At
	b.apply(s)
	b.forget()
	return nil
}

// Signal returns a signal that is not forgotten.
func (b *Book) Signal(id string) (SignalState, bool) {
	s, ok := b.signals[id]
	if !ok {
		return SignalState{}, false
	}
	return *s, true
}

// Dispute returns a dispute that is not forgotten.
func (b *Book) Dispute(id string) (State, bool) {
	d, ok := b.disputes[id]
	if !ok {
		return State{}, false
	}
	return *d, true
}

// Judged returns the hashes of what the target of a dispute had lost others by when the dispute was opened, for [NewTrial].
func (b *Book) Judged(id string) map[string]bool {
	all := make(map[string]bool)
	d := b.disputes[id]
	if d == nil {
		return all
	}
	for _, before := range b.falls(d.Target) {
		if before.at >= d.At {
			break
		}
		for _, hash := range before.inputs {
			all[hash] = true
		}
	}
	return all
}

// Closing returns the ids of the signals whose window has closed, and that are not final, in their order.
func (b *Book) Closing(now time.Time) (ids []string) {
	for id := range b.running {
		if b.signals[id].Closes <= b.Time(now) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Unresolved returns the ids of the disputes that are not resolved, in their order.
func (b *Book) Unresolved() []string { return slices.Sorted(maps.Keys(b.unresolved)) }

// of returns what is kept of an agent, which begins with it.
func (b *Book) of(id string) *agent {
	a := b.agents[id]
	if a == nil {
		a = new(agent)
		b.agents[id] = a
	}
	return a
}
