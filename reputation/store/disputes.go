package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
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
	put       map[string]written // or read, then without an id
	steps     [][]any
	entries   map[string][]string // for the logs of agents
	documents map[string]string
}

type written struct {
	dispute.Row
	text string // the JSON of its value, or empty
}

const (
	logRow     = ` WHERE id = '` + dispute.RowLog + `'`
	addingStep = "add to the log of disputes"
)

// Turn lets do add to the log of disputes. Turns of all replicas come one after the other.
func (s *Store) Turn(ctx context.Context, do func(*Turn) error) error {
	turn := &Turn{put: make(map[string]written), entries: make(map[string][]string),
		documents: make(map[string]string)}
	if s.db.Locked() == "" { // a file has one process, whose other writes need not wait while do judges
		s.turns.Lock()
		defer s.turns.Unlock()
		turn.state = s.look(ctx)
		if err := do(turn); err != nil {
			return err
		}
		return s.db.Write(ctx, addingStep, turn.store)
	}
	return s.db.Write(ctx, addingStep, func(t db.Tx) error {
		turn.state = func(query string, args ...any) ([]record, error) { return db.ManyIn[record](t, query, args...) }
		if _, err := turn.state(selectState + logRow + s.db.Locked()); err != nil { // other turns wait here
			return err
		}
		if err := do(turn); err != nil {
			return err
		}
		return turn.store(t)
	})
}

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
	text, err := s.text(id)
	if err != nil {
		return false, err
	}
	return decode(text, v)
}

func (s state) text(id string) (text string, err error) {
	if !db.Storable(id) {
		return "", nil
	}
	rows, err := s(selectState+` WHERE id = $1`, id)
	for _, r := range rows {
		text = r.Text
	}
	return text, err
}

// decode reads the text of a row, which is empty if there is none.
func decode(text string, v any) (found bool, err error) {
	if text == "" {
		return false, nil
	}
	return true, json.Unmarshal([]byte(text), v)
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
	w, ok := t.put[id]
	if !ok {
		if w.text, err = t.text(id); err != nil {
			return false, err
		}
		t.put[id] = w
	}
	return decode(w.text, v)
}

// Put implements [dispute.Rows].
func (t *Turn) Put(r dispute.Row) error {
	text, err := json.Marshal(r.Value)
	t.put[r.ID] = written{r, string(text)}
	return err
}

// Since implements [dispute.Rows].
func (t *Turn) Since(at int64) ([]string, error) {
	ids, err := t.state.Since(at)
	for id, r := range t.put {
		if r.At > at && !slices.Contains(ids, id) {
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
	var completed []byte
	for _, h := range s.Completed {
		completed = append(completed, h[:]...)
	}
	t.steps = append(t.steps, []any{s.Log.Entries, string(s.Text), completed})
	for _, d := range documents {
		t.documents[d.ID] = d.Text
	}
	return nil
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
			state = append(state, []any{r.ID, r.text, r.At, r.Queue, r.Due})
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
	for _, agent := range slices.Sorted(maps.Keys(t.entries)) {
		if err := enterNext(tx, agent, t.entries[agent]); err != nil {
			return err
		}
	}
	return nil
}

const selectLast = `SELECT number, head FROM entries WHERE agent = $1 ORDER BY number DESC LIMIT 1`

// enterNext adds entries to the log of an agent, behind those that a replica may be entering.
func enterNext(t db.Tx, agent string, texts []string) error {
	for len(texts) > 0 {
		last, err := db.ManyIn[accrual.Log](t, selectLast, agent)
		if err != nil {
			return err
		}
		log := accrual.Empty(agent)
		if len(last) > 0 {
			log = last[0]
		}
		log = log.With([]byte(texts[0]))
		switch err := enter(t, Entry{agent, log.Entries, log.Head, texts[0]}); {
		case err == nil:
			texts = texts[1:]
		case !errors.Is(err, ErrMoved):
			return err
		}
	}
	return nil
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
