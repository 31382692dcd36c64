// Package ledger keeps, durably, which single-use keys have been used, and the record of every call.
//
// What it promises: a key is consumed by exactly one caller, for good, before anything rests on it; the intent to forward a post is
// durable in the same transaction, before its first byte goes out; and a post whose outcome a crash has taken away is shown as
// indeterminate, never sent again.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"time"
)

// Key is one single-use key: the jti of an artifact, or what else may be used once.
type Key struct {
	Kind string
	ID   string
	// Expires is when the artifact behind the key is refused by itself; the key is kept for longer than that.
	Expires time.Time
}

// Check refuses a key that lacks something: nothing could be consumed by it.
func (k Key) Check() error {
	if k.Kind == "" || k.ID == "" || k.Expires.IsZero() {
		return Unavailable("consume", errors.New("a key lacks its kind, id or expiry"))
	}
	return nil
}

// Options configures a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention is how long a record is kept; zero keeps it for ever.
	Retention time.Duration
}

// Store is what every ledger offers, whatever it is kept in. Each is safe for concurrent use.
type Store interface {
	// Consume records keys as used, all or none. For each key exactly one caller ever gets nil, and only once that survives a crash;
	// every other caller gets a [*ConsumedError]. After any other error count the keys as consumed.
	Consume(ctx context.Context, keys ...Key) error
	// Begin consumes keys as Consume does and records the intent to forward r, in one transaction. Only after nil may the first byte
	// go out.
	Begin(ctx context.Context, r Record, keys ...Key) error
	// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. The whole record is replaced, except
	// for its artifacts: those that Begin was given stay. It succeeds once; for a post that has not begun, or has an outcome, it
	// returns [ErrState].
	Finish(ctx context.Context, r Record) error
	// Add keeps a whole record at once: of a refusal, or of a call that needs no evidence. A post in flight is Begin's: for one,
	// and for a state that there is not, it returns [ErrState].
	Add(ctx context.Context, r Record) error
	// Write does Finish for outcomes and Add for records, all in one transaction or none.
	Write(ctx context.Context, outcomes, records []Record) error
	// Get returns the record with this id, or the only one whose id begins with it.
	Get(ctx context.Context, id string) (Record, error)
	// List returns records, the one that started last first.
	List(ctx context.Context, q Query) ([]Record, error)
	// Prune removes consumed keys whose artifacts expired over a day ago, and records older than the retention. It never removes a
	// post in flight. The caller decides when; ctx may end it at any point.
	//
	// A key that has been removed is not free again. Should the clock have been wrong, and an artifact live once more, Consume refuses
	// every key that expires no later than one that was removed.
	Prune(ctx context.Context, now time.Time) error
	// Close makes what has been accepted durable and closes the ledger; every further write gets [ErrClosed].
	Close() error
}

// Ledger is the [Store] in one SQLite file, for one process.
type Ledger struct {
	db *DB
	o  Options

	// Prepared once, because every call needs them.
	insertKey, insertPost, insertArtifacts, updatePost *sql.Stmt

	// forgotten is the latest expiry, in Unix seconds, of a key that Prune has removed. It belongs to the writer: only functions
	// that are passed to db.Write use it.
	forgotten int64
}

// Open opens or creates the ledger at path, as [OpenDB] does. Posts that an earlier process left in flight become
// indeterminate, because they may have been sent.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Now == nil {
		return nil, errors.New("ledger: a clock is required")
	}
	db, err := OpenDB(ctx, path, schema)
	if err != nil {
		return nil, err
	}
	l := &Ledger{db: db, o: o, forgotten: math.MinInt64}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func (l *Ledger) start(ctx context.Context) (err error) {
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&l.insertKey, insertKey}, {&l.insertPost, insertPost},
		{&l.insertArtifacts, insertArtifacts}, {&l.updatePost, updatePost},
	} {
		if *s.to, err = l.db.Prepare(ctx, s.query); err != nil {
			return err
		}
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return errors.Join(l.recall(tx), l.settle(tx)) })
}

// settle marks the posts that were in flight when the process ended.
func (l *Ledger) settle(tx *sql.Tx) error {
	where, args := Query{State: StateForwarding}.where() // by its index: a start must not read every record
	inFlight, err := Scan(tx.Query(selectPost+`WHERE `+where, args...))
	if err != nil {
		return err
	}
	for _, r := range inFlight {
		if err := l.update(tx, r.Lost(l.o.Now())); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// Consume consumes keys: see [Store].
func (l *Ledger) Consume(ctx context.Context, keys ...Key) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.consume(tx, keys) })
}

// Begin consumes keys and records an intent: see [Store].
func (l *Ledger) Begin(ctx context.Context, r Record, keys ...Key) error {
	r.State = StateForwarding
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		if err := l.consume(tx, keys); err != nil {
			return err
		}
		return l.insert(tx, r)
	})
}

// Finish records an outcome: see [Store].
func (l *Ledger) Finish(ctx context.Context, r Record) error { return l.Write(ctx, []Record{r}, nil) }

// Add keeps a whole record: see [Store].
func (l *Ledger) Add(ctx context.Context, r Record) error { return l.Write(ctx, nil, []Record{r}) }

// Write finishes posts and adds records: see [Store].
func (l *Ledger) Write(ctx context.Context, outcomes, records []Record) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		for _, r := range outcomes {
			if err := l.update(tx, r); err != nil {
				return err
			}
		}
		for _, r := range records {
			if !r.State.Whole() {
				return ErrState
			}
			if err := l.insert(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// insert inserts a record.
func (l *Ledger) insert(tx *sql.Tx, r Record) error {
	record, artifacts, err := r.Encode()
	if err := errors.Join(r.Check(), err); err != nil {
		return err
	}
	_, err = tx.Stmt(l.insertPost).Exec(r.ID, r.Flow, r.State, r.Session, r.Started.UnixMilli(), record)
	if err == nil && artifacts != "" {
		_, err = tx.Stmt(l.insertArtifacts).Exec(artifacts)
	}
	if err != nil {
		return Unavailable("write the record", err)
	}
	return nil
}

// update replaces the record of a post that is in flight by its outcome, except for its artifacts.
func (l *Ledger) update(tx *sql.Tx, r Record) error {
	if !r.State.Outcome() {
		return ErrState
	}
	r.Artifacts = nil
	record, _, err := r.Encode()
	if err != nil {
		return err
	}
	n, err := affected(tx.Stmt(l.updatePost).Exec(r.State, record, r.ID))
	if err != nil {
		return Unavailable("write the record", err)
	}
	if n != 1 {
		return ErrState
	}
	return nil
}

// consume inserts keys.
func (l *Ledger) consume(tx *sql.Tx, keys []Key) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		if k.Expires.Unix() <= l.forgotten {
			return Forgotten(k)
		}
		_, err := tx.Stmt(l.insertKey).Exec(timeFirst(k.ID), k.Kind, k.Expires.Unix())
		switch {
		case isConstraint(err):
			return &ConsumedError{k}
		case err != nil:
			return Unavailable("consume", err)
		}
	}
	return nil
}

// timeFirst returns the id as the file keeps it. An artifact's id is its issuer, a space and a jti, which begins with the
// time. timeFirst puts the issuer last, so that the keys of one post lie in one page of the index and not in nine. It
// gives no two ids the same form.
func timeFirst(id string) string {
	if issuer, jti, ok := strings.Cut(id, " "); ok {
		return jti + " " + issuer
	}
	return id
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
