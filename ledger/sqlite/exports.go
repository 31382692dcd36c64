package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/actionproof/mediator/ledger"
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
func (l *Ledger) Exported(ctx context.Context, ids ...string) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		list, err := json.Marshal(ids)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM unexported WHERE id IN (SELECT value FROM json_each(?))`, string(list))
		}
		if err != nil {
			return ledger.Unavailable("note the export", err)
		}
		return nil
	})
}
