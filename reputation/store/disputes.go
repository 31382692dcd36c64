package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Document is a signed document of a signal or dispute. A later one with the same id replaces it.
type Document struct{ ID, Text string }

// Turn has the log of disputes for itself. It keeps what it adds until it ends.
type Turn struct {
	state
	ctx       context.Context
	db        *db.DB
	put       map[string]kept // or read, then without an id
	steps     [][]any
	entries   map[string][]string // for the logs of agents
	documents map[string]string
}

// kept is a row whose value is read from its JSON when it is needed. It has neither if there is no such row.
type kept struct {
	dispute.Row
	text string
}

const addingStep = "add to the log of disputes"

// Turn lets do add to the log of disputes. Turns of all replicas come one after the other.
func (s *Store) Turn(ctx context.Context, do func(*Turn) error) error {
	turn := &Turn{db: s.db, put: make(map[string]kept), entries: make(map[string][]string),
		documents: make(map[string]string)}
	if s.db.Locked() == "" { // a file has one process, whose other writes need not wait while do judges
		s.turns.Lock()
		defer s.turns.Unlock()
		turn.ctx, turn.state = ctx, s.look(ctx)
		if err := do(turn); err != nil {
			return err
		}
		return s.db.Write(ctx, addingStep, turn.store)
	}
	return s.db.Write(ctx, addingStep, func(t db.Tx) error {
		turn.ctx = t.Context()
		turn.state = s.look(turn.ctx)
		if err := turn.read(` WHERE id = $1`+s.db.Locked(), dispute.RowLog); err != nil { // other turns wait here
			return err
		}
		if err := do(turn); err != nil {
			return err
		}
		return turn.store(t)
	})
}

// Context returns a context whose reads of the store, and of its clock, wait for no connection.
func (t *Turn) Context() context.Context { return t.ctx }

// Look returns the state as it is at each reading. It cannot be changed.
func (s *Store) Look(ctx context.Context) dispute.Rows { return s.look(ctx) }

func (s *Store) look(ctx context.Context) state {
	return func(query string, args ...any) ([]record, error) {
		return db.Many[record](ctx, s.db, "read the state of the log of disputes", query, args...)
	}
}

// state reads the rows that are stored.
type state func(query string, args ...any) ([]record, error)

type record struct {
	ID, Text string
	Due      int64
}

const selectState = `SELECT id, text, due FROM state`

// Row implements [dispute.Rows].
func (s state) Row(id string, v any) (found bool, err error) {
	if !db.Storable(id) {
		return false, nil
	}
	rows, err := s(selectState+` WHERE id = $1`, id)
	if err != nil || len(rows) == 0 || rows[0].Text == "" {
		return false, err
	}
	return true, json.Unmarshal([]byte(rows[0].Text), v)
}

// Put implements [dispute.Rows].
func (state) Put(dispute.Row) error { return nil }

// Queued implements [dispute.Rows].
func (s state) Queued(queue string, until int64, most int) (all []dispute.Waiting, _ error) {
	rows, err := s(`SELECT id, '', due FROM state WHERE queue = $1 AND queue <> '' AND due <= $2
ORDER BY due, id LIMIT $3`, queue, until, most)
	for _, r := range rows {
		all = append(all, dispute.Waiting{ID: r.ID, Due: r.Due})
	}
	return all, err
}

// Since implements [dispute.Rows].
func (s state) Since(at int64) (ids []string, _ error) {
	rows, err := s(`SELECT id FROM state WHERE at > $1`, at)
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids, err
}

// Row implements [dispute.Rows].
func (t *Turn) Row(id string, v any) (found bool, err error) {
	if err := t.Fetch(id); err != nil {
		return false, err
	}
	r, into := t.put[id], reflect.ValueOf(v).Elem()
	switch {
	case r.Value != nil:
		into.Set(reflect.ValueOf(r.Value))
	case r.text == "":
		return false, nil
	default:
		if err := json.Unmarshal([]byte(r.text), v); err != nil {
			return false, err
		}
		if into.Kind() != reflect.Interface { // a reader that only asks whether it is there
			r.Value = into.Interface()
			t.put[id] = r
		}
	}
	return true, nil
}

