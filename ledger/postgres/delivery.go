package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/actionproof/mediator/ledger"
)

const (
	// deliveryTable is made in a database, too, that an earlier program has made its tables in: the receipts that are there are to be
	// handed over.
	deliveryTable = `
CREATE TABLE actionproof.deliveries (
	session text COLLATE "C" PRIMARY KEY,
	number  bigint NOT NULL, -- of the last receipt that was acknowledged
	due     bigint NOT NULL, -- Unix milliseconds
	refused text NOT NULL
);
CREATE INDEX deliveries_due ON actionproof.deliveries (due);
INSERT INTO actionproof.deliveries (session, number, due, refused) SELECT session, 0, 0, '' FROM actionproof.receipts WHERE number = 1;`
	// claimDeliveries leaves out what another process claims at this moment.
	claimDeliveries = `
UPDATE actionproof.deliveries AS claimed SET due = $2 FROM (
	SELECT session, due FROM actionproof.deliveries AS d
	WHERE due <= $1 AND number < (SELECT number FROM actionproof.receipts AS r WHERE r.session = d.session ORDER BY number DESC LIMIT 1)
	ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
) AS due WHERE claimed.session = due.session RETURNING claimed.session, claimed.number, claimed.due, claimed.refused`
	settleDelivery = `UPDATE actionproof.deliveries SET number = $2, due = $3, refused = $4 WHERE session = $1`
	endDelivery    = `DELETE FROM actionproof.deliveries WHERE session = $1`
	selectBacklog  = `
SELECT coalesce(sum((SELECT number FROM actionproof.receipts AS r WHERE r.session = d.session ORDER BY number DESC LIMIT 1) - number), 0)::bigint,
	min((SELECT signed FROM actionproof.receipts AS r WHERE r.session = d.session AND r.number > d.number ORDER BY number LIMIT 1)),
	count(nullif(refused, '')), coalesce(max(refused), '') FROM actionproof.deliveries AS d`
	// pruneDeliveries forgets deliveries whose receipts have been removed.
	pruneDeliveries = `
DELETE FROM actionproof.deliveries WHERE session IN (SELECT session FROM actionproof.deliveries AS d
	WHERE NOT EXISTS (SELECT 1 FROM actionproof.receipts AS r WHERE r.session = d.session) LIMIT $1)`
)

// ClaimDeliveries returns sessions that are due: see [ledger.Deliveries].
func (l *Ledger) ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) (claimed []ledger.Delivery, err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		claimed, err = ledger.ScanDeliveries(tx.QueryContext(ctx, claimDeliveries, now.UnixMilli(), until.UnixMilli(), limit))
		return err
	})
	return claimed, err
}

// SettleDeliveries keeps how far deliveries have come: see [ledger.Deliveries].
func (l *Ledger) SettleDeliveries(ctx context.Context, all ...ledger.Delivery) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		for _, d := range all {
			if d.Whole {
				_, err = tx.ExecContext(ctx, endDelivery, d.Session)
			} else {
				_, err = tx.ExecContext(ctx, settleDelivery, d.Session, d.Number, d.Due.UnixMilli(), d.Refused)
			}
			if err != nil {
				return ledger.Unavailable("keep how far receipts were handed over", err)
			}
		}
		return nil
	})
}

// Backlog returns what has not been handed over: see [ledger.Deliveries].
func (l *Ledger) Backlog(ctx context.Context) (ledger.Backlog, error) {
	return look(ctx, l, func(ctx context.Context) (ledger.Backlog, error) {
		b, err := ledger.ScanBacklog(l.db.QueryRowContext(ctx, selectBacklog))
		b.Pruned = l.pruned.Load()
		return b, err
	})
}
