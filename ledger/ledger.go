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
	"slices"
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
	// Begin consumes keys as Consume does and records the intent to forward p, in one transaction. Only after nil may the first byte
	// go out.
	Begin(ctx context.Context, p Record, keys ...Key) error
	// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. The whole record is replaced, except
	// for its artifacts: those that Begin was given stay. It succeeds once; for a post that has not begun, or has an outcome, it
	// returns [ErrState].
	Finish(ctx context.Context, p Record) error
	// Record keeps a whole record at once: of a refusal, or of a call that needs no evidence. A post in flight is Begin's: for one,
	// and for a state that there is not, it returns [ErrState].
	Add(ctx context.Context, p Record) error
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

	// Prepared once: every post needs them.
	insertPost                  *Insert
	insertArtifacts, updatePost *sql.Stmt
	insertKeys                  [maxKeys + 1]*sql.Stmt // as many as their index

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
	type prepared struct {
		to    **sql.Stmt
		query string
	}
	all := []prepared{{&l.insertArtifacts, insertArtifacts}, {&l.updatePost, updatePost}}
	for n := 1; n <= maxKeys; n++ {
		all = append(all, prepared{&l.insertKeys[n], insertKey + strings.Repeat(", (?, ?, ?)", n-1)})
	}
	for _, s := range all {
		var err error
		if *s.to, err = l.db.Prepare(ctx, s.query); err != nil {
			return err
		}
	}
	var err error
	if l.insertPost, err = l.db.PrepareInsert(ctx, insertPost, postColumns); err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return errors.Join(l.recall(tx), l.settle(tx)) })
}

// settle marks posts that were in flight when the process ended.
func (l *Ledger) settle(tx *sql.Tx) error {
	where, args := Query{State: StateForwarding}.where() // by its index: a start must not read every record
	posts, err := Scan(tx.Query(selectPost+`WHERE `+where, args...))
	if err != nil {
		return err
	}
	for _, p := range posts {
		p = p.Lost(l.o.Now())
		record, err := p.Whole() // an older schema may have had the artifacts in it
		if err != nil {
			return err
		}
		if err := l.update(tx, p, record); err != nil {
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
func (l *Ledger) Begin(ctx context.Context, p Record, keys ...Key) error {
	p.State = StateForwarding
	record, err := p.Outcome()
	if err != nil {
		return err
	}
	row, err := rowOf(p, record)
	if err != nil {
		return err
	}
	// Nothing runs any more of a Write that has returned, so the artifacts, which are large, need not be a text of their own.
	return lend(func(w *writer) { w.artifacts(p.Artifacts) }, func(artifacts []byte) error {
		return l.db.Write(ctx, func(tx *sql.Tx) error {
			if err := l.consume(tx, keys); err != nil {
				return err
			}
			return l.insert(tx, row, artifacts)
		})
	})
}

// Finish records an outcome: see [Store].
func (l *Ledger) Finish(ctx context.Context, p Record) error {
	do, err := l.finish(p)
	if err != nil {
		return err
	}
	return l.db.Write(ctx, do)
}

// Record keeps a whole record: see [Store].
func (l *Ledger) Add(ctx context.Context, p Record) error {
	row, artifacts, err := l.record(p)
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.insert(tx, row, []byte(artifacts)) })
}

// finishLater is Finish for [Deferred].
func (l *Ledger) finishLater(ctx context.Context, p Record, stored func(error)) error {
	do, err := l.finish(p)
	if err != nil {
		return err
	}
	return l.db.WriteLater(ctx, do, stored)
}

// recordLater is Record for [Deferred].
func (l *Ledger) recordLater(ctx context.Context, p Record, stored func(error)) error {
	row, artifacts, err := l.record(p)
	if err != nil {
		return err
	}
	if artifacts != "" { // of a refusal that could not be stored before
		return l.db.WriteLater(ctx, func(tx *sql.Tx) error { return l.insert(tx, row, []byte(artifacts)) }, stored)
	}
	return l.db.InsertLater(ctx, l.insertPost, row, stored)
}

// finish returns how an outcome is written.
func (l *Ledger) finish(p Record) (func(tx *sql.Tx) error, error) {
	if !p.State.Outcome() {
		return nil, ErrState
	}
	record, err := p.Outcome()
	if err != nil {
		return nil, err
	}
	return func(tx *sql.Tx) error { return l.update(tx, p, record) }, nil
}

// record returns a whole record as it is written.
func (l *Ledger) record(p Record) (row []any, artifacts string, err error) {
	if p.State != StateRefused && !p.State.Outcome() {
		return nil, "", ErrState
	}
	record, artifacts, err := p.Encode()
	if err != nil {
		return nil, "", err
	}
	row, err = rowOf(p, record)
	return row, artifacts, err
}

// maxKeys is how many keys one statement inserts at most: more than a post has.
const maxKeys = 16

func (l *Ledger) consume(tx *sql.Tx, keys []Key) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		if k.Expires.Unix() <= l.forgotten {
			return Forgotten(k)
		}
	}
	for some := range slices.Chunk(keys, maxKeys) {
		if err := l.insertUsed(tx, some); err != nil {
			return err
		}
	}
	return nil
}

// insertUsed inserts keys with one statement. Only where that fails because one is there it asks which.
func (l *Ledger) insertUsed(tx *sql.Tx, keys []Key) error {
	args := make([]any, 0, 3*maxKeys)
	for _, k := range keys {
		args = append(args, place(k.ID), k.Kind, k.Expires.Unix())
	}
	_, err := tx.Stmt(l.insertKeys[len(keys)]).Exec(args...)
	if err == nil {
		return nil
	}
	if len(keys) == 1 || !isConstraint(err) {
		return used(keys[0], err)
	}
	for _, k := range keys {
		if _, err := tx.Stmt(l.insertKeys[1]).Exec(place(k.ID), k.Kind, k.Expires.Unix()); err != nil {
			return used(k, err)
		}
	}
	return Unavailable("consume", err) // nothing says which: all of it is refused
}

// used is the refusal of a key whose insertion has failed.
func used(k Key, err error) error {
	if isConstraint(err) {
		return &ConsumedError{k}
	}
	return Unavailable("consume", err)
}

// place returns the id as it is kept: what stands before its first space, the issuer, at its end. Ids of artifacts begin with the
// time, so that the keys of posts that are made together lie in one page and not in one for each kind and issuer. No two
// ids have one place.
func place(id string) string {
	if issuer, rest, ok := strings.Cut(id, " "); ok {
		return rest + " " + issuer
	}
	return id
}

// rowOf returns the values of insertPost for p, whose record is written.
func rowOf(p Record, record string) ([]any, error) {
	return []any{p.ID, p.Flow, string(p.State), p.Session, p.Started.UnixMilli(), record}, p.Check()
}

func (l *Ledger) insert(tx *sql.Tx, row []any, artifacts []byte) error {
	if err := l.insertPost.exec(tx, row); err != nil || len(artifacts) == 0 {
		return err
	}
	if _, err := tx.Stmt(l.insertArtifacts).Exec(artifacts); err != nil {
		return Unavailable("write the record", err)
	}
	return nil
}

// update replaces the record of a post that is in flight.
func (l *Ledger) update(tx *sql.Tx, p Record, record string) error {
	n, err := affected(tx.Stmt(l.updatePost).Exec(p.State, record, p.ID))
	if err != nil {
		return Unavailable("write the record", err)
	}
	if n != 1 {
		return ErrState
	}
	return nil
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
