package postgres

import (
	"context"
	"errors"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Reader reads the ledger in a database, and changes nothing there.
type Reader struct {
	tables.Reader
	*DB
}

// OpenReader opens the ledger in the database that dsn names. It refuses what [Open] refuses, and a database without a
// ledger.
func OpenReader(ctx context.Context, dsn string) (*Reader, error) {
	d, err := OpenReadOnly(ctx, dsn, ledgerSchema)
	if err != nil {
		return nil, err
	}
	return &Reader{tables.NewReader(d.db, dialect), d}, nil
}

// OpenReadOnly is [OpenDB] for a schema that exists, to which nothing can be written.
func OpenReadOnly(ctx context.Context, dsn string, s Schema) (*DB, error) {
	db, err := connect(dsn, s.Name, [2]string{"default_transaction_read_only", "on"})
	if err != nil {
		return nil, ledger.Unavailable("connect", err)
	}
	d := &DB{pool{db: db}}
	if err := d.ensure(ctx, s); err != nil {
		return nil, errors.Join(ledger.Unavailable("open", err), db.Close())
	}
	return d, nil
}
