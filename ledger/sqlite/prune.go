package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

const (
	// pruneChunk bounds what one transaction removes, so that no post waits for a whole pruning.
	pruneChunk = 256
	// pruneWindow bounds the oldest keys searched for one chunk. If as many long-lived keys came first, they would
	// delay the pruning of those after them.
	pruneWindow = 16 * pruneChunk
)

const (
	pruneKeys = `DELETE FROM used WHERE seq IN (
		SELECT seq FROM (SELECT seq, expires FROM used ORDER BY seq LIMIT ?) WHERE expires < ? LIMIT ?)
		RETURNING expires`
	// oldPosts keeps a record that was not exported for a second retention.
	oldPosts = `WHERE seq IN (
		SELECT seq FROM posts WHERE started < ?1 AND +state <> 'forwarding'
		AND (started < ?3 OR NOT EXISTS (SELECT 1 FROM unexported WHERE unexported.id = posts.id))
		ORDER BY started LIMIT ?2)`
	pruneArtifacts  = `DELETE FROM artifacts ` + oldPosts
	pruneUnexported = `DELETE FROM unexported WHERE id IN (SELECT id FROM posts ` + oldPosts + `)`
	prunePosts      = `DELETE FROM posts ` + oldPosts
	// pruneReceipts removes whole chains: without its beginning, none can be verified. It searches the oldest rows,
	// because an index would slow down each receipt.
	pruneReceipts = `DELETE FROM receipts WHERE seq IN (SELECT seq FROM
		(SELECT seq, session FROM receipts ORDER BY seq LIMIT ?3) AS r
		WHERE (SELECT signed FROM receipts AS l WHERE l.session = r.session ORDER BY number DESC LIMIT 1) < ?1 LIMIT ?2)
		RETURNING number > coalesce((SELECT number FROM deliveries AS d WHERE d.session = receipts.session), number)`
	pruneLeaves = `DELETE FROM leaves WHERE seq IN (SELECT seq FROM
		(SELECT seq, made, number FROM leaves ORDER BY seq LIMIT ?3) WHERE made < ?1 AND number IS NOT NULL LIMIT ?2)`
	selectMark = `SELECT coalesce(max(seq), 0) FROM posts`
	keepMark   = `UPDATE identity SET pruned = pruned + ? - coalesce((SELECT max(seq) FROM posts), 0)`
)

// Prune implements [ledger.Store]. The file does not shrink: its free pages are reused.
func (l *Ledger) Prune(ctx context.Context, now time.Time) error {
	err := l.inChunks(ctx, func(tx *sql.Tx) (int64, error) { return l.forget(tx, now.Add(-ledger.KeyMargin).Unix()) })
	if err != nil || l.o.Retention <= 0 {
		return err
	}
	oldest := now.Add(-l.o.Retention).UnixMilli()
	unexported := oldest
	if l.o.Ended != nil {
		unexported = now.Add(-2 * l.o.Retention).UnixMilli()
	}
	for _, remove := range []func(*sql.Tx) (int64, error){
		func(tx *sql.Tx) (int64, error) { return removePosts(tx, oldest, unexported) },
		func(tx *sql.Tx) (int64, error) {
			n, unsent, err := removeReceipts(tx, oldest)
			l.pruned.Add(unsent)
			return n, err
		},
		func(tx *sql.Tx) (int64, error) {
			return tables.Affected(tx.Exec(pruneLeaves, oldest, pruneChunk, pruneWindow))
		},
		func(tx *sql.Tx) (int64, error) { return tables.Affected(tx.Exec(tables.PruneDeliveries, pruneChunk)) },
	} {
		if err := l.inChunks(ctx, remove); err != nil {
			return err
		}
	}
	return nil
}

// removePosts keeps the mark.
func removePosts(tx *sql.Tx, oldest, unexported int64) (n int64, err error) {
	var mark int64
	if err := tx.QueryRow(selectMark).Scan(&mark); err != nil {
		return 0, err
	}
	for _, remove := range []string{pruneArtifacts, pruneUnexported, prunePosts} { // the last one counts
		if n, err = tables.Affected(tx.Exec(remove, oldest, pruneChunk, unexported)); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	_, err = tx.Exec(keepMark, mark)
	return n, err
}

func removeReceipts(tx *sql.Tx, oldest int64) (n, unsent int64, err error) {
	rows, err := tx.Query(pruneReceipts, oldest, pruneChunk, pruneWindow)
	err = tables.Each(rows, err, func() error {
		var lost bool
		err := rows.Scan(&lost)
		if n++; lost {
			unsent++
		}
		return err
	})
	return n, unsent, err
}

func (l *Ledger) inChunks(ctx context.Context, remove func(tx *sql.Tx) (int64, error)) error {
	for {
		var n int64
		err := l.db.Write(ctx, func(tx *sql.Tx) (err error) {
			if n, err = remove(tx); err != nil {
				return ledger.Unavailable("prune", err)
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

// forget removes expired keys in order of consumption, and remembers their latest expiry.
func (l *Ledger) forget(tx *sql.Tx, before int64) (n int64, err error) {
	rows, err := tx.Query(pruneKeys, pruneWindow, before, pruneChunk)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	latest := l.forgotten // only rises: keys that expire no later are refused
	for ; rows.Next(); n++ {
		var expires int64
		if err := rows.Scan(&expires); err != nil {
			return 0, err
		}
		latest = max(latest, expires)
	}
	if err := rows.Err(); err != nil || n == 0 {
		return 0, err
	}
	return n, l.forgetUntil(tx, latest)
}

func (l *Ledger) forgetUntil(tx *sql.Tx, expires int64) error {
	latest := max(l.forgotten, expires)
	if _, err := tx.Exec(`INSERT INTO forgotten (one, expires) VALUES (1, ?1) ON CONFLICT DO UPDATE SET expires = ?1`,
		latest); err != nil {
		return err
	}
	l.forgotten = latest // too late if the commit fails: the safe side
	return nil
}

func (l *Ledger) recall(tx *sql.Tx) error {
	err := tx.QueryRow(`SELECT expires FROM forgotten`).Scan(&l.forgotten)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ledger.Unavailable("read", err)
	}
	return nil
}
