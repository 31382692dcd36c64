package sqlite

import (
	"context"
	"database/sql"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/translog/leaf"
)

var _ ledger.Log = (*Ledger)(nil)

// write is db.Write. Afterwards it says that leaves, or ends of calls, may have been stored.
func (l *Ledger) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	err := l.db.Write(ctx, do)
	if err == nil && l.o.Logged != nil {
		l.o.Logged()
	}
	if err == nil && l.o.Ended != nil {
		l.o.Ended()
	}
	return err
}

// intent returns the leaf of a post that is about to go out, if the ledger logs. It works outside of the writer.
func (l *Ledger) intent(r ledger.Record) ([]ledger.Leaf, error) {
	if l.o.Logged == nil {
		return nil, nil
	}
	o, err := leaf.OfIntent(r, l.o.Now())
	if err != nil {
		return nil, ledger.Unavailable("log the post", err)
	}
	return []ledger.Leaf{o.Leaf(r.ID)}, nil
}

func (l *Ledger) logOutcome(tx *sql.Tx, r ledger.Record, text string) error {
	if l.o.Logged == nil {
		return nil
	}
	logged, err := tables.LeavesOf(context.Background(), tx, r, text, l.o.Now())
	if err != nil {
		return err
	}
	return l.log(tx, logged...)
}

func (l *Ledger) log(tx *sql.Tx, leaves ...ledger.Leaf) error {
	for _, f := range leaves {
		if _, err := l.exec(tx, insertLeaf, f.ID, f.Entry, f.Opening, f.Made); err != nil {
			return ledger.Unavailable("log the post", err)
		}
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
		n, err = dialect.Integrate(context.Background(), tx, limit, grow)
		return err
	})
	return n, err
}

// PutCheckpoints implements [ledger.Log].
func (l *Ledger) PutCheckpoints(ctx context.Context, c ledger.Checkpoints) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return tables.PutCheckpoints(context.Background(), tx, c) })
}
