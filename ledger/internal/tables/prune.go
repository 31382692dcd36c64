package tables

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/ledger"
)

const (
	// pruneChunk bounds what one transaction removes, so that no post waits for a whole pruning.
	pruneChunk = 256
	// maxChunks bounds one pruning, even of a database that always has more; the next one goes on.
	maxChunks = 40_000
	// pruneWindow bounds the oldest rows searched for one chunk. If as many long-lived ones came first, they would delay
	// the pruning of those after them.
	pruneWindow = 16 * pruneChunk
	// A post in flight becomes indeterminate when it is abandoned old: its instance never came back.
	abandoned = 24 * time.Hour
)

const (
	pruneKeys = `DELETE FROM consumed WHERE seq IN (
		SELECT seq FROM (SELECT seq, expires FROM consumed ORDER BY seq LIMIT $3) AS oldest WHERE expires < $1 LIMIT $2)
		RETURNING expires`
	// selectOld leaves out a record that was not exported, for a second retention.
	selectOld = `SELECT seq, started FROM posts WHERE started >= $1 AND started < $2 AND state || '' <> 'forwarding'
		AND (started < $3 OR NOT EXISTS (SELECT 1 FROM unexported WHERE unexported.seq = posts.seq))
		ORDER BY started LIMIT $4`
	deleteArtifacts = `DELETE FROM artifacts WHERE seq = $1`
	deletePost      = `DELETE FROM posts WHERE seq = $1`
	uncountKeySet   = `UPDATE key_sets SET n = n - 1 WHERE id = (SELECT keys FROM posts WHERE seq = $1)`
	// pruneReceipts removes whole chains: without its beginning, none can be verified. It searches the oldest rows,
	// because an index would slow down each receipt. It returns for each whether it was undelivered.
	pruneReceipts = `DELETE FROM receipts WHERE seq IN (SELECT seq FROM
		(SELECT seq, session FROM receipts ORDER BY seq LIMIT $3) AS r
		WHERE (SELECT signed FROM receipts AS l WHERE l.session = r.session ORDER BY number DESC LIMIT 1) < $1 LIMIT $2)
		RETURNING number > coalesce((SELECT number FROM deliveries AS d WHERE d.session = receipts.session), number)`
	// pruneOpenCalls removes calls of instances that never came back.
	pruneOpenCalls = `DELETE FROM open_calls WHERE id IN (SELECT id FROM open_calls WHERE started < $1 LIMIT $2)`
	pruneLeaves    = `DELETE FROM leaves WHERE seq IN (SELECT seq
		FROM (SELECT seq, made, number FROM leaves ORDER BY seq LIMIT $3) AS oldest
		WHERE made < $1 AND number IS NOT NULL LIMIT $2)`
	// pruneDeliveries removes deliveries without receipts.
	pruneDeliveries = `DELETE FROM deliveries WHERE session IN (SELECT session FROM deliveries AS d
		WHERE NOT EXISTS (SELECT 1 FROM receipts WHERE receipts.session = d.session) LIMIT $1)`
	// adoptUnexported leaves alone a process that is only behind: it also has newer calls. It may write the records
	// now.
	adoptUnexported = `UPDATE unexported SET instance = $1 WHERE instance IN (
		SELECT unexported.instance FROM unexported JOIN posts ON posts.seq = unexported.seq
		WHERE unexported.instance <> $1 GROUP BY unexported.instance HAVING max(posts.started) < $2)`

	selectMark = `SELECT coalesce(max(seq), 0) FROM posts`
	// keepMark adds by how much the greatest seq has fallen. In PostgreSQL it may have risen meanwhile.
	keepMark = `UPDATE identity SET pruned = pruned + $1 - coalesce((SELECT max(seq) FROM posts), 0)
		WHERE coalesce((SELECT max(seq) FROM posts), 0) < $1`
)

