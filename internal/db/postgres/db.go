// Package postgres keeps a [db.DB] in a schema of a PostgreSQL database that several processes share.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
)

// Pool has the connections to a schema. It is safe for concurrent use, and survives an outage of the database.
type Pool struct {
	db     *sql.DB
	closed atomic.Bool
}

// Open opens the schema as [OpenPool] does.
func Open(ctx context.Context, dsn string, s db.Schema) (*db.DB, error) {
	p, err := OpenPool(ctx, dsn, s)
	if err != nil {
		return nil, err
	}
	return db.New(s, db.Backend{Read: p.db, Write: p.write, Close: p.Close, Listen: p.Listen}), nil
}

// OpenPool connects to the database that dsn names (a URL or keyword/value string of libpq), and creates a missing
// schema. It refuses another schema version, a database that does not commit durably, and a remote one without
// sslmode=verify-full. Nothing can be written to a schema that has to exist. Errors do not show dsn.
func OpenPool(ctx context.Context, dsn string, s db.Schema) (*Pool, error) {
	db, err := connect(dsn, s)
	if err != nil {
		return nil, ledger.Unavailable("connect", err)
	}
	p := &Pool{db: db}
	if err := p.ensure(ctx, s); err != nil {
		return nil, errors.Join(ledger.Unavailable("open", err), db.Close())
	}
	return p, nil
}

// Read returns a pool for reading.
func (p *Pool) Read() *sql.DB { return p.db }

// Close ends the connections.
func (p *Pool) Close() error {
	p.closed.Store(true)
	return p.db.Close()
}

// operation bounds one transaction with its wait for a connection. The server bounds each statement by it too.
const operation = 10 * time.Second

// Write runs do in a READ COMMITTED transaction and returns nil once it is durable. If do fails, nothing is stored.
// After an error of the commit the outcome is unknown: treat it as stored.
func (p *Pool) Write(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	return p.write(ctx, func(ctx context.Context, t db.Transaction) error { return do(ctx, t.Tx) })
}

func (p *Pool) write(ctx context.Context, do func(context.Context, db.Transaction) error) error {
	return Discreet(p.transact(ctx, do))
}

// transact is write with errors that name servers, databases and users. A cancelled ctx does not end a transaction that
// has begun, because its outcome would be unknown; a deadline of ctx does.
func (p *Pool) transact(ctx context.Context, do func(context.Context, db.Transaction) error) error {
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
	conn, err := p.db.Conn(bounded)
	if err != nil {
		return ledger.Unavailable("begin", err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(bounded, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return ledger.Unavailable("begin", err)
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	failpoint.Reach("ledger begun")
	if err := do(bounded, db.Transaction{Tx: tx, Batch: batch(conn)}); err != nil {
		return err
	}
	failpoint.Reach("ledger written")
	if err := tx.Commit(); err != nil {
		return ledger.Unavailable("commit", err)
	}
	failpoint.Reach("ledger committed")
	return nil
}

// batch runs statements on a connection in one round trip.
func batch(conn *sql.Conn) func(ctx context.Context, all []db.Statement) ([]int64, error) {
	return func(ctx context.Context, all []db.Statement) (changed []int64, err error) {
		err = conn.Raw(func(driver any) error {
			var b pgx.Batch
			for _, s := range all {
				b.Queue(s.Query, s.Args...)
			}
			results := driver.(*stdlib.Conn).Conn().SendBatch(ctx, &b)
			for range all {
				tag, err := results.Exec()
				if err != nil {
					_ = results.Close() // with the same error
					return err
				}
				changed = append(changed, tag.RowsAffected())
			}
			return results.Close()
		})
		return changed, err
	}
}
