// Package tables is the ledger in a database: in an SQLite file, or in PostgreSQL. Both run the same statements, but
// for a few that ask [db.DB.Shared].
package tables

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/ledger"
)

// timeout bounds a read.
const timeout = 10 * time.Second

// Reader is the reading part of a [ledger.Store].
type Reader struct{ db *db.DB }

// NewReader returns a reader of a database with the [Schema], and closes it.
func NewReader(d *db.DB) Reader { return Reader{d} }

// Close closes the database.
func (r Reader) Close() error { return r.db.Close() }

func each[T any](ctx context.Context, r Reader, query string, args []any, do func(T) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return db.Each(ctx, r.db, "read", query, args, do)
}

func many[T any](ctx context.Context, r Reader, query string, args ...any) (all []T, err error) {
	err = each(ctx, r, query, args, func(one T) error { all = append(all, one); return nil })
	return all, err
}

// one returns the first row, or [ledger.ErrNotFound].
func one[T any](ctx context.Context, r Reader, query string, args ...any) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return db.One[T](ctx, r.db, "read", query, args...)
}

const artifacts = `(SELECT artifacts FROM artifacts WHERE artifacts.seq = posts.seq)`

// posts returns the records that a condition selects.
func (r Reader) posts(ctx context.Context, where string, args ...any) (all []ledger.Record, err error) {
	type row struct{ Record, Artifacts []byte }
	err = each(ctx, r, `SELECT record, `+artifacts+` FROM posts `+where, args, func(found row) error {
		p, err := decode(found.Record, found.Artifacts)
		all = append(all, p)
		return err
	})
	return all, err
}

func (r Reader) Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error] {
	for _, text := range []string{q.Session, q.Flow, string(q.State)} {
		if !db.Storable(text) {
			return func(func(ledger.Record, error) bool) {} // no record has it
		}
	}
	sets := ""
	if q.Key != "" {
		var err error
		if sets, err = r.keySets(ctx, q.Key); err != nil {
			return func(yield func(ledger.Record, error) bool) { yield(ledger.Record{}, err) }
		}
	}
	return pages(q, func(id string) (position, error) {
		return one[position](ctx, r, `SELECT started, seq FROM posts WHERE id = $1`, id)
	}, func(from position, rows int) (page, error) {
		return r.page(ctx, q, sets, []any{from.Started, from.Seq, last(q), rows, q.Session, string(q.State), q.Flow})
	})
}

// minPrefix is the shortest beginning of an id that names a record.
const minPrefix = 6

func (r Reader) Get(ctx context.Context, id string) (ledger.Record, error) {
	if len(id) < minPrefix {
		return ledger.Record{}, ledger.ErrNotFound
	}
	found, err := r.posts(ctx, `WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3`, id, id+"\U0010FFFF",
		ledger.MaxSeveral+1)
	switch {
	case err != nil:
		return ledger.Record{}, err
	case len(found) == 0:
		return ledger.Record{}, ledger.ErrNotFound
	case len(found) == 1 || found[0].ID == id: // an id that is the beginning of another comes first
		return found[0], nil
	}
	several := &ledger.SeveralError{Prefix: id, More: len(found) > ledger.MaxSeveral}
	for _, p := range found[:min(len(found), ledger.MaxSeveral)] {
		several.IDs = append(several.IDs, p.ID)
	}
	return ledger.Record{}, several
}

func (r Reader) Acceptances(ctx context.Context) ([]ledger.Acceptance, error) {
	all := []ledger.Acceptance{}
	err := each(ctx, r, `SELECT acceptance FROM accepted ORDER BY seq`, nil, func(text string) error {
		var a ledger.Acceptance
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return ledger.Unavailable("read", err)
		}
		all = append(all, a)
		return nil
	})
	return all, err
}

// selectIdentity adds what pruning lost of the greatest seq of the records to it: so the mark costs a post nothing. It
// reads rows and no sequence, because a visible row is durable.
const selectIdentity = `SELECT id, pruned + coalesce((SELECT max(seq) FROM posts), 0), (SELECT count(*) FROM accepted)
	FROM identity`

func (r Reader) Identity(ctx context.Context) (ledger.Identity, error) {
	return one[ledger.Identity](ctx, r, selectIdentity)
}