// Prune implements [ledger.Store]. It does nothing while another process prunes. Every post that has been in flight for
// over a day, of an instance that never came back, becomes indeterminate. An SQLite file does not shrink: its free
// pages are reused.
func (l *Ledger) Prune(ctx context.Context, now time.Time) error {
	err := l.inChunks(ctx, func(t db.Tx) (int64, error) { return forget(t, now.Add(-ledger.KeyMargin).Unix()) })
	if err == nil && l.db.Shared() {
		err = l.adopt(ctx, now.Add(-abandoned).UnixMilli())
	}
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
	plainly := func(statement string, args ...any) func(db.Tx) (int64, error) {
		return func(t db.Tx) (int64, error) { return t.Exec(statement, args...) }
	}
	remove := []func(db.Tx) (int64, error){
		func(t db.Tx) (int64, error) { return l.removeReceipts(t, oldest) },
		plainly(pruneLeaves, oldest, pruneChunk, pruneWindow), plainly(pruneDeliveries, pruneChunk),
	}
	if l.db.Shared() {
		remove = append(remove, plainly(pruneOpenCalls, oldest, pruneChunk))
	}
	for _, remove := range remove {
		if err := l.inChunks(ctx, remove); err != nil {
			return err
		}
	}
	return nil
}

// adopt ends the posts in flight that began before a time, and makes this process export the records of processes all
// of whose calls began before: they never came back.
func (l *Ledger) adopt(ctx context.Context, before int64) error {
	err := l.settle(ctx, `started < $1`, before)
	if err != nil || l.o.Ended == nil {
		return err
	}
	return l.signal(l.run(ctx, "take over exports",
		db.Statement{Query: adoptUnexported, Args: []any{l.name, before}}))
}

func (l *Ledger) inChunks(ctx context.Context, remove func(db.Tx) (int64, error)) error {
	for range maxChunks {
		if n, err := l.chunk(ctx, remove); err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// chunk removes something in one transaction and returns how much, or nothing while another process prunes.
func (l *Ledger) chunk(ctx context.Context, remove func(db.Tx) (int64, error)) (n int64, err error) {
	err = l.db.Write(ctx, "prune", func(t db.Tx) error {
		alone, err := t.Alone()
		if err == nil && alone {
			n, err = remove(t)
		}
		return err
	})
	return n, err
}

// forget removes expired keys in order of consumption, and remembers their latest expiry: keys that expire no later are
// refused.
func forget(t db.Tx, before int64) (int64, error) {
	gone, err := db.ManyIn[int64](t, pruneKeys, before, pruneChunk, pruneWindow)
	if err == nil && len(gone) > 0 {
		_, err = t.Exec(forgetUntil, slices.Max(gone))
	}
	return int64(len(gone)), err
}

// prunePosts searches outside of the transactions, and passes each record that waits for the export once.
func (l *Ledger) prunePosts(ctx context.Context, oldest, unexported int64) error {
	type place struct{ Seq, Started int64 }
	passed := int64(math.MinInt64) // the latest start among the records passed
	for range maxChunks {
		old, err := many[place](ctx, l.Reader, selectOld, passed, oldest, unexported, pruneChunk)
		if err != nil || len(old) == 0 {
			return err
		}
		passed = old[len(old)-1].Started
		var b batch
		for _, p := range old {
			b.add(deleteArtifacts, p.Seq)
			b.add(exported, p.Seq)
			if !l.db.Shared() {
				b.add(uncountKeySet, p.Seq)
			}
			b.add(deletePost, p.Seq)
		}
		n, err := l.chunk(ctx, func(t db.Tx) (int64, error) {
			mark, err := db.ManyIn[int64](t, selectMark)
			if err != nil {
				return 0, err
			}
			return int64(len(old)), t.Run(append(b, db.Statement{Query: keepMark, Args: []any{mark[0]}})...)
		})
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

func (l *Ledger) removeReceipts(t db.Tx, oldest int64) (int64, error) {
	undelivered, err := db.ManyIn[bool](t, pruneReceipts, oldest, pruneChunk, pruneWindow)
	for _, lost := range undelivered {
		if lost {
			l.pruned.Add(1)
		}
	}
	return int64(len(undelivered)), err
}
