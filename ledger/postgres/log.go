package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/translog/leaf"
)

var _ ledger.Log = (*Ledger)(nil)

const (
	insertLeaves = `INSERT INTO leaves (id, entry, opening, made)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) ON CONFLICT DO NOTHING`
	pruneLeaves = `DELETE FROM leaves WHERE seq IN (SELECT seq
	FROM (SELECT seq, made, number FROM leaves ORDER BY seq LIMIT $2) AS oldest WHERE made < $1 AND number IS NOT NULL)`
)

// leaves are the columns of leaves, and the post that each is of. They are part of the statements that store posts, so
// that they cost no round trip.
type leaves struct {
	posts, ids, entries, openings []string
	made                          []int64
}

func (l *leaves) add(f ledger.Leaf, post string) {
	l.posts, l.ids, l.entries = append(l.posts, post), append(l.ids, f.ID), append(l.entries, f.Entry)
	l.openings, l.made = append(l.openings, f.Opening), append(l.made, f.Made)
}

// logIntent adds the leaf of a post that is about to go out, if the ledger logs.
func (l *Ledger) logIntent(to *leaves, r ledger.Record) error {
	if l.o.Logged == nil || r.State != ledger.StateForwarding {
		return nil
	}
	o, err := leaf.OfIntent(r, l.o.Now())
	if err != nil {
		return ledger.Unavailable("log the post", err)
	}
	to.add(o.Leaf(r.ID), r.ID)
	return nil
}

func (l *Ledger) logOutcome(ctx context.Context, tx *sql.Tx, to *leaves, r ledger.Record, text string) error {
	if l.o.Logged == nil {
		return nil
	}
	logged, err := tables.LeavesOf(ctx, tx, r, text, l.o.Now())
	for _, f := range logged {
		to.add(f, r.ID)
	}
	return err
}

// logged says that leaves, or ends of calls, may have been stored.
func (l *Ledger) logged(err error) error {
	if err == nil && l.o.Logged != nil {
		l.o.Logged()
	}
	if err == nil && l.o.Ended != nil {
		l.o.Ended()
	}
	return err
}

// AddLeaves implements [ledger.Log].
func (l *Ledger) AddLeaves(ctx context.Context, all ...ledger.Leaf) error {
	var add leaves
	for _, f := range all {
		add.add(f, "")
	}
	return l.logged(l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, insertLeaves, add.ids, add.entries, add.openings, add.made); err != nil {
			return ledger.Unavailable("log", err)
		}
		return nil
	}))
}

// Integrate implements [ledger.Log].
func (l *Ledger) Integrate(ctx context.Context, limit int, grow ledger.Grow) (n int, err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		n, err = dialect.Integrate(ctx, tx, limit, grow, pgx.QueryExecModeExec)
		return err
	})
	return n, err
}

// PutCheckpoints implements [ledger.Log].
func (l *Ledger) PutCheckpoints(ctx context.Context, c ledger.Checkpoints) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error { return tables.PutCheckpoints(ctx, tx, c) })
}
