package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

var _ ledger.Exports = (*Ledger)(nil)

const (
	selectUnexported = `SELECT seq, id, record, coalesce(artifacts, '') FROM unexported JOIN posts USING (seq)
WHERE unexported.instance = $1 ORDER BY seq LIMIT $2`
	// adoptUnexported leaves alone a process that is only behind: it also has newer calls. It may write the records
	// now.
	adoptUnexported = `UPDATE unexported SET instance = $1 WHERE instance IN (
	SELECT unexported.instance FROM unexported JOIN posts USING (seq) WHERE unexported.instance <> $1
	GROUP BY unexported.instance HAVING max(posts.started) < $2)`
)

// Unexported implements [ledger.Exports].
func (l *Ledger) Unexported(ctx context.Context, limit int) ([]ledger.Export, error) {
	return l.Reader.Unexported(ctx, selectUnexported, l.name, limit)
}

// Exported implements [ledger.Exports].
func (l *Ledger) Exported(ctx context.Context, records ...ledger.Export) error {
	places := tables.Places(records)
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM unexported WHERE seq = ANY ($1)`, places); err != nil {
			return ledger.Unavailable("note the export", err)
		}
		return nil
	})
}

// adopt makes this process export the records of a process all of whose calls began before: it never came back.
func (l *Ledger) adopt(ctx context.Context, before time.Time) error {
	if l.o.Ended == nil {
		return nil
	}
	return l.logged(l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, adoptUnexported, l.name, before.UnixMilli()); err != nil {
			return ledger.Unavailable("take over exports", err)
		}
		return nil
	}))
}
