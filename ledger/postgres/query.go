package postgres

import (
	"context"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/ledger"
)

// A page says of each row that it looks at whether it matches, and a look costs the same however few do.
const (
	findPost = `SELECT started, seq FROM actionproof.posts WHERE id = $1`
	matches  = `CASE WHEN ($5 = '' OR session = $5) AND ($6 = '' OR state = $6) AND ($7 = '' OR flow = $7) THEN `
	pagePost = `SELECT started, seq, ` + matches + `record END, ` + matches + `artifacts END FROM actionproof.posts WHERE `

	newestFirst = `(started, seq) < ($1, $2) AND started >= $3 ORDER BY started DESC, seq DESC LIMIT $4`
	oldestFirst = `(started, seq) > ($1, $2) AND started < $3 ORDER BY started, seq LIMIT $4`
)

// statement returns the query for a page. The rarest of its conditions is one that an index answers.
func statement(q ledger.Query) string {
	index := ""
	switch {
	case q.Session != "":
		index = `session = $5 AND `
	case q.State != "":
		index = `state = $6 AND `
	}
	if q.OldestFirst {
		return pagePost + index + oldestFirst
	}
	return pagePost + index + newestFirst
}

// Records yields records: see [ledger.Store].
func (l *Ledger) Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error] {
	for _, value := range []string{q.Session, string(q.State), q.Flow} {
		if !storable(value) {
			return func(func(ledger.Record, error) bool) {} // no record has it
		}
	}
	return q.Pages(func(id string) (ledger.Position, error) {
		if !storable(id) {
			return ledger.Position{}, ledger.ErrNotFound
		}
		return look(ctx, l, func(ctx context.Context) (ledger.Position, error) {
			return ledger.ScanPosition(l.db.QueryRowContext(ctx, findPost, id))
		})
	}, func(from ledger.Position, rows int) (ledger.Page, error) {
		return look(ctx, l, func(ctx context.Context) (ledger.Page, error) {
			return ledger.ScanPage(l.db.QueryContext(ctx, statement(q), from.Started, from.Seq, q.End(), rows, q.Session, string(q.State), q.Flow))
		})
	})
}

// Get returns one record: see [ledger.Store].
func (l *Ledger) Get(ctx context.Context, id string) (ledger.Record, error) {
	if !storable(id) {
		return ledger.Record{}, ledger.ErrNotFound
	}
	return ledger.Find(id, func(from, below string, rows int) ([]ledger.Record, error) {
		return look(ctx, l, func(ctx context.Context) ([]ledger.Record, error) {
			return ledger.Scan(l.db.QueryContext(ctx, `SELECT record, artifacts FROM actionproof.posts WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3`, from, below, rows))
		})
	})
}

// look reads from the database, in bounded time.
func look[T any](ctx context.Context, l *Ledger, read func(context.Context) (T, error)) (found T, err error) {
	if l.closed.Load() {
		return found, ledger.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, operation)
	defer cancel()
	return read(ctx)
}

// storable reports whether PostgreSQL can hold s: then something there may equal it.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
