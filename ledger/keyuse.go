package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// KeyUse is what a ledger has counted of one version of a signing key.
type KeyUse struct {
	KeyID string    `json:"keyId"`
	First time.Time `json:"first"` // of a post that began, its start; of an interaction receipt, when it was signed
	Last  time.Time `json:"last"`
	Posts int64     `json:"posts"` // that went out, or may have, and have an artifact that the version has signed
}

// KeyUses are the uses of all versions that a ledger has counted, also of those whose records it has pruned. A post counts with its outcome.
type KeyUses struct {
	Since time.Time `json:"since"` // nothing before was counted: the ledger, or its count, is as old as that
	Keys  []KeyUse  `json:"keys"`
}

// KeyUsesOf sums up which versions of keys outcomes and receipts rest on, in the order of their names.
func KeyUsesOf(outcomes []Record, receipts []Receipt) []KeyUse {
	uses := make(map[string]KeyUse)
	add := func(token string, at time.Time, posts int64) {
		kid := keyOf(token)
		if kid == "" {
			return
		}
		u, known := uses[kid]
		if !known {
			u = KeyUse{KeyID: kid, First: at, Last: at}
		}
		if at.Before(u.First) {
			u.First = at
		}
		if at.After(u.Last) {
			u.Last = at
		}
		u.Posts += posts
		uses[kid] = u
	}
	for _, r := range outcomes {
		counted := make(map[string]bool)
		for _, a := range r.Artifacts {
			posts := int64(0)
			if kid := keyOf(a.Token); !counted[kid] && r.State != StateFailed {
				counted[kid], posts = true, 1
			}
			add(a.Token, r.Started, posts)
		}
	}
	for _, r := range receipts {
		add(r.Token, r.Signed, 0)
	}
	return slices.SortedFunc(maps.Values(uses), func(a, b KeyUse) int { return cmp.Compare(a.KeyID, b.KeyID) })
}

// keyOf returns the kid in the header of a token, or nothing where it has none.
func keyOf(token string) string {
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var h struct {
		KeyID string `json:"kid"`
	}
	_ = json.Unmarshal(raw, &h) // without a kid nothing is counted
	return h.KeyID
}

// keyUseTables are made when a ledger is opened, in one too that an earlier program has made.
const keyUseTables = `
CREATE TABLE IF NOT EXISTS key_uses (
	kid   TEXT PRIMARY KEY,
	first INTEGER NOT NULL, -- Unix milliseconds
	last  INTEGER NOT NULL, -- Unix milliseconds
	posts INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_uses_since ( -- one row
	one   INTEGER PRIMARY KEY CHECK (one = 1),
	since INTEGER NOT NULL -- Unix milliseconds
)`

const (
	insertSince = `INSERT INTO key_uses_since (one, since) VALUES (1, ?) ON CONFLICT DO NOTHING`
	addKeyUse   = `INSERT INTO key_uses (kid, first, last, posts) VALUES (?, ?, ?, ?) ON CONFLICT (kid) DO UPDATE
		SET first = min(first, excluded.first), last = max(last, excluded.last), posts = posts + excluded.posts`
	selectSince   = `SELECT since FROM key_uses_since`
	selectKeyUses = `SELECT kid, first, last, posts FROM key_uses ORDER BY kid`
)

// countKeyUses counts which keys outcomes and receipts rest on.
func (l *Ledger) countKeyUses(tx *sql.Tx, outcomes []Record, receipts []Receipt) error {
	for _, u := range KeyUsesOf(outcomes, receipts) {
		if _, err := tx.Stmt(l.addKeyUse).Exec(u.KeyID, u.First.UnixMilli(), u.Last.UnixMilli(), u.Posts); err != nil {
			return Unavailable("count the uses of keys", err)
		}
	}
	return nil
}

// KeyUses returns which keys the posts and receipts on record rest on: see [Store].
func (l *Ledger) KeyUses(ctx context.Context) (KeyUses, error) {
	return ScanKeyUses(l.db.Read().QueryRowContext(ctx, selectSince), func() (*sql.Rows, error) { return l.db.Read().QueryContext(ctx, selectKeyUses) })
}

// ScanKeyUses reads the row with the start of the count, and the rows with the uses: kid, first, last and posts.
func ScanKeyUses(start *sql.Row, uses func() (*sql.Rows, error)) (all KeyUses, err error) {
	var since int64
	if err := start.Scan(&since); err != nil {
		return KeyUses{}, Unavailable("read", err)
	}
	all.Since, all.Keys = time.UnixMilli(since).UTC(), []KeyUse{}
	rows, err := uses()
	err = each(rows, err, func() error {
		var u KeyUse
		var first, last int64
		err := rows.Scan(&u.KeyID, &first, &last, &u.Posts)
		u.First, u.Last = time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
		all.Keys = append(all.Keys, u)
		return err
	})
	return all, err
}
