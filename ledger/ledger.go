// Package ledger keeps, durably, which single-use keys have been used, and the record of every call.
//
// What it promises: a key is consumed by exactly one caller, for good, before anything rests on it; the intent to forward a post is
// durable in the same transaction, before its first byte goes out; and a post whose outcome a crash has taken away is shown as
// indeterminate, never sent again.
package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// Key is one single-use key: the jti of an artifact, or what else may be used once.
type Key struct {
	Kind string
	ID   string
	// Expires is when the artifact behind the key is refused by itself; the key is kept for longer than that.
	Expires time.Time
}

// Options configures a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention is how long a record is kept; zero keeps it for ever.
	Retention time.Duration
}

// Ledger is the record in one SQLite file. It is safe for concurrent use.
type Ledger struct {
	db *DB
	o  Options

	// Prepared once: every post needs them.
	insertKey, insertPost, updatePost *sql.Stmt

	// forgotten is the latest expiry, in Unix seconds, of a key that Prune has removed. The writer owns it: it is touched in the
	// closures of Write only.
	forgotten int64
}

// Open opens or creates the ledger at path, as [OpenDB] does. Posts that an earlier process left in flight become indeterminate:
// nobody knows whether they were sent.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Now == nil {
		return nil, errors.New("ledger: a clock is required")
	}
	db, err := OpenDB(ctx, path, migrations)
	if err != nil {
		return nil, err
	}
	l := &Ledger{db: db, o: o, forgotten: math.MinInt64}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func (l *Ledger) start(ctx context.Context) error {
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{{&l.insertKey, insertKey}, {&l.insertPost, insertPost}, {&l.updatePost, updatePost}} {
		var err error
		if *s.to, err = l.db.write.PrepareContext(ctx, s.query); err != nil {
			return unavailable("prepare", err)
		}
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return errors.Join(l.recall(tx), l.settle(tx)) })
}

// settle marks posts that were in flight when the process ended.
func (l *Ledger) settle(tx *sql.Tx) error {
	posts, err := scan(tx.Query(`SELECT record FROM posts WHERE state = ?`, StateForwarding))
	if err != nil {
		return err
	}
	for _, p := range posts {
		p.State, p.Code, p.Step = StateIndeterminate, "indeterminate", "forward"
		p.Reason = "the mediator ended while the post was in flight; it may have been sent, and is not sent again"
		p.Finished = l.o.Now()
		if err := l.update(tx, p); err != nil {
			return err
		}
	}
	return nil
}

// Close makes what has been accepted durable and closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// Consume records keys as used, all or none. For each key exactly one caller ever gets nil, and only once that survives a crash;
// every other caller gets a [*ConsumedError]. After any other error count the keys as consumed.
func (l *Ledger) Consume(ctx context.Context, keys ...Key) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.consume(tx, keys) })
}

// Begin consumes keys as [Ledger.Consume] does and records the intent to forward p, in one transaction. Only after nil may the
// first byte go out.
func (l *Ledger) Begin(ctx context.Context, p Post, keys ...Key) error {
	p.State = StateForwarding
	record, err := encode(p)
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		if err := l.consume(tx, keys); err != nil {
			return err
		}
		return l.insert(tx, p, record)
	})
}

// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. It succeeds once; for a post that has
// not begun, or has an outcome, it returns [ErrState].
func (l *Ledger) Finish(ctx context.Context, p Post) error {
	switch p.State {
	case StateForwarded, StateFailed, StateIndeterminate:
	default:
		return ErrState
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.update(tx, p) })
}

// Record keeps a whole record at once: of a refusal, or of a call that needs no evidence. A post in flight is [Ledger.Begin]'s:
// for one, and for a state that there is not, it returns [ErrState].
func (l *Ledger) Record(ctx context.Context, p Post) error {
	switch p.State {
	case StateRefused, StateForwarded, StateFailed, StateIndeterminate:
	default:
		return ErrState
	}
	record, err := encode(p)
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.insert(tx, p, record) })
}

func (l *Ledger) consume(tx *sql.Tx, keys []Key) error {
	insert := tx.Stmt(l.insertKey)
	for _, k := range keys {
		switch {
		case k.Kind == "" || k.ID == "" || k.Expires.IsZero():
			return unavailable("consume", errors.New("a key lacks its kind, id or expiry"))
		case k.Expires.Unix() <= l.forgotten:
			return unavailable("consume", fmt.Errorf("the %s expired before what the ledger still remembers: is the clock right?", k.Kind))
		}
		n, err := affected(insert.Exec(k.Kind, k.ID, k.Expires.Unix()))
		if err != nil {
			return unavailable("consume", err)
		}
		if n != 1 {
			return &ConsumedError{k}
		}
	}
	return nil
}

func (l *Ledger) insert(tx *sql.Tx, p Post, record string) error {
	if p.ID == "" || p.Started.IsZero() {
		return unavailable("write the record", errors.New("it lacks its id or start"))
	}
	if _, err := tx.Stmt(l.insertPost).Exec(p.ID, p.Flow, p.State, p.Session, p.Started.UnixMilli(), record); err != nil {
		return unavailable("write the record", err)
	}
	return nil
}

// update replaces the record of a post that is in flight.
func (l *Ledger) update(tx *sql.Tx, p Post) error {
	record, err := encode(p)
	if err != nil {
		return err
	}
	n, err := affected(tx.Stmt(l.updatePost).Exec(p.State, record, p.ID))
	if err != nil {
		return unavailable("write the record", err)
	}
	if n != 1 {
		return ErrState
	}
	return nil
}

func encode(p Post) (string, error) {
	record, err := json.Marshal(p)
	if err != nil {
		return "", unavailable("write the record", err)
	}
	return string(record), nil
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
