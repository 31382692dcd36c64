package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
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
	// selectOld leaves out a record that was not exported, for a second retention.
	selectOld = `SELECT seq, started FROM posts WHERE started >= ? AND started < ? AND +state <> 'forwarding'
		AND (started < ? OR NOT EXISTS (SELECT 1 FROM unexported WHERE unexported.seq = posts.seq))
		ORDER BY started LIMIT ?`
	listed          = `(SELECT value FROM json_each(?))` // of places
	deleteArtifacts = `DELETE FROM artifacts WHERE seq IN ` + listed
	deletePosts     = `DELETE FROM posts WHERE seq IN ` + listed
	// pruneReceipts removes whole chains: without its beginning, none can be verified. It searches the oldest rows,
	// because an index would slow down each receipt.
	pruneReceipts = `DELETE FROM receipts WHERE seq IN (SELECT seq FROM
		(SELECT seq, session FROM receipts ORDER BY seq LIMIT ?3) AS r
		WHERE (SELECT signed FROM receipts AS l WHERE l.session = r.session ORDER BY number DESC LIMIT 1) < ?1 LIMIT ?2)
		RETURNING number > coalesce((SELECT number FROM deliveries AS d WHERE d.session = receipts.session), number)`
	pruneLeaves = `DELETE FROM leaves WHERE seq IN (SELECT seq FROM
		(SELECT seq, made FROM leaves ORDER BY seq LIMIT ?3)
		WHERE made < ?1 AND seq <= ` + numbered + ` AND seq < (SELECT max(seq) FROM leaves) LIMIT ?2)`
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
	if err := l.prunePosts(ctx, oldest, unexported); err != nil {
		return err
	}
	for _, remove := range []func(*sql.Tx) (int64, error){
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

// prunePosts searches outside of the writer, and passes each record that waits for the export once.
func (l *Ledger) prunePosts(ctx context.Context, oldest, unexported int64) error {
	passed := int64(math.MinInt64) // the latest start among the records passed
	for {
		var places []int64
		rows, err := l.db.Read().QueryContext(ctx, selectOld, passed, oldest, unexported, pruneChunk)
		err = tables.Each(rows, err, func() error {
			var place int64
			err := rows.Scan(&place, &passed)
			places = append(places, place)
			return err
		})
		if err != nil || len(places) == 0 {
			return err
		}
		if err := l.db.Write(ctx, func(tx *sql.Tx) error { return removePosts(tx, listOf(places)) }); err != nil {
			return err
		}
	}
}

// removePosts keeps the mark.
func removePosts(tx *sql.Tx, list string) error {
	var mark int64
	err := tx.QueryRow(selectMark).Scan(&mark)
	for _, remove := range []string{deleteArtifacts, deleteUnexported, deletePosts} {
		if err == nil {
			_, err = tx.Exec(remove, list)
		}
	}
	if err == nil {
		_, err = tx.Exec(keepMark, mark)
	}
	if err != nil {
		return ledger.Unavailable("prune", err)
	}
	return nil
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
