package postgres

import (
	"context"
	"database/sql"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// addKeyUses adds in the order of the names, which keeps two transactions from waiting for each other.
const addKeyUses = `
INSERT INTO key_uses AS k (kid, instance, first, last, posts)
SELECT kid, $1, first, last, posts
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS u (kid, first, last, posts) ORDER BY kid
ON CONFLICT (kid, instance) DO UPDATE
SET first = least(k.first, excluded.first), last = greatest(k.last, excluded.last), posts = k.posts + excluded.posts`

// countKeyUses counts the signing keys of outcomes and receipts.
func (l *Ledger) countKeyUses(ctx context.Context, tx *sql.Tx, outcomes []ledger.Record,
	receipts []ledger.Receipt) error {
	var kids []string
	var first, last, posts []int64
	for _, u := range tables.KeyUsesOf(outcomes, receipts) {
		if !tables.Storable(u.KeyID) {
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
