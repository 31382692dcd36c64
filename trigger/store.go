package trigger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
)

type store struct {
	db *sqlite.DB

	selectFacts, insertUse, countUse *sql.Stmt // prepared: every post needs them
}

func openStore(ctx context.Context, path string) (store, error) {
	db, err := sqlite.OpenDB(ctx, path, schema)
	if err != nil {
		return store{}, err
	}
	s := store{db: db}
	for _, p := range []struct {
		to    **sql.Stmt
		query string
	}{{&s.selectFacts, selectFacts + `WHERE id = ?`}, {&s.insertUse, insertUse}, {&s.countUse, countUse}} {
		if *p.to, err = db.Prepare(ctx, p.query); err != nil {
			return store{}, errors.Join(err, db.Close())
		}
	}
	return s, nil
}

// write runs do in a transaction (see [sqlite.DB.Write]). Database errors get a code.
func (s store) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	err := s.db.Write(ctx, do)
	var coded interface{ Code() string }
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return ledger.Unavailable("write the events", err)
}

// add stores an event, unless one of its single-use keys is known. known is then the event that used the key, or "".
func (s store) add(ctx context.Context, e Event, payload []byte, keys []string) (known string, fresh bool, err error) {
	e.Payload = nil
	raw, err := json.Marshal(e)
	if err != nil {
		return "", false, err
	}
	claimable := e.Verified() == nil
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		if known, fresh, err = see(tx, e.Source, e.ID, keys); !fresh {
			return err
		}
		_, err = tx.Exec(
			`INSERT INTO events (id, source, evidence, state, claimable, expires, event, payload) VALUES (?, ?,`+
				` ?, ?, ?, ?, ?, ?)`,
			e.ID, e.Source, e.EvidenceID, e.State, claimable, e.ExpiresAt.UnixMilli(), string(raw), payload)
		return err
	})
	return known, fresh, err
}

func (s store) see(ctx context.Context, source, id string, keys []string) (known string, fresh bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		known, fresh, err = see(tx, source, id, keys)
		return err
	})
	return known, fresh, err
}

// see uses all keys or none. If one is known, the others stay free: an attacker may have put another delivery's fresh
// id before an old body.
func see(tx *sql.Tx, source, id string, keys []string) (known string, fresh bool, err error) {
	for _, key := range keys {
		switch err := tx.QueryRow(`SELECT event FROM seen WHERE source = ? AND key = ?`, source, key).Scan(&known); {
		case err == nil:
			return known, false, nil
		case !errors.Is(err, sql.ErrNoRows):
			return "", false, err
		}
	}
	for _, key := range keys {
		if _, err := tx.Exec(`INSERT INTO seen (source, key, event) VALUES (?, ?, ?)`, source, key, id); err != nil {
			return "", false, err
		}
	}
	return "", true, nil
}

const (
	selectEvent = `SELECT event, state, claimed_by, payload FROM events `
	selectFacts = `SELECT event, state, claimed_by, NULL FROM events ` // without the payload
)

// scan reads an event, whose changing parts have their own columns.
func scan(scan func(...any) error, now time.Time) (Event, error) {
	var e Event
	var raw, payload []byte
	var state State
	var runtime string
	if err := scan(&raw, &state, &runtime, &payload); err != nil {
		return e, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, err
	}
	e.State, e.ClaimedBy, e.Payload = state, runtime, asJSON(payload)
	if (state == Received || state == Claimed) && !now.Before(e.ExpiresAt) {
		e.State = Expired // stored by the next sweep
	}
	return e, nil
}

func one(row *sql.Row, id string, now time.Time) (Event, error) {
	e, err := scan(row.Scan, now)
	if errors.Is(err, sql.ErrNoRows) {
		return e, refusal.New("not_found", "no event has the id %.80q", id)
	}
	return e, unread(err)
}

func unread(err error) error {
	if err == nil {
		return nil
	}
	return ledger.Unavailable("read the events", err)
}

func (s store) get(ctx context.Context, id string, now time.Time) (Event, error) {
	return one(s.db.Read().QueryRowContext(ctx, selectEvent+`WHERE id = ?`, id), id, now)
}

func (s store) list(ctx context.Context, limit int, now time.Time) ([]Event, error) {
	rows, err := s.db.Read().QueryContext(ctx, selectFacts+`ORDER BY seq DESC LIMIT ?`, limit)
	if err != nil {
		return nil, unread(err)
	}
	defer rows.Close()
	events := []Event{}
	for rows.Next() {
		e, err := scan(rows.Scan, now)
		if err != nil {
			return nil, unread(err)
		}
		events = append(events, e)
	}
	return events, unread(rows.Err())
}

const waiting = `WHERE state = 'received' AND claimable AND expires > ? ORDER BY seq LIMIT 1`

var errNothing = refusal.New("event_none", "no event waits for a runtime")

// find returns the event with this id, or the oldest waiting one if id is empty. It refuses an event that cannot open a
// session.
func find(query func(string, ...any) *sql.Row, id string, now time.Time) (e Event, err error) {
	if id != "" {
		e, err = one(query(selectEvent+`WHERE id = ?`, id), id, now)
	} else {
		e, err = scan(query(selectEvent+waiting, now.UnixMilli()).Scan, now)
		if errors.Is(err, sql.ErrNoRows) {
			return e, errNothing
		}
		err = unread(err)
	}
	if err != nil {
		return e, err
	}
	return e, e.claimable()
}

