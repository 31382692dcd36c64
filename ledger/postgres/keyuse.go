package postgres

import (
	"context"
	"database/sql"

	"github.com/actionproof/mediator/ledger"
)

const (
	// keyUseTables have rows of its own for each instance: two sidecars that count the same key do not wait for each other.
	keyUseTables = `
CREATE TABLE actionproof.key_uses (
	kid      text COLLATE "C" NOT NULL,
	instance text COLLATE "C" NOT NULL,
	first    bigint NOT NULL, -- Unix milliseconds
	last     bigint NOT NULL, -- Unix milliseconds
	posts    bigint NOT NULL,
	PRIMARY KEY (kid, instance)
);
CREATE TABLE actionproof.key_uses_since ( -- one row
	one   int PRIMARY KEY CHECK (one = 1),
	since bigint NOT NULL -- Unix milliseconds
);`
	insertSince = `INSERT INTO actionproof.key_uses_since (one, since) VALUES (1, $1)`
	// addKeyUses adds in the order of the names, which keeps two transactions from waiting for each other.
	addKeyUses = `
INSERT INTO actionproof.key_uses AS k (kid, instance, first, last, posts)
SELECT kid, $1, first, last, posts FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS u (kid, first, last, posts) ORDER BY kid
ON CONFLICT (kid, instance) DO UPDATE
SET first = least(k.first, excluded.first), last = greatest(k.last, excluded.last), posts = k.posts + excluded.posts`
	selectSince   = `SELECT since FROM actionproof.key_uses_since`
	selectKeyUses = `SELECT kid, min(first), max(last), sum(posts)::bigint FROM actionproof.key_uses GROUP BY kid ORDER BY kid`
)

// countKeyUses counts, in one statement, which keys outcomes and receipts rest on.
func (l *Ledger) countKeyUses(ctx context.Context, tx *sql.Tx, outcomes []ledger.Record, receipts []ledger.Receipt) error {
	var kids []string
	var first, last, posts []int64
	for _, u := range ledger.KeyUsesOf(outcomes, receipts) {
		if !storable(u.KeyID) {
			continue
		}
		kids, posts = append(kids, u.KeyID), append(posts, u.Posts)
		first, last = append(first, u.First.UnixMilli()), append(last, u.Last.UnixMilli())
	}
	if len(kids) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, addKeyUses, l.o.Instance, kids, first, last, posts); err != nil {
		return ledger.Unavailable("count the uses of keys", err)
	}
	return nil
}

// KeyUses returns which keys the posts and receipts on record rest on, of all instances: see [ledger.Store].
func (l *Ledger) KeyUses(ctx context.Context) (ledger.KeyUses, error) {
	return look(ctx, l, func(ctx context.Context) (ledger.KeyUses, error) {
		return ledger.ScanKeyUses(l.db.QueryRowContext(ctx, selectSince), func() (*sql.Rows, error) { return l.db.QueryContext(ctx, selectKeyUses) })
	})
}
