package sqlite

import (
	"context"
	"database/sql"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/translog/leaf"
)

var _ ledger.Log = (*Ledger)(nil)

// write is db.Write. Afterwards it says that leaves were stored, if the ledger logs.
func (l *Ledger) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	err := l.db.Write(ctx, do)
	if err == nil && l.o.Logged != nil {
		l.o.Logged()
	}
	return err
}

// logIntent stores the leaf of a post that is about to go out.
func (l *Ledger) logIntent(tx *sql.Tx, r ledger.Record) error {
	if l.o.Logged == nil {
		return nil
	}
	o, err := leaf.OfIntent(r, l.o.Now())
	return l.logOne(tx, o, r.ID, err)
}

func (l *Ledger) logOutcome(tx *sql.Tx, r ledger.Record, text string) error {
	if l.o.Logged == nil {
		return nil
	}
	o, err := leaf.OfOutcome(r, text, l.o.Now())
	return l.logOne(tx, o, r.ID, err)
}

func (l *Ledger) logOne(tx *sql.Tx, o leaf.Opening, name string, err error) error {
	if err == nil {
		f := o.Leaf(name)
		_, err = l.exec(tx, insertLeaf, f.ID, f.Entry, f.Opening, f.Made)
	}
	if err != nil {
		return ledger.Unavailable("log the post", err)
	}
	return nil
}

// AddLeaves implements [ledger.Log].
func (l *Ledger) AddLeaves(ctx context.Context, leaves ...ledger.Leaf) error {
	return l.write(ctx, func(tx *sql.Tx) error {
		for _, f := range leaves {
			if _, err := tx.Exec(insertLeaf+` ON CONFLICT DO NOTHING`, f.ID, f.Entry, f.Opening, f.Made); err != nil {
				return ledger.Unavailable("log", err)
			}
		}
		return nil
	})
}

// Integrate implements [ledger.Log].
func (l *Ledger) Integrate(ctx context.Context, limit int, grow ledger.Grow) (n int, err error) {
	err = l.db.Write(ctx, func(tx *sql.Tx) (err error) {
		n, err = tables.Integrate(context.Background(), tx, limit, grow)
		return err
	})
	return n, err
}

// PutCheckpoints implements [ledger.Log].
func (l *Ledger) PutCheckpoints(ctx context.Context, c ledger.Checkpoints) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return tables.PutCheckpoints(context.Background(), tx, c) })
}
