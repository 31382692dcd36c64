package dispute

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/translog"
)

// Book is the state of a node's log. It forgets details 30 days after their end, but keeps each agent's standing and the
// pairs whose disputes have given points. It is not safe for concurrent use.
type Book struct {
	log  accrual.Log // of tree
	last int64
	tree translog.Tree

	signals    map[string]*SignalState
	disputes   map[string]*State
	agents     map[string]*agent
	contracts  map[[2]string]bool // challengers with the ids of their contracts
	substances map[string]string  // the last dispute of each substance
	pairs      map[[2]string]bool // ordered pairs of agents with a dispute that has given points
	cites      map[[2]string]bool // owners with the agents that they have cited
	running    map[string]bool
	unresolved map[string]bool
	appealable map[string]bool // disputes that count once the time to appeal is over
	open       tally           // running signals
	accusing   tally           // unresolved disputes of challengers
	over       []past          // final signals and effective disputes, in order
}

type past struct {
	at              int64
	signal, dispute string // one of them
}

// SignalState is a signal and its state.
type SignalState struct {
	Published
	At    int64
	Final bool
	// resolved are the disputes that take effect when the window closes, in the order of their resolution.
	resolved []string
}

// State is a dispute and its state.
type State struct {
	Opened
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
	// Effective says that the logs of both agents have the outcome. Until the signal's window closes, and the time to
	// appeal is over, it is provisional.
	Effective bool
}

type agent struct {
	registered int64 // as of its last document
	from       int64 // see [Book.Standing]: the standing is the time since then
	acted      int64 // when from was set
	fell       int64 // when it last lost an effective dispute as the accused
	falls      []fall
	violations []violated
}

type fall struct {
	at             int64
	faults, inputs []string
}

type violated struct {
	at       int64
	rule     string
	document string
}

// ended is a dispute that takes effect with an entry.
type ended struct {
	dispute *State
	finding Finding // that counts
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

	after accrual.Log
	ended []ended
}

// NewBook returns the empty log.
func NewBook() *Book {
	return &Book{
		log:     logOf(translog.Tree{}),
		signals: make(map[string]*SignalState), disputes: make(map[string]*State), agents: make(map[string]*agent),
		contracts:  make(map[[2]string]bool),
		substances: make(map[string]string), pairs: make(map[[2]string]bool), cites: make(map[[2]string]bool),
		running: make(map[string]bool), unresolved: make(map[string]bool), appealable: make(map[string]bool),
		open: make(tally), accusing: make(tally),
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

// Log returns the state of the log. Its head is the root of [Book.Tree], in hex.
func (b *Book) Log() accrual.Log { return b.log }

// Tree returns the tree over the entries' canonical JSON. It stays valid when the book goes on.
func (b *Book) Tree() translog.Tree { return b.tree }

func logOf(t translog.Tree) accrual.Log {
	head := t.Head()
	return accrual.Log{Entries: head.Size, Head: hex.EncodeToString(head.Root[:])}
}

// Time returns the time for the next entry: now, but never before the last entry, even if another replica wrote that.
// Only [Book.SetBack] lowers it.
func (b *Book) Time(now time.Time) int64 { return max(now.Unix(), b.last) }

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
	if e.At < b.last && e.SetBack == nil {
		return Step{}, fmt.Errorf("dispute: the entry is older than the last one")
	}
	if err := b.admits(e); err != nil {
		return Step{}, fmt.Errorf("dispute: %w", err)
	}
	s = Step{
		Entry: e, Text: raw,
		Log: logOf(b.tree.With(raw)), after: b.log, ended: b.ending(e),
	}
	s.Accounts, err = b.accounts(e, s.ended)
	return s, err
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
	if s.after != b.log {
		return errors.New("dispute: the step is not the next one of the log")
	}
	b.tree, b.log, b.last = b.tree.With(s.Text), s.Log, s.Entry.At
	b.apply(s)
	b.forget()
	return nil
}

// Signal returns a signal that is not forgotten.
func (b *Book) Signal(id string) (SignalState, bool) {
	return valueOf(b.signals[id])
}

// Dispute returns a dispute that is not forgotten.
func (b *Book) Dispute(id string) (State, bool) {
	return valueOf(b.disputes[id])
}

func valueOf[T any](p *T) (v T, ok bool) {
	if p != nil {
		v = *p
	}
	return v, p != nil
}

// Judged returns the hashes of the evidence by which the dispute's target had already lost other disputes: see
// [NewTrial].
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

// Closing returns the sorted ids of the open signals whose window has closed.
func (b *Book) Closing(now time.Time) []string {
	return due(b.running, func(id string) bool { return b.signals[id].Closes <= b.Time(now) })
}

// Unappealed returns the sorted ids of the disputes that the loser can no longer appeal.
func (b *Book) Unappealed(now time.Time) []string {
	return due(b.appealable, func(id string) bool { return b.disputes[id].Resolved.AppealUntil <= b.Time(now) })
}

func due(ids map[string]bool, is func(id string) bool) (all []string) {
	for id := range ids {
		if is(id) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// Unresolved returns the sorted ids of the unresolved disputes.
func (b *Book) Unresolved() []string { return slices.Sorted(maps.Keys(b.unresolved)) }

func (b *Book) of(id string) *agent {
	a := b.agents[id]
	if a == nil {
		a = new(agent)
		b.agents[id] = a
	}
	return a
}
