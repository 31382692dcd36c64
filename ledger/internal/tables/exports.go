package tables

import (
	"context"
	"database/sql"
	"errors"

	"github.com/actionproof/mediator/ledger"
)

// Unexported implements [ledger.Exports]. The query's last parameter is the limit.
func (r Reader) Unexported(ctx context.Context, query string, args ...any) (all []ledger.Record, err error) {
	size := 0
	err = r.each(ctx, query, args, func(rows *sql.Rows) error {
		var record, artifacts []byte
		if err := rows.Scan(&record, &artifacts); err != nil {
			return err
		}
		if size += len(record) + len(artifacts); size > ledger.MaxExport && len(all) > 0 {
			return errFull
		}
		found, err := decode(record, artifacts)
		all = append(all, found)
		return err
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return all, err
}
