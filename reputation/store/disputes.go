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

// Turn has the log of disputes for itself. It stores what it takes when it ends.
type Turn struct {
	*dispute.Book
	ctx       context.Context
	db        *db.DB
	taken     []dispute.Step
	entries   map[string][]string // for the logs of agents
	documents map[string]string
}

const addingStep = "add to the log of disputes"

// Turn lets do add to the log of disputes. Turns of all replicas come one after the other.
func (s *Store) Turn(ctx context.Context, do func(*Turn) error) error {
	var turn Turn
	begin := func(ctx context.Context) (err error) {
		turn = Turn{ctx: ctx, db: s.db, entries: make(map[string][]string), documents: make(map[string]string)}
		rows := &state{ctx, s.db, s.db.Locked()}
		if turn.Book, err = dispute.Open(rows); err != nil { // other turns wait here
			return err
		}
		rows.locked = ""
		return do(&turn)
	}
	if s.db.Locked() == "" { // a file has one process, whose other writes need not wait while do judges
		s.turns.Lock()
		defer s.turns.Unlock()
		if err := begin(ctx); err != nil {
			return err
		}
		return s.db.Write(ctx, addingStep, turn.store)
	}
	return s.db.Write(ctx, addingStep, func(t db.Tx) error {
		if err := begin(t.Context()); err != nil {
			return err
		}
		return turn.store(t)
	})
}

// Context returns a context whose reads of the store, and of its clock, wait for no connection.
func (t *Turn) Context() context.Context { return t.ctx }

// Look returns the state as it is at each reading.
func (s *Store) Look(ctx context.Context) dispute.Rows { return &state{ctx, s.db, ""} }

type state struct {
	ctx    context.Context
	db     *db.DB
	locked string // the end of a query whose rows are locked; see [db.DB.Locked]
}

const readingState = "read the state of the log of disputes"

func (s *state) Read(ids ...string) ([]dispute.Stored, error) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return !db.Storable(id) })
	if len(ids) == 0 {
		return nil, nil
	}
	is, argument := `= $1`, any(ids[0])
	if len(ids) > 1 {
		is, argument = s.db.List(ids)
		is = `IN ` + is
	}
	return db.Many[dispute.Stored](s.ctx, s.db, readingState, `SELECT id, text FROM state WHERE id `+is+s.locked, argument)
}

func (s *state) Queued(queue string, until int64, most int) ([]dispute.Waiting, error) {
	return db.Many[dispute.Waiting](s.ctx, s.db, readingState,
		`SELECT id, due FROM state WHERE queue = $1 AND queue <> '' AND due <= $2 ORDER BY due, id LIMIT $3`,
		queue, until, most)
}

func (s *state) Since(at int64) ([]string, error) {
	return db.Many[string](s.ctx, s.db, readingState, `SELECT id FROM state WHERE at > $1`, at)
}

// Add adds an entry of the log with its documents. A refused entry changes nothing.
func (t *Turn) Add(e dispute.Entry, documents ...Document) error {
	s, err := t.Next(e)
	if err != nil {
		return err
	}
	return t.Take(s, documents...)
}

// Take adds a step that [dispute.Book.Next] returned for the current state of the log, with its documents, or nothing.
func (t *Turn) Take(s dispute.Step, documents ...Document) error {
	texts := make([]string, len(s.Accounts))
	for i, a := range s.Accounts {
		text, err := a.Entry.Encode()
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	if err := t.Book.Take(s); err != nil {
		return err
	}
	for i, a := range s.Accounts {
		t.entries[a.Agent.String()] = append(t.entries[a.Agent.String()], texts[i])
	}
	t.taken = append(t.taken, s)
	for _, d := range documents {
		t.documents[d.ID] = d.Text
	}
	return nil
}

// Taken returns the steps that the turn has taken.
func (t *Turn) Taken() []dispute.Step { return t.taken }

func joined(hashes []tlog.Hash) (all []byte) {
	for _, h := range hashes {
		all = append(all, h[:]...)
	}
	return all
}

func (t *Turn) store(tx db.Tx) error {
	if len(t.taken) == 0 {
		return nil
	}
	var steps, state, documents [][]any
	for _, s := range t.taken {
		steps = append(steps, []any{s.Log.Entries, string(s.Text), joined(s.Completed)})
	}
	n, err := tx.Insert(`INSERT INTO steps (number, step, completed)`, steps)
	if err != nil || n != int64(len(steps)) {
		return cmp.Or(err, ErrMoved)
	}
	for _, r := range t.Changed() {
		text, err := json.Marshal(r.Value)
		if err != nil {
			return err
		}
		state = append(state, []any{r.ID, string(text), r.At, r.Queue, r.Due})
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

// Steps returns the texts of entries of the log of disputes, from a number (from 1) on, at most [MaxEntries].
func (s *Store) Steps(ctx context.Context, from int64, limit int) ([]string, error) {
	return db.Many[string](ctx, s.db, "read the log of disputes",
		`SELECT step FROM steps WHERE number >= $1 ORDER BY number LIMIT $2`, from, min(limit, MaxEntries))
}

// Completed returns the hash at a place of what each of these entries, in order, has completed in the log's tree.
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