func (s store) claim(ctx context.Context, id, runtime string, now time.Time) (Event, error) {
	// Each new event wakes all waiting claims, most in vain. A read alone finds that out.
	read := func(query string, args ...any) *sql.Row { return s.db.Read().QueryRowContext(ctx, query, args...) }
	if _, err := find(read, id, now); err != nil {
		return Event{}, err
	}
	var e Event
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		if e, err = find(tx.QueryRow, id, now); err != nil {
			return err
		}
		e.State, e.ClaimedBy = Claimed, runtime
		_, err = tx.Exec(`UPDATE events SET state = ?, claimed_by = ? WHERE id = ?`, e.State, runtime, e.ID)
		return err
	})
	if err != nil {
		return Event{}, err
	}
	return e, nil
}

func (e Event) claimable() error {
	if err := e.Verified(); err != nil {
		return err
	}
	switch e.State {
	case Received:
		return nil
	case Expired:
		return tooOld(e)
	default:
		return refusal.New("event_closed", "the event %s has opened a session already", e.ID)
	}
}

func (e Event) payable() error {
	if err := e.Verified(); err != nil {
		return err
	}
	switch e.State {
	case Claimed:
		return nil
	case Expired:
		return tooOld(e)
	case Done:
		return refusal.New("event_closed", "the session of the event %s has ended", e.ID)
	default:
		return refusal.New("event_closed", "the event %s has opened no session", e.ID)
	}
}

func tooOld(e Event) error {
	return refusal.New("event_closed", "the event %s expired at %s", e.ID,
		e.ExpiresAt.UTC().Format(time.RFC3339))
}

const (
	// insertUse inserts nothing if the budget is spent or the binding is already paid for.
	insertUse = `INSERT INTO uses (event, action, binding)
		SELECT ?1, ?2, ?3 WHERE coalesce((SELECT posts FROM spent WHERE event = ?1 AND action = ?2), 0) < ?4
		ON CONFLICT DO NOTHING`
	countUse   = `INSERT INTO spent (event, action, posts) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET posts = posts + 1`
	deleteUse  = `DELETE FROM uses WHERE event = ? AND action = ? AND binding = ? AND NOT unsent`
	uncountUse = `UPDATE spent SET posts = posts - 1 WHERE event = ? AND action = ?`
)

// spend durably takes one post of an action from an event's budget. It returns the event without its payload.
func (s store) spend(ctx context.Context, id, action, binding string, budget int, now time.Time) (e Event, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		if e, err = one(tx.Stmt(s.selectFacts).QueryRow(id), id, now); err != nil {
			return err
		}
		if err := e.payable(); err != nil {
			return err
		}
		n, err := affected(tx.Stmt(s.insertUse).Exec(id, action, binding, budget))
		if err != nil {
			return err
		}
		if n == 0 {
			return refusal.New("event_closed",
				"the event %s has already paid for this post, or for all its %[3]d posts, of the action %.80[2]q", id, action,
				budget)
		}
		_, err = tx.Stmt(s.countUse).Exec(id, action)
		return err
	})
	return e, err
}

func (s store) giveBack(ctx context.Context, id, action, binding string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		n, err := affected(tx.Exec(deleteUse, id, action, binding))
		if n == 0 {
			return err
		}
		_, err = tx.Exec(uncountUse, id, action)
		return err
	})
}

// finish ends a session's hold on an event: for good (Done), or for another runtime to claim (Received), but the latter
// only if nothing was paid.
func (s store) finish(ctx context.Context, id, runtime string, to State, now time.Time) (Event, error) {
	var e Event
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		if e, err = one(tx.QueryRow(selectFacts+`WHERE id = ?`, id), id, now); err != nil {
			return err
		}
		switch {
		case e.ClaimedBy == "":
			return refusal.New("event_closed", "the event %s has opened no session", id)
		case e.ClaimedBy != runtime:
			return refusal.New("event_closed", "another runtime has claimed the event %s", id)
		case e.State == to || e.State == Expired:
			return nil
		case e.State != Claimed:
			return refusal.New("event_closed", "the session of the event %s has ended", id)
		}
		e.State = to
		if to == Received {
			var paid bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM uses WHERE event = ?)`, id).Scan(&paid); err != nil {
				return err
			}
			if paid {
				return refusal.New("event_closed", "the event %s has paid for a post, so no other session opens for it", id)
			}
			e.ClaimedBy = ""
		}
		_, err = tx.Exec(`UPDATE events SET state = ?, claimed_by = ? WHERE id = ?`, e.State, e.ClaimedBy, id)
		return err
	})
	return e, err
}

// pruneChunk bounds one transaction, so that posts do not wait long.
const pruneChunk = 256

// sweep expires old events, and forgets those that expired before before. It keeps single-use keys.
func (s store) sweep(ctx context.Context, now, before time.Time) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE events SET state = 'expired' WHERE state IN ('received', 'claimed') AND expires <= ?`,
			now.UnixMilli())
		return err
	})
	if err != nil {
		return err
	}
	for n := int64(pruneChunk); n == pruneChunk; {
		if n, err = s.prune(ctx, before); err != nil {
			return err
		}
	}
	return nil
}

func (s store) prune(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		const oldest = `FROM events WHERE expires <= ? ORDER BY expires, seq LIMIT ?`
		for _, table := range []string{"uses", "spent"} {
			if _, err = tx.Exec(`DELETE FROM `+table+` WHERE event IN (SELECT id `+oldest+`)`, before.UnixMilli(),
				pruneChunk); err != nil {
				return err
			}
		}
		n, err = affected(tx.Exec(`DELETE FROM events WHERE seq IN (SELECT seq `+oldest+`)`, before.UnixMilli(), pruneChunk))
		return err
	})
	return n, err
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
