// Package backend opens a [db.DB] where a service's configuration has it.
package backend

import (
	"context"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/internal/db/sqlite"
)

// Open opens the schema in the PostgreSQL database that dsn names, or without a dsn the SQLite file at path.
func Open(ctx context.Context, path, dsn string, s db.Schema) (*db.DB, error) {
	if dsn != "" {
		return postgres.Open(ctx, dsn, s)
	}
	return sqlite.Open(ctx, path, s)
}
