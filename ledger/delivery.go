package ledger

import (
	"context"
	"database/sql"
	"time"
)

// Delivery is how far the receipts of one session have been handed over to whoever appraises them.
type Delivery struct {
	Session string
	Number  int64     // of the last receipt that was acknowledged; 0 while none was
	Due     time.Time // when it goes on: until then it belongs to whoever has claimed it
	Refused string    // why no more receipts of the session are taken; empty while they are
	Whole   bool      // the end of the chain is acknowledged: the ledger forgets the delivery
}

// Backlog is what has not been handed over.
type Backlog struct {
	Receipts int64     // of all sessions
	Oldest   time.Time // when the oldest of them was signed; zero if there is none
	Refused  int64     // sessions whose receipts are not taken
	Reason   string    // why, of one of them
	Pruned   int64     // receipts that this process has removed for their age before they were handed over
}

// Deliveries keeps how far receipts have been handed over: for each session from its first receipt on, until the end of its chain is
// acknowledged. Its methods are safe for concurrent use.
type Deliveries interface {
	// ClaimDeliveries returns sessions that are due and have receipts which are not acknowledged, the longest due first, at most limit. Of
	// the processes that share a ledger no other gets them before until.
	ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) ([]Delivery, error)
	// SettleDeliveries keeps how far deliveries have come, and ends their claim. What is not known any more is left out.
	SettleDeliveries(ctx context.Context, all ...Delivery) error
	// Backlog looks at all deliveries: it takes a time that grows with their number.
	Backlog(ctx context.Context) (Backlog, error)
}

// deliveryTable is made when a ledger is opened that has none. The receipts that are there already are to be handed over, too.
const deliveryTable = `
CREATE TABLE deliveries (
	session TEXT PRIMARY KEY,
	number  INTEGER NOT NULL, -- of the last receipt that was acknowledged
	due     INTEGER NOT NULL, -- Unix milliseconds
	refused TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (due);
INSERT INTO deliveries (session, number, due, refused) SELECT session, 0, 0, '' FROM receipts WHERE number = 1`

const (
	hasDeliveries  = `SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'deliveries'`
	insertDelivery = `INSERT INTO deliveries (session, number, due, refused) VALUES (?, 0, 0, '') ON CONFLICT DO NOTHING`
	settleDelivery = `UPDATE deliveries SET number = ?2, due = ?3, refused = ?4 WHERE session = ?1`
	endDelivery    = `DELETE FROM deliveries WHERE session = ?`
	selectDue      = `SELECT session, number, due, refused FROM deliveries AS d
		WHERE due <= ? AND number < (SELECT number FROM receipts WHERE session = d.session ORDER BY number DESC LIMIT 1) ORDER BY due LIMIT ?`
	selectBacklog = `SELECT coalesce(sum((SELECT number FROM receipts WHERE session = d.session ORDER BY number DESC LIMIT 1) - number), 0),
		min((SELECT signed FROM receipts WHERE session = d.session AND number > d.number ORDER BY number LIMIT 1)),
		count(nullif(refused, '')), coalesce(max(refused), '') FROM deliveries AS d`
	// pruneDeliveries forgets deliveries whose receipts have been removed.
	pruneDeliveries = `DELETE FROM deliveries WHERE session IN (SELECT session FROM deliveries AS d
		WHERE NOT EXISTS (SELECT 1 FROM receipts WHERE session = d.session) LIMIT ?)`
)

// prepareDeliveries makes the table of deliveries where there is none.
func prepareDeliveries(tx *sql.Tx) error {
	var made bool
	if err := tx.QueryRow(hasDeliveries).Scan(&made); err != nil || made {
		return err
	}
	_, err := tx.Exec(deliveryTable)
	return err
}

// ClaimDeliveries returns sessions that are due: see [Deliveries]. The file belongs to one process, which need not keep what it claims.
func (l *Ledger) ClaimDeliveries(ctx context.Context, now, _ time.Time, limit int) ([]Delivery, error) {
	return ScanDeliveries(l.db.Read().QueryContext(ctx, selectDue, now.UnixMilli(), limit))
}

// SettleDeliveries keeps how far deliveries have come: see [Deliveries].
func (l *Ledger) SettleDeliveries(ctx context.Context, all ...Delivery) error {
	return l.db.Write(ctx, func(tx *sql.Tx) (err error) {
		for _, d := range all {
			if d.Whole {
				_, err = tx.Exec(endDelivery, d.Session)
			} else {
				_, err = tx.Exec(settleDelivery, d.Session, d.Number, d.Due.UnixMilli(), d.Refused)
			}
			if err != nil {
				return Unavailable("keep how far receipts were handed over", err)
			}
		}
		return nil
	})
}

// Backlog returns what has not been handed over: see [Deliveries].
func (l *Ledger) Backlog(ctx context.Context) (Backlog, error) {
	b, err := ScanBacklog(l.db.Read().QueryRowContext(ctx, selectBacklog))
	b.Pruned = l.pruned.Load()
	return b, err
}

// removeReceipts removes at most pruneChunk of the receipts whose chains have ended before a time, in Unix milliseconds. It returns how many,
// and how many of them were never handed over.
func removeReceipts(tx *sql.Tx, oldest int64) (n, unsent int64, err error) {
	rows, err := tx.Query(pruneReceipts, oldest, pruneChunk, pruneWindow)
	err = each(rows, err, func() error {
		var lost bool
		err := rows.Scan(&lost)
		if n++; lost {
			unsent++
		}
		return err
	})
	return n, unsent, err
}

// ScanDeliveries reads the rows of deliveries: session, number, due and reason.
func ScanDeliveries(rows *sql.Rows, err error) ([]Delivery, error) {
	var all []Delivery
	err = each(rows, err, func() error {
		var d Delivery
		var due int64
		err := rows.Scan(&d.Session, &d.Number, &due, &d.Refused)
		d.Due = time.UnixMilli(due).UTC()
		all = append(all, d)
		return err
	})
	return all, err
}

// ScanBacklog reads a backlog: receipts, the time of the oldest, refused sessions, and a reason.
func ScanBacklog(row *sql.Row) (b Backlog, err error) {
	var oldest sql.NullInt64
	if err := row.Scan(&b.Receipts, &oldest, &b.Refused, &b.Reason); err != nil {
		return Backlog{}, Unavailable("read", err)
	}
	if oldest.Valid {
		b.Oldest = time.UnixMilli(oldest.Int64).UTC()
	}
	return b, nil
}
