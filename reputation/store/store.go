// Package store keeps what the node knows, durably: receipts in the chains of their sessions, challenges, caller tokens that were used,
// and what baselines are made of. It lies in an SQLite file of one node, or in a PostgreSQL database that several replicas share; both run
// the same statements. It verifies nothing: whoever adds receipts has verified them.
//
// # Where things are
//
//	store.go      Store: how it is opened, and its transactions
//	schema.go     its tables
//	receipts.go   sessions, their receipts, and forks of their chains
//	challenges.go challenges with their probes, and single-use tokens
//	baselines.go  samples of closed sessions, and the snapshots that are made of them
//	entries.go    the logs of the agents
//	disputes.go   the log of signals and disputes, and what stands in it
//	prune.go      what it removes when it has grown old
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
)

// What a caller tests for. Any other error has the code ledger_unavailable.
var (
	// ErrNotFound means that there is no such session, receipt, challenge, snapshot, signal or dispute.
	ErrNotFound = errors.New("store: not found")
	// ErrMoved means that somebody else has changed a session, a challenge or a log meanwhile: read it and try again.
	ErrMoved = errors.New("store: changed meanwhile")
	// ErrDuplicate means that the session has a receipt for the same call already, or that there is another signal or dispute of the same id.
	ErrDuplicate = errors.New("store: there is one already")
	// ErrFull means that an owner has as many sessions or receipts as it may have.
	ErrFull = errors.New("store: the owner has no room left")
	// ErrUsed means that a single-use token was used before.
	ErrUsed = errors.New("store: used before")
)

// Store is safe for concurrent use, also by several processes where it lies in PostgreSQL.
type Store struct {
	read  *sql.DB
	write func(ctx context.Context, do func(tx) error) error
	close func() error
	clock func(ctx context.Context) (time.Time, error)
}

// tx is a transaction, and the context of its statements.
type tx struct {
	*sql.Tx
	ctx context.Context
}

// Open opens the SQLite file at path, or creates it. See [sqlite.OpenDB].
func Open(ctx context.Context, path string) (*Store, error) {
	db, err := sqlite.OpenDB(ctx, path, sqlite.Schema{Version: version, Statements: tables, Forgets: forgets})
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, do func(tx) error) error {
		// A context that ends would interrupt the writes of others, which share the transaction.
		return db.Write(ctx, func(t *sql.Tx) error { return do(tx{t, context.WithoutCancel(ctx)}) })
	}
	return &Store{read: db.Read(), write: write, close: db.Close}, nil
}

// OpenPostgres opens the schema actionproof_reputation of the database that dsn names. See [postgres.OpenDB].
func OpenPostgres(ctx context.Context, dsn string) (*Store, error) {
	db, err := postgres.OpenDB(ctx, dsn, postgres.Schema{Name: "actionproof_reputation", Version: version, Statements: postgresTables, Forgets: forgets})
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, do func(tx) error) error {
		return db.Write(ctx, func(ctx context.Context, t *sql.Tx) error { return do(tx{t, ctx}) })
	}
	return &Store{read: db.Read(), write: write, close: db.Close, clock: db.Now}, nil
}

// Clock returns the clock that all who share the store agree about, which is the database server's. A file has one process, and no clock: then it is nil.
func (s *Store) Clock() func(ctx context.Context) (time.Time, error) { return s.clock }

// Close makes what was accepted durable and closes the store.
func (s *Store) Close() error { return s.close() }

// transact runs do in a transaction and returns nil once it is durable. If do fails, what it did is undone.
func (s *Store) transact(ctx context.Context, doing string, do func(tx) error) error {
	return coded(doing, s.write(ctx, do))
}

// coded gives a failure of the database its code.
func coded(doing string, err error) error {
	var has interface{ Code() string }
	if err == nil || errors.As(err, &has) {
		return err
	}
	for _, known := range []error{ErrNotFound, ErrMoved, ErrDuplicate, ErrFull, ErrUsed} {
		if errors.Is(err, known) {
			return err
		}
	}
	return ledger.Unavailable(doing, err)
}

// exec runs a statement and returns how many rows it has changed.
func (t tx) exec(query string, args ...any) (int64, error) {
	r, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// one is exec for a statement that changes one row; else it returns the error instead.
func (t tx) one(instead error, query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		return instead
	}
	return err
}

// rowsAtOnce bounds the rows of one INSERT. SQLite takes 32,766 parameters, PostgreSQL 65,535.
const rowsAtOnce = 100

// insert inserts rows, and returns how many of them were not there already. head is the statement up to VALUES.
func (t tx) insert(head string, rows [][]any) (inserted int64, err error) {
	for len(rows) > 0 {
		n := min(rowsAtOnce, len(rows))
		var values []string
		var args []any
		for _, row := range rows[:n] {
			var places []string
			for _, v := range row {
				args = append(args, v)
				places = append(places, fmt.Sprintf("$%d", len(args)))
			}
			values = append(values, "("+strings.Join(places, ", ")+")")
		}
		added, err := t.exec(head+" VALUES "+strings.Join(values, ", ")+" ON CONFLICT DO NOTHING", args...)
		if err != nil {
			return inserted, err
		}
		inserted, rows = inserted+added, rows[n:]
	}
	return inserted, nil
}

// query reads rows. It finds nothing by a text that PostgreSQL cannot keep: strangers write what is looked for, and their mistake is no failure
// of the database.
func (s *Store) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	for _, a := range args {
		if text, ok := a.(string); ok && (!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
			return nil, ErrNotFound
		}
	}
	return s.read.QueryContext(ctx, query, args...)
}

// list reads rows, each by scan.
func list[T any](doing string, rows *sql.Rows, err error, scan func(func(...any) error) (T, error)) ([]T, error) {
	if err != nil {
		return nil, coded(doing, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows.Scan)
		if err != nil {
			return nil, coded(doing, err)
		}
		all = append(all, one)
	}
	return all, coded(doing, rows.Err())
}

// first returns the first of a list. Where it is empty, it returns [ErrNotFound].
func first[T any](all []T, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case len(all) == 0:
		return none, ErrNotFound
	}
	return all[0], nil
}
