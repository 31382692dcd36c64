package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/ledger"
)

const (
	// insertKeys waits for a transaction that holds one of the keys. The order keeps two transactions from waiting for
	// each other.
	insertKeys = `
INSERT INTO actionproof.consumed (kind, id, expires)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (kind, id, expires) ORDER BY kind, id
ON CONFLICT DO NOTHING RETURNING kind, id`
	selectGuard = `
SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('transaction_isolation'),
	(SELECT expires FROM actionproof.forgotten)`
)

// Consume marks keys as used in the caller's transaction, all or none, in a database that [Open] has prepared. For each
// key exactly one caller gets nil and commits; the others wait for that, and get a [*ledger.ConsumedError]. Roll back
// after any other error. After an error of the commit itself, treat the keys as consumed.
//
// Consume refuses a transaction that would not commit durably, or that is not READ COMMITTED and would miss prunings.
func Consume(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error {
	kinds, ids, expiries := make([]string, len(keys)), make([]string, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		kinds[i], ids[i], expiries[i] = k.Kind, k.ID, k.Expires.Unix()
	}
	fresh, err := insert(ctx, tx, kinds, ids, expiries)
	if err != nil {
		return ledger.Unavailable("consume", err)
	}
	for _, k := range keys {
		name := ledger.Key{Kind: k.Kind, ID: k.ID}
		if !fresh[name] {
			return &ledger.ConsumedError{Key: k}
		}
		delete(fresh, name) // a key that is named twice is used twice
	}
	return guard(ctx, tx, keys)
}

func insert(ctx context.Context, tx *sql.Tx, kinds, ids []string, expiries []int64) (map[ledger.Key]bool, error) {
	rows, err := tx.QueryContext(ctx, insertKeys, kinds, ids, expiries)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	fresh := make(map[ledger.Key]bool, len(kinds))
	for rows.Next() {
		var k ledger.Key
		if err := rows.Scan(&k.Kind, &k.ID); err != nil {
			return nil, err
		}
		fresh[k] = true
	}
	return fresh, rows.Err()
}

// guard refuses a commit that is not durable, and keys that may have been pruned. It runs after the insert, so that it
// sees every earlier pruning.
func guard(ctx context.Context, tx *sql.Tx, keys []ledger.Key) error {
	var commit, fsync, level string
	var forgotten sql.NullInt64
	err := tx.QueryRowContext(ctx, selectGuard).Scan(&commit, &fsync, &level, &forgotten)
	if err == nil {
		err = postgres.Durable(commit, fsync)
	}
	if err == nil && level != "read committed" {
		err = fmt.Errorf("the transaction's isolation level is %s; it must be READ COMMITTED", level)
	}
	if err != nil {
		return ledger.Unavailable("consume", err)
	}
	if !forgotten.Valid {
		forgotten.Int64 = math.MinInt64
	}
	for _, k := range keys {
		if k.Expires.Unix() <= forgotten.Int64 {
			return ledger.Forgotten(k)
		}
	}
	return nil
}
