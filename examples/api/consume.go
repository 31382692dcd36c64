package main

import (
	"context"
	"database/sql"

	"github.com/actionproof/mediator/ledger"
)

// consumeIn consumes keys in a table of your own. gate.SQL(db, consumeIn) replaces gate.SQL(db, postgres.Consume).
//
//	CREATE TABLE consumed (kind text, id text, expires bigint NOT NULL, PRIMARY KEY (kind, id));
func consumeIn(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error {
	const insert = `INSERT INTO consumed (kind, id, expires) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	for _, k := range keys {
		r, err := tx.ExecContext(ctx, insert, k.Kind, k.ID, k.Expires.Unix())
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil {
			return err
		} else if n != 1 {
			return &ledger.ConsumedError{Key: k} // used before: roll back
		}
	}
	return nil
}
