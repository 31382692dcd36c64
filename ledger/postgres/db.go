package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
)

// DB is a schema in a PostgreSQL database for shared state other than the ledger. It is safe for concurrent use, and
// survives an outage of the database.
type DB struct{ pool }

// OpenDB connects to the database that dsn names, creates a missing schema, and refuses what [Open] refuses. Names
// without a schema belong to s.
func OpenDB(ctx context.Context, dsn string, s Schema) (*DB, error) {
	return openDB(ctx, dsn, s)
}

// OpenReadOnly is [OpenDB] for a schema that exists, to which nothing can be written.
func OpenReadOnly(ctx context.Context, dsn string, s Schema) (*DB, error) {
	return openDB(ctx, dsn, s, [2]string{"default_transaction_read_only", "on"})
}

func openDB(ctx context.Context, dsn string, s Schema, settings ...[2]string) (*DB, error) {
	db, err := connect(dsn, s.Name, settings...)
	if err != nil {
		return nil, ledger.Unavailable("connect", err)
	}
	d := &DB{pool{db: db}}
	if err := d.ensure(ctx, s); err != nil {
		return nil, errors.Join(ledger.Unavailable("open", err), db.Close())
	}
	return d, nil
}

// Read returns a pool for reading.
func (d *DB) Read() *sql.DB { return d.db }

// Write runs do in a READ COMMITTED transaction and returns nil once it is durable. If do fails, nothing is stored.
// After an error of the commit the outcome is unknown: treat it as stored.
func (d *DB) Write(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	return d.write(ctx, do)
}

type pool struct {
	db     *sql.DB
	closed atomic.Bool
}

// Close ends the connections.
func (p *pool) Close() error {
	p.closed.Store(true)
	return p.db.Close()
}

// operation bounds one transaction with its wait for a connection. The server bounds each statement by it too.
const operation = 10 * time.Second

func (p *pool) write(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	return discreet(p.transact(ctx, do))
}

// transact is write with errors that name servers, databases and users. A cancelled ctx does not end a transaction that
// has begun, because its outcome would be unknown; a deadline of ctx does.
func (p *pool) transact(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	if p.closed.Load() {
		return ledger.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return ledger.Unavailable("begin", err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), operation)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		var end context.CancelFunc
		bounded, end = context.WithDeadline(bounded, deadline)
		defer end()
	}
	// At a stricter level, concurrent use of one key would fail without a name.
	tx, err := p.db.BeginTx(bounded, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return ledger.Unavailable("begin", err)
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	failpoint.Reach("ledger begun")
	if err := do(bounded, tx); err != nil {
		return err
	}
	failpoint.Reach("ledger written")
	if err := tx.Commit(); err != nil {
		return ledger.Unavailable("commit", err)
	}
	failpoint.Reach("ledger committed")
	return nil
}
