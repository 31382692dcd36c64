package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

const (
	// pruneChunk bounds what one transaction removes.
	pruneChunk = 1000
	// maxChunks bounds one pruning, even of a database that always has more; the next one goes on.
	maxChunks = 1000
	// A post in flight becomes indeterminate when it is abandoned old: its instance never came back.
	abandoned = 24 * time.Hour
)

const (
	forgetKeys = `
WITH oldest AS (SELECT max(expires) AS until
	FROM (SELECT expires FROM consumed WHERE expires < $1 ORDER BY expires LIMIT $2) AS o),
     forget AS (INSERT INTO forgotten (one, expires) SELECT 1, until FROM oldest WHERE until IS NOT NULL
                ON CONFLICT (one) DO UPDATE SET expires = greatest(forgotten.expires, excluded.expires))
DELETE FROM consumed WHERE expires <= (SELECT until FROM oldest)`
	keepMark = `UPDATE identity SET pruned = greatest(pruned, (SELECT max(seq) FROM posts))`
	// prunePosts keeps a record that was not exported for a second retention.
	prunePosts = `
WITH old AS (DELETE FROM posts WHERE seq IN (
	SELECT seq FROM posts WHERE started < $1 AND state <> 'forwarding'
	AND (started < $3 OR NOT EXISTS (SELECT FROM unexported WHERE unexported.seq = posts.seq)) ORDER BY started LIMIT $2
	) RETURNING seq),
     left_over AS (DELETE FROM unexported USING old WHERE unexported.seq = old.seq)
SELECT FROM old`
)

// Prune implements [ledger.Store]. It does nothing while another process prunes. Every post that has been in flight for
// over a day becomes indeterminate.
func (l *Ledger) Prune(ctx context.Context, now time.Time) error {
	before := now.Add(-ledger.KeyMargin).Unix()
	if err := l.inChunks(ctx, plainly(forgetKeys, before, pruneChunk)); err != nil {
		return err
	}
	if err := l.settle(ctx, `started < $1`, now.Add(-abandoned).UnixMilli()); err != nil {
		return err
	}
	if err := l.adopt(ctx, now.Add(-abandoned)); err != nil || l.o.Retention <= 0 {
		return err
	}
	oldest := now.Add(-l.o.Retention).UnixMilli()
	unexported := oldest
	if l.o.Ended != nil {
		unexported = now.Add(-2 * l.o.Retention).UnixMilli()
	}
	for _, remove := range []func(context.Context, *sql.Tx) (int64, error){
		plainly(prunePosts, oldest, pruneChunk, unexported), l.removeReceipts(oldest),
		plainly(pruneOpenCalls, oldest, pruneChunk),
		plainly(pruneLeaves, oldest, pruneChunk),
		plainly(tables.PruneDeliveries, pruneChunk),
	} {
		if err := l.inChunks(ctx, remove); err != nil {
			return err
		}
	}
	return nil
}

func plainly(statement string, args ...any) func(context.Context, *sql.Tx) (int64, error) {
	return func(ctx context.Context, tx *sql.Tx) (int64, error) {
		return tables.Affected(tx.ExecContext(ctx, statement, args...))
	}
}

func (l *Ledger) removeReceipts(oldest int64) func(context.Context, *sql.Tx) (int64, error) {
	return func(ctx context.Context, tx *sql.Tx) (n int64, err error) {
		var unsent int64
		err = tx.QueryRowContext(ctx, pruneReceipts, oldest, pruneChunk).Scan(&n, &unsent)
		l.pruned.Add(unsent)
		return n, err
	}
}

func (l *Ledger) inChunks(ctx context.Context, remove func(context.Context, *sql.Tx) (int64, error)) error {
	for range maxChunks {
		var n int64
		err := l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			var mine bool
			err := tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(lockID)).Scan(&mine)
			if err == nil && mine {
				_, err = tx.ExecContext(ctx, keepMark)
			}
			if err == nil && mine {
				n, err = remove(ctx, tx)
			}
			if err != nil {
				return ledger.Unavailable("prune", err)
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}
