package trigger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

var migrations = []string{`
CREATE TABLE events (
	seq      INTEGER PRIMARY KEY,
	id       TEXT NOT NULL UNIQUE,
	source   TEXT NOT NULL,
	evidence TEXT NOT NULL,      -- good for one event of its source
	state    TEXT NOT NULL,
	expires  INTEGER NOT NULL,   -- Unix milliseconds
	event    TEXT NOT NULL,      -- the whole Event, JSON
	UNIQUE (source, evidence)
);
CREATE INDEX events_waiting ON events (seq) WHERE state = 'received';
CREATE TABLE spent (
	event  TEXT NOT NULL,
	action TEXT NOT NULL,
	number INTEGER NOT NULL,
	PRIMARY KEY (event, action, number)
) WITHOUT ROWID;
`}

// store keeps events durably in an SQLite file of its own.
type store struct{ db *ledger.DB }

// add keeps an event. The second event with the same evidence of the same source is not kept; known is then the first one's id.
func (s store) add(ctx context.Context, e Event) (known string, err error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		r, err := tx.Exec(`INSERT INTO events (id, source, evidence, state, expires, event) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (source, evidence) DO NOTHING`,
			e.ID, e.Source, e.EvidenceID, e.State, e.ExpiresAt.UnixMilli(), string(raw))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return tx.QueryRow(`SELECT id FROM events WHERE source = ? AND evidence = ?`, e.Source, e.EvidenceID).Scan(&known)
	})
	return known, err
}

func (s store) get(ctx context.Context, id string) (Event, error) {
	return scanEvent(s.db.Read().QueryRowContext(ctx, `SELECT event FROM events WHERE id = ?`, id), id)
}

func scanEvent(row *sql.Row, id string) (Event, error) {
	var e Event
	var raw []byte
	if err := row.Scan(&raw); errors.Is(err, sql.ErrNoRows) {
		return e, evidence.Refuse("event_unknown", "no event has the id %.80q", id)
	} else if err != nil {
		return e, err
	}
	return e, json.Unmarshal(raw, &e)
}

// list returns the newest events.
func (s store) list(ctx context.Context, limit int) ([]Event, error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT event FROM events ORDER BY seq DESC LIMIT ?`, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	events := []Event{}
	for rows.Next() {
		var raw []byte
		var e Event
		if err := errors.Join(rows.Scan(&raw), json.Unmarshal(raw, &e)); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

// errNothing means that no event waits.
var errNothing = errors.New("trigger: no event waits")

// claim gives the event with this id, or the oldest that waits and can stand behind a post where id is empty, to a runtime. Each
// event is given once.
func (s store) claim(ctx context.Context, id, runtime string, now time.Time) (Event, error) {
	var e Event
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		var err error
		if id != "" {
			e, err = scanEvent(tx.QueryRow(`SELECT event FROM events WHERE id = ?`, id), id)
		} else {
			e, err = oldest(tx, now)
		}
		switch {
		case err != nil:
			return err
		case !now.Before(e.ExpiresAt):
			return expired(e)
		case e.State != Received:
			return evidence.Refuse("event_claimed", "the event %s has opened a session already", e.ID)
		}
		if err := e.Verified(); err != nil {
			return err
		}
		e.State, e.ClaimedBy = Claimed, runtime
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE events SET state = ?, event = ? WHERE id = ?`, e.State, string(raw), e.ID)
		return err
	})
	return e, err
}

// oldest finds the oldest event that waits and that a session may be opened for.
func oldest(tx *sql.Tx, now time.Time) (Event, error) {
	rows, err := tx.Query(`SELECT event FROM events WHERE state = 'received' AND expires > ? ORDER BY seq`, now.UnixMilli())
	if err != nil {
		return Event{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		var e Event
		if err := errors.Join(rows.Scan(&raw), json.Unmarshal(raw, &e)); err != nil {
			return Event{}, err
		}
		if e.Verified() == nil {
			return e, nil
		}
	}
	return Event{}, errors.Join(rows.Err(), errNothing)
}

func expired(e Event) error {
	return evidence.Refuse("event_expired", "the event %s has been too old since %s", e.ID, e.ExpiresAt.UTC().Format(time.RFC3339))
}

// spend takes one post of an action from an event's budget. It is durable when it returns.
func (s store) spend(ctx context.Context, id, action string, budget int) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		var used int
		if err := tx.QueryRow(`SELECT count(*) FROM spent WHERE event = ? AND action = ?`, id, action).Scan(&used); err != nil {
			return err
		}
		if used >= budget {
			return evidence.Refuse("event_budget_spent", "the event %s has paid for its %d post(s) of the action %.80q", id, budget, action)
		}
		_, err := tx.Exec(`INSERT INTO spent (event, action, number) VALUES (?, ?, ?)`, id, action, used+1)
		return err
	})
}