// Fetch reads rows that are needed soon, which costs less than one after the other.
func (t *Turn) Fetch(ids ...string) error {
	missing := make(map[string]bool)
	for _, id := range ids {
		if _, ok := t.put[id]; !ok && db.Storable(id) {
			missing[id] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	list, argument := t.db.List(slices.Collect(maps.Keys(missing)))
	if err := t.read(` WHERE id IN `+list, argument); err != nil {
		return err // another call of the turn must not find that they are not there
	}
	for id := range missing {
		if _, ok := t.put[id]; !ok {
			t.put[id] = kept{}
		}
	}
	return nil
}

func (t *Turn) read(where string, args ...any) error {
	rows, err := t.state(selectState+where, args...)
	for _, r := range rows {
		t.put[r.ID] = kept{text: r.Text}
	}
	return err
}

// Put implements [dispute.Rows].
func (t *Turn) Put(r dispute.Row) error {
	t.put[r.ID] = kept{Row: r}
	return nil
}

// Since implements [dispute.Rows].
func (t *Turn) Since(at int64) ([]string, error) {
	ids, err := t.state.Since(at)
	ids = slices.DeleteFunc(ids, func(id string) bool { return t.put[id].ID != "" })
	for id, r := range t.put {
		if r.ID != "" && r.At > at {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Add adds an entry of the log with the entries for agents' logs, or nothing.
func (t *Turn) Add(s dispute.Step, documents ...Document) error {
	texts := make([]string, len(s.Accounts))
	for i, a := range s.Accounts {
		text, err := a.Entry.Encode()
		if err != nil {
			return err // nothing was added
		}
		texts[i] = string(text)
	}
	for i, a := range s.Accounts {
		t.entries[a.Agent.String()] = append(t.entries[a.Agent.String()], texts[i])
	}
	t.steps = append(t.steps, []any{s.Log.Entries, string(s.Text), joined(s.Completed)})
	for _, d := range documents {
		t.documents[d.ID] = d.Text
	}
	return nil
}

func joined(hashes []tlog.Hash) (all []byte) {
	for _, h := range hashes {
		all = append(all, h[:]...)
	}
	return all
}

func (t *Turn) store(tx db.Tx) error {
	if len(t.steps) == 0 {
		return nil
	}
	n, err := tx.Insert(`INSERT INTO steps (number, step, completed)`, t.steps)
	if err != nil || n != int64(len(t.steps)) {
		return cmp.Or(err, ErrMoved)
	}
	var state, documents [][]any
	for _, id := range slices.Sorted(maps.Keys(t.put)) {
		if r := t.put[id]; r.ID != "" {
			text, err := json.Marshal(r.Value)
			if err != nil {
				return err
			}
			state = append(state, []any{r.ID, string(text), r.At, r.Queue, r.Due})
		}
	}
	for id, text := range t.documents {
		documents = append(documents, []any{id, text})
	}
	if err := tx.Replace(`INSERT INTO state (id, text, at, queue, due)`, `(id) DO UPDATE SET text = excluded.text,
		at = excluded.at, queue = excluded.queue, due = excluded.due`, state); err != nil {
		return err
	}
	if err := tx.Replace(`INSERT INTO documents (id, text)`, `(id) DO UPDATE SET text = excluded.text`,
		documents); err != nil {
		return err
	}
	return t.enter(tx)
}

// enter adds entries to the logs of agents: to each log one at a time, behind those that a replica may be entering.
func (t *Turn) enter(tx db.Tx) error {
	entries := maps.Clone(t.entries) // a file's transaction can be repeated
	tried := make(map[string]accrual.Log)
	for len(entries) > 0 {
		agents := slices.Sorted(maps.Keys(entries))
		last, err := t.lastOf(tx, agents)
		if err != nil {
			return err
		}
		var rows [][]any
		for _, agent := range agents {
			if last[agent] == tried[agent] { // it was added
				entries[agent] = entries[agent][1:]
			}
			if len(entries[agent]) == 0 {
				delete(entries, agent)
				continue
			}
			next := last[agent].With([]byte(entries[agent][0]))
			tried[agent] = next
			rows = append(rows, []any{agent, next.Entries, next.Head, entries[agent][0]})
		}
		if _, err := tx.Insert(`INSERT INTO entries (agent, number, head, entry)`, rows); err != nil {
			return err
		}
	}
	return nil
}

// lastOf returns the states of agents' logs.
func (t *Turn) lastOf(tx db.Tx, agents []string) (map[string]accrual.Log, error) {
	list, argument := t.db.List(agents)
	found, err := db.ManyIn[Entry](tx, `SELECT e.agent, e.number, e.head FROM `+list+` AS l
		JOIN entries AS e ON e.agent = l.value AND e.number = (SELECT max(number) FROM entries WHERE agent = l.value)`,
		argument)
	all := make(map[string]accrual.Log, len(agents))
	for _, agent := range agents {
		all[agent] = accrual.Empty(agent)
	}
	for _, one := range found {
		all[one.Agent] = accrual.Log{Entries: one.Number, Head: one.Head}
	}
	return all, err
}

// Steps returns the texts of the entries of the log of disputes from a number on, in order, at most limit and at most
// [MaxEntries]. They are numbered from 1.
func (s *Store) Steps(ctx context.Context, from int64, limit int) ([]string, error) {
	return db.Many[string](ctx, s.db, "read the log of disputes",
		`SELECT step FROM steps WHERE number >= $1 ORDER BY number LIMIT $2`, from, min(limit, MaxEntries))
}

// Completed returns the hash at this place of what each of these entries has completed in the tree of the log. The
// numbers are in ascending order.
func (s *Store) Completed(ctx context.Context, place int, numbers []int64) ([]tlog.Hash, error) {
	args := []any{place*tlog.HashSize + 1, tlog.HashSize}
	for _, n := range numbers {
		args = append(args, n)
	}
	rows, err := db.Many[[]byte](ctx, s.db, "read the tree of the log of disputes",
		`SELECT substr(completed, $1, $2) FROM steps WHERE number IN (`+db.Places(3, len(numbers))+`) ORDER BY number`,
		args...)
	if err != nil {
		return nil, err
	}
	all := make([]tlog.Hash, len(numbers))
	for i := range all {
		if i >= len(rows) || copy(all[i][:], rows[i]) != tlog.HashSize {
			return nil, errors.New("store: the tree of the log lacks a hash")
		}
	}
	return all, nil
}

// Document returns the document with this id, or [ErrNotFound].
func (s *Store) Document(ctx context.Context, id string) (string, error) {
	return db.One[string](ctx, s.db, "read the document", `SELECT text FROM documents WHERE id = $1`, id)
}
