package tables

import (
	"database/sql"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Each calls scan for each row.
func Each(rows *sql.Rows, err error, scan func() error) error {
	if err != nil {
		return ledger.Unavailable("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return ledger.Unavailable("read", err)
		}
	}
	if err := rows.Err(); err != nil {
		return ledger.Unavailable("read", err)
	}
	return nil
}

// Posts reads rows of records and artifacts, as [Encode] makes them; artifacts may be NULL.
func Posts(rows *sql.Rows, err error) ([]ledger.Record, error) {
	var all []ledger.Record
	err = Each(rows, err, func() error {
		var record, artifacts []byte
		if err := rows.Scan(&record, &artifacts); err != nil {
			return err
		}
		p, err := decode(record, artifacts)
		all = append(all, p)
		return err
	})
	return all, err
}

// OpenCalls reads rows of open calls: id, session, start and draft.
func OpenCalls(rows *sql.Rows, err error) ([]ledger.OpenCall, error) {
	var all []ledger.OpenCall
	err = Each(rows, err, func() error {
		var c ledger.OpenCall
		var started int64
		err := rows.Scan(&c.ID, &c.Session, &started, &c.Draft)
		c.Started = at(started)
		all = append(all, c)
		return err
	})
	return all, err
}

// Deliveries reads rows of deliveries: session, number, due and reason.
func Deliveries(rows *sql.Rows, err error) ([]ledger.Delivery, error) {
	var all []ledger.Delivery
	err = Each(rows, err, func() error {
		var d ledger.Delivery
		var due int64
		err := rows.Scan(&d.Session, &d.Number, &due, &d.Refused)
		d.Due = at(due)
		all = append(all, d)
		return err
	})
	return all, err
}

func receipt(rows *sql.Rows) (r ledger.Receipt, err error) {
	var signed int64
	err = rows.Scan(&r.Session, &r.Number, &r.Call, &signed, &r.Token)
	r.Signed = at(signed)
	return r, err
}

// at is the time of Unix milliseconds.
func at(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

// Affected returns the number of changed rows.
func Affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
