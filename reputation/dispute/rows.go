package dispute

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/translog"
)

// Rows are the stored rows of a book's state. The state follows from the log, and each entry is stored with the rows
// that it changes. So nothing must be replayed, and an audit replays and compares.
type Rows interface {
	// Read returns those of the rows that there are.
	Read(ids ...string) ([]Stored, error)
	// Queued returns rows of a queue that are due, the earliest first, at most most.
	Queued(queue string, until int64, most int) ([]Waiting, error)
	// Since returns the ids of the rows with a later At.
	Since(at int64) (ids []string, err error)
}

// Stored is a row as it is stored: its value as JSON, or nothing.
type Stored struct{ ID, Text string }

// Row is one row of a book's state.
type Row struct {
	Waiting
	Value any
	At    int64  // time of the entry that put it; Unix seconds
	Queue string // where it waits, or empty
}

// Waiting is a row in a queue.
type Waiting struct {
	ID  string
	Due int64 // Unix seconds
}

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

// row is a row that a book has read or changed. It has neither a text nor a value if there is no such row.
type row struct {
	Row
	text    string // until the value is needed
	changed bool
}

// Fetch reads rows that are needed soon, which costs less than one after the other.
func (b *Book) Fetch(ids ...string) error {
	if b.stored == nil || b.err != nil {
		return b.err
	}
	var missing []string
	for _, id := range ids {
		if b.rows[id] == nil {
			b.rows[id] = new(row)
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var found []Stored
	found, b.err = b.stored.Read(missing...)
	for _, r := range found {
		b.rows[r.ID].text = r.Text
	}
	return b.err
}

// loaded returns the value of a row, or nil. After an error, which [Book.Err] returns, all rows are missing.
func loaded[V any](b *Book, id string) *V {
	if !b.has(id) {
		return nil
	}
	r, v := b.rows[id], new(V)
	if r.Value != nil {
		*v = r.Value.(V)
		return v
	}
	if err := json.Unmarshal([]byte(r.text), v); err != nil {
		b.err = fmt.Errorf("dispute: the row %.200q of the log's state: %w", id, err)
		return nil
	}
	r.Value, r.text = *v, ""
	return v
}

func (b *Book) has(id string) bool {
	if b.Fetch(id) != nil {
		return false
	}
	r := b.rows[id]
	return r != nil && (r.Value != nil || r.text != "")
}

func (b *Book) save(id string, v any, queue string, due int64) {
	b.rows[id] = &row{Row: Row{Waiting{id, due}, v, b.state.Last, queue}, changed: true}
}

// Changed returns the rows that entries have changed, in the order of their ids.
func (b *Book) Changed() (all []Row) {
	for _, id := range slices.Sorted(maps.Keys(b.rows)) {
		if r := b.rows[id]; r.changed {
			all = append(all, r.Row)
		}
	}
	return all
}

func (b *Book) signal(id string) *SignalState { return loaded[SignalState](b, rowSignal+id) }

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

func (b *Book) agent(id string) party { return *cmp.Or(loaded[party](b, rowAgent+id), new(party)) }

func (b *Book) change(row string, change func(*party)) {
	p := cmp.Or(loaded[party](b, row), new(party))
	change(p)
	b.save(row, *p, "", 0)
}

// queued returns what waits in a queue of one kind of rows and is due, the earliest first, at most most.
func (b *Book) queued(queue, kind string, until int64, most int) (all []Waiting) {
	if b.stored != nil {
		var err error
		all, err = b.stored.Queued(queue, until, most)
		b.err = errors.Join(b.err, err)
		all = slices.DeleteFunc(all, func(w Waiting) bool { return b.changed(w.ID) })
	}
	for _, r := range b.rows {
		if r.changed && r.Queue == queue && r.Due <= until {
			all = append(all, r.Waiting)
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID)) })
	all = all[:min(most, len(all))]
	for i := range all {
		all[i].ID = strings.TrimPrefix(all[i].ID, kind)
	}
	return all
}

func (b *Book) since(at int64) (ids []string) {
	if b.stored != nil {
		var err error
		ids, err = b.stored.Since(at)
		b.err = errors.Join(b.err, err)
		ids = slices.DeleteFunc(ids, b.changed)
	}
	for id, r := range b.rows {
		if r.changed && r.At > at {
			ids = append(ids, id)
		}
	}
	return ids
}

func (b *Book) changed(id string) bool { return b.rows[id] != nil && b.rows[id].changed }

// citeRow names the owner of an agent, and an agent that it cites.
func citeRow(by, of string) string {
	if a, err := accrual.ParseAgent(by); err == nil {
		by = a.Owner
	}
	return rowCite + by + " " + of
}
