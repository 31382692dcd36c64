package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"
)

// Query selects records; empty fields select all.
type Query struct {
	Limit   int // at most 1000; zero means 50
	State   State
	Session string
	Flow    string
}

const maxLimit = 1000

// List returns records, newest first.
func (l *Ledger) List(ctx context.Context, q Query) ([]Post, error) {
	if q.Limit <= 0 {
		q.Limit = 50
	}
	posts, err := scan(l.db.Read().QueryContext(ctx,
		`SELECT record FROM posts WHERE (?1 = '' OR state = ?1) AND (?2 = '' OR session = ?2) AND (?3 = '' OR flow = ?3) ORDER BY seq DESC LIMIT ?4`,
		string(q.State), q.Session, q.Flow, min(q.Limit, maxLimit)))
	if err != nil {
		return nil, err
	}
	return posts, nil
}

// minPrefix is the shortest beginning of an id that names a record.
const minPrefix = 6

// Get returns the record with this id, or the only one whose id begins with it.
func (l *Ledger) Get(ctx context.Context, id string) (Post, error) {
	if len(id) < minPrefix {
		return Post{}, ErrNotFound
	}
	posts, err := scan(l.db.Read().QueryContext(ctx, `SELECT record FROM posts WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 2`, id, id+"\U0010FFFF"))
	switch {
	case err != nil:
		return Post{}, err
	case len(posts) > 0 && posts[0].ID == id || len(posts) == 1:
		return posts[0], nil
	}
	return Post{}, ErrNotFound
}

func scan(rows *sql.Rows, err error) ([]Post, error) {
	if err != nil {
		return nil, unavailable("read", err)
	}
	defer rows.Close()
	posts := []Post{}
	for rows.Next() {
		var raw []byte
		var p Post
		if err := errors.Join(rows.Scan(&raw), json.Unmarshal(raw, &p)); err != nil {
			return nil, unavailable("read", err)
		}
		posts = append(posts, p)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable("read", err)
	}
	return posts, nil
}

// keyMargin is how long a consumed key is kept after its artifact has expired: longer than any clock is wrong.
const keyMargin = 24 * time.Hour

// Prune removes consumed keys whose artifacts expired long ago, and records older than the retention. A post in flight is never
// removed. The caller decides when.
func (l *Ledger) Prune(ctx context.Context, now time.Time) error {
	oldest := int64(math.MinInt64)
	if l.o.Retention > 0 {
		oldest = now.Add(-l.o.Retention).UnixMilli()
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM consumed WHERE expires < ?`, now.Add(-keyMargin).Unix())
		if err != nil {
			return unavailable("prune", err)
		}
		if _, err := tx.Exec(`DELETE FROM posts WHERE started < ? AND state <> ?`, oldest, StateForwarding); err != nil {
			return unavailable("prune", err)
		}
		return nil
	})
}
