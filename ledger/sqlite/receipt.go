package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

func (l *Ledger) OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.open(tx, calls) })
}

func (l *Ledger) open(tx *sql.Tx, calls []ledger.OpenCall) error {
	for _, c := range calls {
		if err := c.Check(); err != nil {
			return err
		}
		if _, err := l.exec(tx, insertOpenCall, c.ID, c.Session, c.Started.UnixMilli(), c.Draft); err != nil {
			return ledger.Unavailable("open a call", err)
		}
	}
	return nil
}

func (l *Ledger) LeftOpen(ctx context.Context) ([]ledger.OpenCall, error) {
	return tables.OpenCalls(l.db.Read().QueryContext(ctx, selectOpen))
}

func (l *Ledger) AddReceipts(ctx context.Context, receipts ...ledger.Receipt) error {
	return l.Write(ctx, nil, nil, receipts...)
}

func (l *Ledger) addReceipt(tx *sql.Tx, r ledger.Receipt) error {
	if err := r.Check(); err != nil {
		return err
	}
	_, err := l.exec(tx, insertReceipt, r.Session, r.Number, r.Call, r.Signed.UnixMilli(), r.Token)
	if isConstraint(err) {
		var kept string
		if err = tx.QueryRow(selectToken, r.Session, r.Number).Scan(&kept); err == nil && kept != r.Token {
			return &ledger.ForkedError{Session: r.Session}
		}
	}
	if err == nil {
		_, err = l.exec(tx, deleteOpenCall, r.Call)
	}
	if err == nil && r.Number == 1 {
		_, err = l.exec(tx, insertDelivery, r.Session)
	}
	if err != nil {
		return ledger.Unavailable("write the receipt", err)
	}
	return nil
}

// ClaimDeliveries stores no claims, because the file belongs to one process: see [ledger.Deliveries].
func (l *Ledger) ClaimDeliveries(ctx context.Context, now, _ time.Time, limit int) ([]ledger.Delivery, error) {
	return tables.Deliveries(l.db.Read().QueryContext(ctx, selectDue, now.UnixMilli(), limit))
}

func (l *Ledger) SettleDeliveries(ctx context.Context, all ...ledger.Delivery) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return tables.SettleDeliveries(context.Background(), tx, all) })
}

func (l *Ledger) Backlog(ctx context.Context) (ledger.Backlog, error) {
	b, err := l.Reader.Backlog(ctx)
	b.Pruned = l.pruned.Load()
	return b, err
}
