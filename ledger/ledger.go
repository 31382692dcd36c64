package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultRetention is how long records are kept where nothing else is configured: long enough to look into a quarter, and an end for
// what strangers leave.
const DefaultRetention = 90 * 24 * time.Hour

// Options configures a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention is how long a record is kept; zero keeps it for ever.
	Retention time.Duration
	// Known is set where the ledger was used before: a file that is not there is refused with a [*ReplacedError], and not made.
	Known bool
}

// Ledger is the [Store] in one SQLite file, for one process.
type Ledger struct {
	reader
	db *DB
	o  Options

	// Prepared once, because every call needs them.
	insertKey, insertPost, insertArtifacts, updatePost *sql.Stmt
	insertOpenCall, insertReceipt, deleteOpenCall      *sql.Stmt
	addKeyUse                                          *sql.Stmt
	insertDelivery                                     *sql.Stmt

	pruned atomic.Int64 // receipts that were removed before they were handed over

	// forgotten is the latest expiry, in Unix seconds, of a key that Prune has removed. It belongs to the writer: only
	// functions that are passed to db.Write use it.
	forgotten int64
}

// Open opens or creates the ledger at path, as [OpenDB] does. Posts that an earlier process left in flight become
// indeterminate, because they may have been sent.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Now == nil {
		return nil, errors.New("ledger: a clock is required")
	}
	if _, err := os.Stat(path); o.Known && errors.Is(err, fs.ErrNotExist) {
		return nil, &ReplacedError{fmt.Sprintf("the ledger %s is not there any more: which keys are consumed, and the records, are lost. %s", filepath.Base(path), howToAccept)}
	}
	db, err := OpenDB(ctx, path, schema)
	if err != nil {
		return nil, err
	}
	l := &Ledger{reader: reader{db: db.Read()}, db: db, o: o, forgotten: math.MinInt64}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func (l *Ledger) start(ctx context.Context) (err error) {
	err = l.db.Write(ctx, func(tx *sql.Tx) error {
		for _, tables := range []string{receiptTables, keyUseTables} {
			if _, err := tx.Exec(tables); err != nil {
				return Unavailable("make the tables of receipts and of the uses of keys", err)
			}
		}
		if err := prepareDeliveries(tx); err != nil {
			return Unavailable("make the tables of deliveries", err)
		}
		if _, err := tx.Exec(insertSince, l.o.Now().UnixMilli()); err != nil {
			return Unavailable("begin to count the uses of keys", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&l.insertKey, insertKey}, {&l.insertPost, insertPost},
		{&l.insertArtifacts, insertArtifacts}, {&l.updatePost, updatePost},
		{&l.insertOpenCall, insertOpenCall}, {&l.insertReceipt, insertReceipt}, {&l.deleteOpenCall, deleteOpenCall},
		{&l.addKeyUse, addKeyUse},
		{&l.insertDelivery, insertDelivery},
	} {
		if *s.to, err = l.db.Prepare(ctx, s.query); err != nil {
			return err
		}
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return errors.Join(l.identify(tx), l.recall(tx), l.settle(tx)) })
}

// settle marks the posts that were in flight when the process ended.
func (l *Ledger) settle(tx *sql.Tx) error {
	inFlight, err := Scan(tx.Query(selectInFlight))
	if err != nil {
		return err
	}
	for _, r := range inFlight {
		if err := l.update(tx, r.Lost(l.o.Now())); err != nil {
			return err
		}
	}
	return l.countKeyUses(tx, inFlight, nil)
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
		if err := l.open(tx, r.Open); err != nil {
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
func (l *Ledger) Write(ctx context.Context, outcomes, records []Record, receipts ...Receipt) error {
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
		if err := l.addReceipts(tx, receipts); err != nil {
			return err
		}
		return l.countKeyUses(tx, outcomes, receipts)
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

// timeFirst returns the id as the file keeps it. An artifact's id is its issuer, a space and a jti, which begins with
// the time. timeFirst puts the issuer last, so that the keys of one post lie in one page of the index and not in nine.
// It gives no two ids the same form.
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
