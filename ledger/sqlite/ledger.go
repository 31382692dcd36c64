// Package sqlite keeps the ledger in an SQLite file of one process. [DB] is such a file for other state.
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

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Options configure a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention bounds the age of records; zero keeps them for ever.
	Retention time.Duration
	// Known means that the ledger was used before: a missing file is refused with a [*ledger.ReplacedError], and not
	// created.
	Known bool
	// Logged is called after leaves of the transparency log were stored. With it, the ledger keeps one for each intent
	// and each outcome. It must not wait.
	Logged func()
	// Ended is called after ends of calls were stored. With it, the ledger lists their records: see [ledger.Exports].
	// It must not wait.
	Ended func()
}

// Ledger is the [ledger.Store] in one SQLite file, for one process.
type Ledger struct {
	tables.Reader
	db *DB
	o  Options

	prepared map[string]*sql.Stmt // by their text, once: every call needs them

	pruned atomic.Int64 // removed undelivered

	// forgotten is the latest expiry of a pruned key, in Unix seconds. Only functions passed to db.Write use it.
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
	l.prepared = make(map[string]*sql.Stmt)
	for _, query := range []string{insertKey, insertPost, insertArtifacts, insertKeySet, updatePost, insertOpenCall,
		insertReceipt, deleteOpenCall, insertDelivery, insertLeaf, insertUnexported} {
		if l.prepared[query], err = l.db.Prepare(ctx, query); err != nil {
			return err
		}
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec(tables.InsertIdentity, rand.Text()); err != nil {
			return ledger.Unavailable("write its identity", err)
		}
		if _, err := tx.Exec(tables.InsertTree, tables.EmptyRoot()); err != nil {
			return ledger.Unavailable("write the log's tree", err)
		}
		return errors.Join(l.recall(tx), l.settle(tx))
	})
}

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
	return nil
}

// exec runs a prepared statement.
func (l *Ledger) exec(tx *sql.Tx, query string, args ...any) (sql.Result, error) {
	return tx.Stmt(l.prepared[query]).Exec(args...)
}

func (l *Ledger) Close() error { return l.db.Close() }

func (l *Ledger) Consume(ctx context.Context, keys ...ledger.Key) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.consume(tx, keys) })
}

func (l *Ledger) Begin(ctx context.Context, r ledger.Record, keys ...ledger.Key) error {
	r.State = ledger.StateForwarding
	logged, err := l.intent(r)
	if err != nil {
		return err
	}
	return l.write(ctx, func(tx *sql.Tx) error {
		if err := l.consume(tx, keys); err != nil {
			return err
		}
		if err := l.open(tx, r.Open); err != nil {
			return err
		}
		if err := l.log(tx, logged...); err != nil {
			return err
		}
		failpoint.Reach("intent")
		return l.insert(tx, r)
	})
}

func (l *Ledger) Finish(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, []ledger.Record{r}, nil)
}

func (l *Ledger) Add(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, nil, []ledger.Record{r})
}

func (l *Ledger) Write(ctx context.Context, outcomes, records []ledger.Record, receipts ...ledger.Receipt) error {
	return l.write(ctx, func(tx *sql.Tx) error {
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
		return nil
	})
}

func (l *Ledger) insert(tx *sql.Tx, r ledger.Record) error {
	record, artifacts, err := tables.Encode(r)
	if err != nil {
		return err
	}
	keys := tables.KeySetOf(r.Artifacts)
	_, err = l.exec(tx, insertPost, r.ID, r.Flow, r.State, r.Session, r.Started.UnixMilli(), keys.ID, record)
	if err == nil && artifacts != "" {
		_, err = l.exec(tx, insertArtifacts, artifacts)
	}
	if err == nil && keys.ID != 0 {
		_, err = l.exec(tx, insertKeySet, keys.ID, keys.Kids, r.Started.UnixMilli())
	}
	if err == nil && r.State.Whole() {
		err = l.unexported(tx, r.ID)
	}
	if err != nil {
		return ledger.Unavailable("write the record", err)
	}
	return nil
}

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

func (l *Ledger) update(tx *sql.Tx, r ledger.Record) error {
	record, err := tables.Outcome(r)
	if err != nil {
		return err
	}
	n, err := tables.Affected(l.exec(tx, updatePost, r.State, record, r.ID))
	if err != nil {
		return ledger.Unavailable("write the record", err)
	}
	if n != 1 {
		return ledger.ErrState
	}
	if err := l.unexported(tx, r.ID); err != nil {
		return ledger.Unavailable("write the record", err)
	}
	return l.logOutcome(tx, r, record)
}

func (l *Ledger) consume(tx *sql.Tx, keys []ledger.Key) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		if k.Expires.Unix() <= l.forgotten {
			return ledger.Forgotten(k)
		}
		_, err := l.exec(tx, insertKey, timeFirst(k.ID), k.Kind, k.Expires.Unix())
		switch {
		case isConstraint(err):
			return &ledger.ConsumedError{Key: k}
		case err != nil:
			return ledger.Unavailable("consume", err)
		}
	}
	return nil
}

// timeFirst returns the id as stored. An artifact's id is its issuer, a space, and a jti that begins with the time.
// timeFirst moves the issuer to the end, so that the keys of one post lie in one page of the index instead of nine.
// Different ids stay different.
func timeFirst(id string) string {
	if issuer, jti, ok := strings.Cut(id, " "); ok {
		return jti + " " + issuer
	}
	return id
}
