package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// KeyMargin is how long a consumed key is kept after its artifact has expired: longer than any clock is wrong by.
	KeyMargin = 24 * time.Hour
	// pruneChunk bounds what one transaction removes, so that a post never waits for a whole pruning.
	pruneChunk = 256
	// pruneWindow bounds how many of the oldest keys are looked at for one chunk. So many that live for long, all consumed before the others,
	// would keep those in the file for as long.
	pruneWindow = 16 * pruneChunk
)

const (
	pruneKeys = `DELETE FROM used WHERE seq IN (SELECT seq FROM (SELECT seq, expires FROM used ORDER BY seq LIMIT ?) WHERE expires < ? LIMIT ?)
		RETURNING expires`
	oldPosts       = `WHERE seq IN (SELECT seq FROM posts WHERE started < ? AND +state <> 'forwarding' ORDER BY started LIMIT ?)`
	pruneArtifacts = `DELETE FROM artifacts ` + oldPosts
	prunePosts     = `DELETE FROM posts ` + oldPosts
)

// Prune removes what can never be replayed and what is too old: see [Store]. The file does not shrink: its free pages are used again.
func (l *Ledger) Prune(ctx context.Context, now time.Time) error {
	err := l.inChunks(ctx, func(tx *sql.Tx) (int64, error) { return l.forget(tx, now.Add(-KeyMargin).Unix()) })
	if err != nil || l.o.Retention <= 0 {
		return err
	}
	oldest := now.Add(-l.o.Retention).UnixMilli()
	if err := l.inChunks(ctx, func(tx *sql.Tx) (int64, error) { return removePosts(tx, oldest) }); err != nil {
		return err
	}
	err = l.inChunks(ctx, func(tx *sql.Tx) (int64, error) {
		n, unsent, err := removeReceipts(tx, oldest)
		l.pruned.Add(unsent)
		return n, err
	})
	if err != nil {
		return err
	}
	return l.inChunks(ctx, func(tx *sql.Tx) (int64, error) { return affected(tx.Exec(pruneDeliveries, pruneChunk)) })
}

// removePosts removes at most pruneChunk of the posts that started before a time, in Unix milliseconds, and keeps the mark.
func removePosts(tx *sql.Tx, oldest int64) (n int64, err error) {
	var mark int64
	if err := tx.QueryRow(selectMark).Scan(&mark); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(pruneArtifacts, oldest, pruneChunk); err != nil {
		return 0, err
	}
	if n, err = affected(tx.Exec(prunePosts, oldest, pruneChunk)); err != nil || n == 0 {
		return n, err
	}
	_, err = tx.Exec(keepMark, mark)
	return n, err
}

// inChunks runs remove in one transaction after another until it finds nothing more. Other writes come in between.
func (l *Ledger) inChunks(ctx context.Context, remove func(tx *sql.Tx) (int64, error)) error {
	for {
		var n int64
		err := l.db.Write(ctx, func(tx *sql.Tx) (err error) {
			if n, err = remove(tx); err != nil {
				return Unavailable("prune", err)
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

// forget removes at most pruneChunk of the keys that expired before the Unix second before, those consumed first, and remembers the latest
// expiry of them.
func (l *Ledger) forget(tx *sql.Tx, before int64) (n int64, err error) {
	rows, err := tx.Query(pruneKeys, pruneWindow, before, pruneChunk)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	latest := l.forgotten // keys that expire no later are refused, so it only rises
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

// forgetUntil remembers that nobody knows any more which keys were used that expire by a time, in Unix seconds.
func (l *Ledger) forgetUntil(tx *sql.Tx, expires int64) error {
	latest := max(l.forgotten, expires)
	if _, err := tx.Exec(`INSERT INTO forgotten (one, expires) VALUES (1, ?1) ON CONFLICT DO UPDATE SET expires = ?1`, latest); err != nil {
		return err
	}
	l.forgotten = latest // too much if the commit fails: the safe side
	return nil
}

// recall reads how far earlier prunings came.
func (l *Ledger) recall(tx *sql.Tx) error {
	err := tx.QueryRow(`SELECT expires FROM forgotten`).Scan(&l.forgotten)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Unavailable("read", err)
	}
	return nil
}
