package postgres

import (
	"context"

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
