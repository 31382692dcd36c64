package tables

import (
	"context"
	"database/sql"
	"errors"

	"github.com/actionproof/mediator/ledger"
)

// Places returns the places of records in the ledger.
func Places(records []ledger.Export) []int64 {
	all := make([]int64, len(records))
	for i, r := range records {
		all[i] = r.Seq
	}
	return all
}

// Unexported implements [ledger.Exports]. The query's last parameter is the limit.
func (r Reader) Unexported(ctx context.Context, query string, args ...any) (all []ledger.Export, err error) {
	size := 0
	err = r.each(ctx, query, args, func(rows *sql.Rows) error {
		var e ledger.Export
		if err := rows.Scan(&e.Seq, &e.ID, &e.Record, &e.Artifacts); err != nil {
			return err
		}
		if size += len(e.Record) + len(e.Artifacts); size > ledger.MaxExport && len(all) > 0 {
			return errFull
		}
		all = append(all, e)
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return all, err
}
