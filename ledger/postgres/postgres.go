// Package postgres keeps the ledger in a PostgreSQL database that several processes share: the replicas of a sidecar or
// of an API. Together they keep the promises of package ledger.
//
// The first start needs CREATE on the database. Afterwards the role needs USAGE on the schema actionproof, and SELECT,
// INSERT, UPDATE and DELETE on its tables. A failover to a standby keeps the promises only if commits wait for that
// standby (synchronous_standby_names); a restored copy never does.
package postgres

import (
	"context"
	"errors"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Options configure a [Ledger]. Its Instance is required.
type Options = ledger.Options

// Ledger is the [ledger.Store] in a PostgreSQL database, with its [ledger.Log] and [ledger.Exports]. During an outage
// of the database calls fail.
type Ledger struct{ *tables.Ledger }

// Open connects to the database that dsn names (a URL or keyword/value string of libpq), and creates missing tables.
// It refuses another schema version, a database that does not commit durably, and a remote one without
// sslmode=verify-full. Posts that this instance left in flight become indeterminate. Errors do not show dsn.
func Open(ctx context.Context, dsn string, o Options) (*Ledger, error) {
	if o.Now == nil || o.Instance == "" {
		return nil, errors.New("postgres: a clock and the name of this instance are required")
	}
	d, err := postgres.Open(ctx, dsn, tables.Schema)
	if err != nil {
		return nil, err
	}
	l, err := tables.Open(ctx, d, o, func(t db.Tx, keys []ledger.Key) error {
		return Consume(t.Context(), t.Tx, keys...)
	})
	if err != nil {
		return nil, err
	}
	return &Ledger{l}, nil
}

// Reader reads the ledger in a database, and changes nothing there.
type Reader struct{ tables.Reader }

// OpenReader opens the ledger in the database that dsn names. It refuses what [Open] refuses, and a database without a
// ledger.
func OpenReader(ctx context.Context, dsn string) (*Reader, error) {
	existing := tables.Schema
	existing.Existing = true
	d, err := postgres.Open(ctx, dsn, existing)
	if err != nil {
		return nil, err
	}
	return &Reader{tables.NewReader(d)}, nil
}
