// Package tables is the common part of the ledgers in SQLite and PostgreSQL: the columns of records, and SQL that both
// databases understand. $1 is the first parameter in both.
package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actionproof/mediator/ledger"
)

const timeout = 10 * time.Second

// Dialect is the SQL that differs.
type Dialect struct {
	Identity  string // selects the id, the mark, and how often the ledger was accepted
	Artifacts string // the artifacts of a row of posts
	ByKeys    string // names the index posts_keys; empty if the database finds it
	Sets      string // the numbers in $8, a JSON list
	KeyUses   string // selects of each key set in use the kids, the first and the last start, and how many records

	// Of the transparency log:
	Pending string // counts pending leaves, at most one
	Number  string // numbers at most $2 pending leaves from $1 on, and returns the number and entry of each
	Index   string // the number of a row of leaves, or -1
}

// Posts begins a statement whose rows [Posts] reads.
func (d Dialect) Posts() string { return `SELECT record, ` + d.Artifacts + ` FROM posts ` }

// Reader is the reading part of a [ledger.Store].
type Reader struct {
	db *sql.DB
	d  Dialect
}

func NewReader(db *sql.DB, d Dialect) Reader { return Reader{db, d} }

// Statements that write, the same in both databases.
const (
	InsertAcceptance = `INSERT INTO accepted (acceptance) VALUES ($1)`
	InsertIdentity   = `INSERT INTO identity (one, id, pruned) VALUES (1, $1, 0) ON CONFLICT DO NOTHING`
	// PruneDeliveries removes deliveries without receipts.
	PruneDeliveries = `DELETE FROM deliveries WHERE session IN (SELECT session FROM deliveries AS d
		WHERE NOT EXISTS (SELECT 1 FROM receipts WHERE receipts.session = d.session) LIMIT $1)`

	settleDelivery = `UPDATE deliveries SET number = $2, due = $3, refused = $4 WHERE session = $1`
	endDelivery    = `DELETE FROM deliveries WHERE session = $1`
)

const (
	selectReceipts    = `SELECT session, number, call, signed, token FROM receipts WHERE session = $1 `
	selectAcceptances = `SELECT acceptance FROM accepted ORDER BY seq`
	selectKeySets     = `SELECT id, kids FROM key_sets`
	lastNumber        = `(SELECT number FROM receipts AS r WHERE r.session = d.session ORDER BY number DESC LIMIT 1)`
	selectBacklog     = `SELECT CAST(coalesce(sum(` + lastNumber +
		` - number), 0) AS bigint), min((SELECT signed FROM receipts AS r
		WHERE r.session = d.session AND r.number > d.number ORDER BY r.number LIMIT 1)),
		count(nullif(refused, '')), coalesce(max(refused), '') FROM deliveries AS d`
)

func (r Reader) Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error] {
	if !Storable(q.Session) || !Storable(q.Flow) || !Storable(string(q.State)) {
		return func(func(ledger.Record, error) bool) {} // no record has it
	}
	args := []any{q.Session, string(q.State), q.Flow}
	if q.Key != "" {
		sets, err := r.keySets(ctx, q.Key)
		if err != nil {
			return func(yield func(ledger.Record, error) bool) { yield(ledger.Record{}, err) }
		}
		args = append(args, sets)
	}
	return pages(q, func(id string) (at position, err error) {
		if !Storable(id) {
			return at, ledger.ErrNotFound
		}
		err = r.one(ctx, `SELECT started, seq FROM posts WHERE id = $1`, []any{id}, &at.started, &at.seq)
		return at, err
	}, func(from position, rows int) (page, error) {
		return r.page(ctx, q, append([]any{from.started, from.seq, last(q), rows}, args...))
	})
}

// minPrefix is the shortest beginning of an id that names a record.
const minPrefix = 6

func (r Reader) Get(ctx context.Context, id string) (ledger.Record, error) {
	if len(id) < minPrefix || !Storable(id) {
		return ledger.Record{}, ledger.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := Posts(r.db.QueryContext(ctx, r.d.Posts()+`WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3`,
		id, id+"\U0010FFFF", ledger.MaxSeveral+1))
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

func (r Reader) Chain(ctx context.Context, session string, from int64, limit int) (all []ledger.Receipt, err error) {
	if !Storable(session) {
		return nil, nil
	}
	size := 0
	err = r.each(ctx, selectReceipts+`AND number >= $2 ORDER BY number LIMIT $3`,
		[]any{session, from, min(limit, ledger.MaxChain)}, func(rows *sql.Rows) error {
			c, err := receipt(rows)
			if size += len(c.Token); size > maxChainBytes { // see pageBytes
				err = errors.New("the receipts are longer than any that were signed")
			}
			all = append(all, c)
			return err
		})
	return all, err
}

// maxChainBytes is twice as much as [ledger.MaxChain] receipts can have.
const maxChainBytes = 64 << 20

func (r Reader) LastReceipt(ctx context.Context, session string) (last ledger.Receipt, err error) {
	if !Storable(session) {
		return last, ledger.ErrNotFound
	}
	err = r.each(ctx, selectReceipts+`ORDER BY number DESC LIMIT 1`, []any{session}, func(rows *sql.Rows) (err error) {
		last, err = receipt(rows)
		return err
	})
	if err == nil && last.Token == "" {
		err = ledger.ErrNotFound
	}
	return last, err
}

// Backlog does not count pruned receipts.
func (r Reader) Backlog(ctx context.Context) (b ledger.Backlog, err error) {
	var oldest sql.NullInt64
	err = r.one(ctx, selectBacklog, nil, &b.Receipts, &oldest, &b.Refused, &b.Reason)
	if oldest.Valid {
		b.Oldest = at(oldest.Int64)
	}
	return b, err
}

func SettleDeliveries(ctx context.Context, tx *sql.Tx, all []ledger.Delivery) (err error) {
	for _, d := range all {
		if d.Whole {
			_, err = tx.ExecContext(ctx, endDelivery, d.Session)
		} else {
			_, err = tx.ExecContext(ctx, settleDelivery, d.Session, d.Number, d.Due.UnixMilli(), d.Refused)
		}
		if err != nil {
			return ledger.Unavailable("settle deliveries", err)
		}
	}
	return nil
}

func (r Reader) Acceptances(ctx context.Context) ([]ledger.Acceptance, error) {
	all := []ledger.Acceptance{}
	err := r.each(ctx, selectAcceptances, nil, func(rows *sql.Rows) error {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		var a ledger.Acceptance
		err := json.Unmarshal(raw, &a)
		all = append(all, a)
		return err
	})
	return all, err
}

func (r Reader) Identity(ctx context.Context) (i ledger.Identity, err error) {
	err = r.one(ctx, r.d.Identity, nil, &i.ID, &i.Mark, &i.Accepted)
	return i, err
}

func (r Reader) one(ctx context.Context, query string, args []any, to ...any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.db.QueryRowContext(ctx, query, args...).Scan(to...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ledger.ErrNotFound
	case err != nil:
		return ledger.Unavailable("read", err)
	}
	return nil
}

func (r Reader) each(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := r.db.QueryContext(ctx, query, args...)
	return Each(rows, err, func() error { return scan(rows) })
}

// Storable reports whether PostgreSQL can hold s. If not, no row equals it.
func Storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
