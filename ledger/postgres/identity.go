package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/ledger"
)

const (
	identityTables = `
CREATE TABLE actionproof.identity ( -- one row
	one    int PRIMARY KEY CHECK (one = 1),
	id     text NOT NULL,
	pruned bigint NOT NULL -- the greatest seq of posts when they were pruned last
);
CREATE TABLE actionproof.accepted (
	seq        bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	acceptance text NOT NULL -- JSON
)`
	insertIdentity = `INSERT INTO actionproof.identity (one, id, pruned) VALUES (1, $1, 0) ON CONFLICT DO NOTHING`
	// selectIdentity reads rows and not the sequence behind them: others see a row once it is durable.
	selectIdentity = `
SELECT id, greatest(pruned, (SELECT max(seq) FROM actionproof.posts)), (SELECT count(*) FROM actionproof.accepted) FROM actionproof.identity`
	keepMark    = `UPDATE actionproof.identity SET pruned = greatest(pruned, (SELECT max(seq) FROM actionproof.posts))`
	forgetUntil = `INSERT INTO actionproof.forgotten (one, expires) VALUES (1, $1)
ON CONFLICT (one) DO UPDATE SET expires = greatest(forgotten.expires, excluded.expires)`
)

var _ ledger.Identified = (*Ledger)(nil)

// identify gives a ledger its identity and the tables of receipts, of the uses of keys and of deliveries, unless it has them, in the transaction
// that has opened it, and commits. A ledger that an earlier program has made lacks them. now is when the uses of keys begin to be counted.
func identify(ctx context.Context, tx *sql.Tx, now time.Time) error {
	for _, t := range []struct {
		first, tables string
		row           string // what they begin with; nothing if empty
		arg           any
	}{
		{"identity", identityTables, insertIdentity, ledger.NewID()}, {"receipts", receiptTables, "", nil},
		{"key_uses", keyUseTables, insertSince, now.UnixMilli()}, {"deliveries", deliveryTable, "", nil}, // after the receipts that it rests on
	} {
		var made bool
		if err := tx.QueryRowContext(ctx, `SELECT to_regclass('actionproof.' || $1) IS NOT NULL`, t.first).Scan(&made); err != nil {
			return err
		}
		if made {
			continue
		}
		if _, err := tx.ExecContext(ctx, t.tables, pgx.QueryExecModeSimpleProtocol); err != nil { // several statements
			return fmt.Errorf("make the table %s: %w", t.first, err)
		}
		if t.row != "" {
			if _, err := tx.ExecContext(ctx, t.row, t.arg); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// Identity returns who the ledger is: see [ledger.Identified].
func (l *Ledger) Identity(ctx context.Context) (ledger.Identity, error) {
	return look(ctx, l, func(ctx context.Context) (ledger.Identity, error) {
		return ledger.ScanIdentity(l.db.QueryRowContext(ctx, selectIdentity))
	})
}

// Accept keeps an acceptance: see [ledger.Identified].
func (l *Ledger) Accept(ctx context.Context, a ledger.Acceptance, until time.Time) error {
	text, err := a.Encode()
	if err != nil {
		return err
	}
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO actionproof.accepted (acceptance) VALUES ($1)`, text)
		if err == nil {
			_, err = tx.ExecContext(ctx, forgetUntil, until.Unix())
		}
		if err != nil {
			return ledger.Unavailable("write the acceptance", err)
		}
		return nil
	})
}

// Acceptances returns what Accept has kept: see [ledger.Identified].
func (l *Ledger) Acceptances(ctx context.Context) ([]ledger.Acceptance, error) {
	return look(ctx, l, func(ctx context.Context) ([]ledger.Acceptance, error) {
		return ledger.ScanAcceptances(l.db.QueryContext(ctx, `SELECT acceptance FROM actionproof.accepted ORDER BY seq`))
	})
}
