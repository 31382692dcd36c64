package dispute

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/actionproof/mediator/translog"
)

// Rows keep the state of a book, which follows from the log: in [Memory], or in a database beside the log, where each
// entry is stored with the rows that it changes. So nothing must be replayed, and an audit replays in memory and
// compares.
type Rows interface {
	// Row reads the value of a row into v, a pointer, and reports whether there is such a row.
	Row(id string, v any) (found bool, err error)
	// Put adds or replaces a row. Later calls see it; it is stored with the caller's transaction.
	Put(Row) error
	// Queued returns rows of a queue that are due, the earliest first, at most most. Rows that were put meanwhile may be
	// missing, or have left the queue.
	Queued(queue string, until int64, most int) ([]Waiting, error)
	// Since returns the ids of the rows with a later At, and no others: a replay has other transactions.
	Since(at int64) (ids []string, err error)
}

// Row is one row of a book's state.
type Row struct {
	Waiting
	Value any    // stored as JSON
	At    int64  // time of the entry that put it; Unix seconds
	Queue string // where it waits, or empty
}

// Waiting is a row in a queue.
type Waiting struct {
	ID  string
	Due int64 // Unix seconds
}

// Queues of rows.
const (
	queueSignals  = "signals"  // open signals until their window closes
	queueReceipts = "receipts" // unresolved disputes that receipts decide, until their deadline
	queueGeneral  = "general"  // the others, until their deadline; due at once if an arbiter has voted
	queueAppeals  = "appeals"  // resolved disputes until the end of the time to appeal
)

// Kinds of rows, the first parts of their ids.
const (
	RowLog       = "log" // of the log itself
	rowSignal    = "signal/"
	rowDispute   = "dispute/"
	rowAgent     = "agent/"
	rowOwner     = "owner/"
	rowSubstance = "substance/" // names the last dispute of a substance
	rowContract  = "contract/"  // of a challenger
	rowPair      = "pair/"      // of agents with a dispute that has given points
	rowCite      = "cite/"      // of an owner, and an agent that it has cited
)

// RowsOf returns the ids of rows that a step about a signal, a dispute and agents reads. Others cost a query each.
func RowsOf(signal, dispute string, agents ...string) []string {
	ids := []string{rowSignal + signal, rowDispute + dispute}
	for _, a := range agents {
		ids = append(ids, rowAgent+a, rowOwner+OwnerOf(a))
	}
	return ids
}

// state is the row of the log itself.
type state struct {
	Tree translog.Tree `json:"tree"`
	Last int64         `json:"last"` // time of the last entry
}

// load reads a row into v. After an error, which [Book.Err] returns, all rows are missing.
func (b *Book) load(id string, v any) bool {
	if b.err != nil {
		return false
	}
	found, err := b.rows.Row(id, v)
	if err != nil {
		b.err = fmt.Errorf("dispute: the row %.200q of the log's state: %w", id, err)
		return false
	}
	return found
}

func (b *Book) has(id string) bool { return b.load(id, new(any)) }

func (b *Book) save(id string, v any, queue string, due int64) {
	b.err = errors.Join(b.err, b.rows.Put(Row{Waiting{id, due}, v, b.state.Last, queue}))
}

func loaded[V any](b *Book, id string) *V {
	v := new(V)
	if !b.load(id, v) {
		return nil
	}
	return v
}

// signal returns a signal, or nil.
func (b *Book) signal(id string) *SignalState { return loaded[SignalState](b, rowSignal+id) }

// dispute returns a dispute, or nil.
func (b *Book) dispute(id string) *State { return loaded[State](b, rowDispute+id) }

func (b *Book) saveSignal(s *SignalState) {
	queue := queueSignals
	if s.Final {
		queue = ""
	}
	b.save(rowSignal+s.SignalID, *s, queue, s.Closes)
}

func (b *Book) saveDispute(d *State) {
	queue, due := "", d.Deadline
	switch {
	case d.Appealable:
		queue, due = queueAppeals, d.Resolved.AppealUntil
	case d.Status == StatusResolved:
	case d.Type != TypeGeneral:
		queue = queueReceipts
	default:
		queue = queueGeneral
		if len(d.Votes) > 0 {
			due = 0
		}
	}
	b.save(rowDispute+d.DisputeID, *d, queue, due)
}

// changeSignal and changeDispute change what [Book.admits] has found.
func (b *Book) changeSignal(id string, change func(*SignalState)) {
	if s := b.signal(id); s != nil {
		change(s)
		b.saveSignal(s)
	}
}

func (b *Book) changeDispute(id string, change func(*State)) {
	if d := b.dispute(id); d != nil {
		change(d)
		b.saveDispute(d)
	}
}

func (b *Book) agent(id string) (p party) {
	b.load(rowAgent+id, &p)
	return p
}

// change changes the row of an agent or owner.
func (b *Book) change(row string, change func(*party)) {
	var p party
	b.load(row, &p)
	change(&p)
	b.save(row, p, "", 0)
}

// queued returns the ids of what waits in a queue, and is still due.
func (b *Book) queued(queue, kind string, until int64, most int) (ids []Waiting) {
	ids, err := b.rows.Queued(queue, until, most)
	b.err = errors.Join(b.err, err)
	for i := range ids {
		ids[i].ID = strings.TrimPrefix(ids[i].ID, kind)
	}
	return ids
}

// Memory keeps rows in memory. It is not safe for concurrent use.
type Memory struct {
	rows   map[string]Row
	queues map[string]map[string]int64 // due, by id
}

// NewMemory returns the rows of the empty log.
func NewMemory() *Memory {
	return &Memory{rows: make(map[string]Row), queues: make(map[string]map[string]int64)}
}

// Row implements [Rows].
func (m *Memory) Row(id string, v any) (bool, error) {
	r, ok := m.rows[id]
	if ok {
		reflect.ValueOf(v).Elem().Set(reflect.ValueOf(r.Value))
	}
	return ok, nil
}

// Put implements [Rows].
func (m *Memory) Put(r Row) error {
	delete(m.queues[m.rows[r.ID].Queue], r.ID)
	if m.rows[r.ID] = r; r.Queue == "" {
		return nil
	}
	if m.queues[r.Queue] == nil {
		m.queues[r.Queue] = make(map[string]int64)
	}
	m.queues[r.Queue][r.ID] = r.Due
	return nil
}

// Queued implements [Rows].
func (m *Memory) Queued(queue string, until int64, most int) (all []Waiting, _ error) {
	for id, due := range m.queues[queue] {
		if due <= until {
			all = append(all, Waiting{id, due})
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(most, len(all))], nil
}

// Since implements [Rows].
func (m *Memory) Since(at int64) (ids []string, _ error) {
	for id, r := range m.rows {
		if r.At > at {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
