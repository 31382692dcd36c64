package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

var _ ledger.Exports = (*Ledger)(nil)

// unexported lists a call that has ended, if the ledger exports.
func (l *Ledger) unexported(tx *sql.Tx, id string) error {
	if l.o.Ended == nil {
		return nil
	}
	_, err := l.exec(tx, insertUnexported, id)
	return err
}

// Unexported implements [ledger.Exports].
func (l *Ledger) Unexported(ctx context.Context, limit int) ([]ledger.Export, error) {
	return l.Reader.Unexported(ctx, selectUnexported, limit)
}

// Exported implements [ledger.Exports].
func (l *Ledger) Exported(ctx context.Context, records ...ledger.Export) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec(deleteUnexported, listOf(tables.Places(records))); err != nil {
			return ledger.Unavailable("note the export", err)
		}
		return nil
	})
}

// listOf is a list for SQLite's json_each.
func listOf(places []int64) string {
	list, _ := json.Marshal(places) // never fails
	return string(list)
}
