// Package sqlite keeps the ledger in an SQLite file of one process. [DB] is such a file for other state.
//
//	ledger.go  Ledger: keys and records
//	receipt.go chains of receipts, open calls, and how far receipts were handed over
//	schema.go  its tables and statements
//	prune.go   what it removes when keys and records have grown old
//	copy.go    Copy: the copy of a ledger's file, to be read only
//	db.go      DB: an SQLite file with one writer
//	writer.go  the writer: it commits all writes that wait in one transaction
//	open.go    how SQLite is opened: its settings, each read back, and the schema
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Options configures a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Records are kept for Retention; zero keeps them for ever.
	Retention time.Duration
	// Known: the ledger was used before. A missing file is then refused with a [*ledger.ReplacedError], and not made.
	Known bool
}

// Ledger is the [ledger.Store] in one SQLite file, for one process.
type Ledger struct {
	tables.Reader
	db *DB
	o  Options

	// Prepared once, because every call needs them.
	insertKey, insertPost, insertArtifacts, insertKeySet, updatePost *sql.Stmt
	insertOpenCall, insertReceipt, deleteOpenCall                    *sql.Stmt
	addKeyUse, insertDelivery                                        *sql.Stmt

	pruned atomic.Int64 // receipts that were removed before they were handed over

	// forgotten is the latest expiry, in Unix seconds, of a pruned key. Only functions passed to db.Write use it.
	forgotten int64
}

// Open opens or creates the ledger at path, as [OpenDB] does. Posts that an earlier process left in flight become
// indeterminate, because they may have been sent.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Now == nil {
		return nil, errors.New("ledger: a clock is required")
	}
	if _, err := os.Stat(path); o.Known && errors.Is(err, fs.ErrNotExist) {
		return nil, ledger.Gone(filepath.Base(path))
	}
	db, err := OpenDB(ctx, path, schema)
	if err != nil {
		return nil, err
	}
	l := &Ledger{Reader: tables.NewReader(db.Read(), dialect), db: db, o: o, forgotten: math.MinInt64}
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
		{&l.insertOpenCall, insertOpenCall}, {&l.insertReceipt, insertReceipt}, {&l.deleteOpenCall, deleteOpenCall},
		{&l.addKeyUse, addKeyUse},
		{&l.insertDelivery, insertDelivery}, {&l.insertKeySet, insertKeySet},
	} {
		if *s.to, err = l.db.Prepare(ctx, s.query); err != nil {
			return err
		}
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(tables.InsertSince, l.o.Now().UnixMilli())
		if err == nil {
			_, err = tx.Exec(tables.InsertIdentity, rand.Text())
		}
		if err != nil {
			return ledger.Unavailable("write its identity", err)
		}
		return errors.Join(l.recall(tx), l.settle(tx))
	})
}

// settle marks the posts that were in flight when the process ended.
func (l *Ledger) settle(tx *sql.Tx) error {
	inFlight, err := tables.Posts(tx.Query(selectInFlight))
	if err != nil {
		return err
	}
	for _, r := range inFlight {
		if err := l.update(tx, tables.Lost(r, l.o.Now())); err != nil {
			return err
		}
	}
	return l.countKeyUses(tx, inFlight, nil)
}

// Close closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// Consume consumes keys: see [ledger.Store].
func (l *Ledger) Consume(ctx context.Context, keys ...ledger.Key) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.consume(tx, keys) })
}

// Begin consumes keys and records an intent: see [ledger.Store].
func (l *Ledger) Begin(ctx context.Context, r ledger.Record, keys ...ledger.Key) error {
	r.State = ledger.StateForwarding
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

// Finish records an outcome: see [ledger.Store].
func (l *Ledger) Finish(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, []ledger.Record{r}, nil)
}

// Add keeps a whole record: see [ledger.Store].
func (l *Ledger) Add(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, nil, []ledger.Record{r})
}

// Write finishes posts and adds records: see [ledger.Store].
func (l *Ledger) Write(ctx context.Context, outcomes, records []ledger.Record, receipts ...ledger.Receipt) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		for _, r := range outcomes {
			if err := l.update(tx, r); err != nil {
				return err
			}
		}
		for _, r := range records {
			if !r.State.Whole() {
				return ledger.ErrState
			}
			if err := l.insert(tx, r); err != nil {
				return err
			}
		}
		for _, r := range receipts {
			if err := l.addReceipt(tx, r); err != nil {
				return err
			}
		}
		return l.countKeyUses(tx, outcomes, receipts)
	})
}

// insert inserts a record.
func (l *Ledger) insert(tx *sql.Tx, r ledger.Record) error {
	record, artifacts, err := tables.Encode(r)
	if err != nil {
		return err
	}
	keys := tables.KeySetOf(r.Artifacts)
	_, err = tx.Stmt(l.insertPost).Exec(r.ID, r.Flow, r.State, r.Session, r.Started.UnixMilli(), keys.ID, record)
	if err == nil && artifacts != "" {
		_, err = tx.Stmt(l.insertArtifacts).Exec(artifacts)
	}
	if err == nil && keys.ID != 0 {
		_, err = tx.Stmt(l.insertKeySet).Exec(keys.ID, keys.Kids)
	}
	if err != nil {
		return ledger.Unavailable("write the record", err)
	}
	return nil
}

// countKeyUses counts which keys outcomes and receipts rest on.
func (l *Ledger) countKeyUses(tx *sql.Tx, outcomes []ledger.Record, receipts []ledger.Receipt) error {
	for _, u := range tables.KeyUsesOf(outcomes, receipts) {
		if _, err := tx.Stmt(l.addKeyUse).Exec(u.KeyID, u.First.UnixMilli(), u.Last.UnixMilli(), u.Posts); err != nil {
			return ledger.Unavailable("count the uses of keys", err)
		}
	}
	return nil
}

// Accept keeps an acceptance: see [ledger.Identified].
func (l *Ledger) Accept(ctx context.Context, a ledger.Acceptance, until time.Time) error {
	text, err := tables.EncodeAcceptance(a)
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(tables.InsertAcceptance, text)
		if err == nil {
			err = l.forgetUntil(tx, until.Unix())
		}
		if err != nil {
			return ledger.Unavailable("write the acceptance", err)
		}
		return nil
	})
}

// update replaces the record of a post that is in flight by its outcome, except for its artifacts.
func (l *Ledger) update(tx *sql.Tx, r ledger.Record) error {
	record, err := tables.Outcome(r)
	if err != nil {
		return err
	}
	n, err := tables.Affected(tx.Stmt(l.updatePost).Exec(r.State, record, r.ID))
	if err != nil {
		return ledger.Unavailable("write the record", err)
	}
	if n != 1 {
		return ledger.ErrState
	}
	return nil
}

// consume inserts keys.
func (l *Ledger) consume(tx *sql.Tx, keys []ledger.Key) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		if k.Expires.Unix() <= l.forgotten {
			return ledger.Forgotten(k)
		}
		_, err := tx.Stmt(l.insertKey).Exec(timeFirst(k.ID), k.Kind, k.Expires.Unix())
		switch {
		case isConstraint(err):
			return &ledger.ConsumedError{Key: k}
		case err != nil:
			return ledger.Unavailable("consume", err)
		}
	}
	return nil
}

// timeFirst returns the id as the file keeps it. An artifact's id is its issuer, a space and a jti, which begins with
// the time. timeFirst puts the issuer last, so that the keys of one post lie in one page of the index and not in nine.
// Different ids stay different.
func timeFirst(id string) string {
	if issuer, jti, ok := strings.Cut(id, " "); ok {
		return jti + " " + issuer
	}
	return id
}
