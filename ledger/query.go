package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// Query selects records; empty fields select all.
type Query struct {
	Limit   int    // at most 1000; zero means 50
	Before  string // the id of a record: only those that are older; none if it is not kept
	State   State
	Session string
	Flow    string
}

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// Rows returns how many records the query is for at most.
func (q Query) Rows() int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return min(q.Limit, maxLimit)
}

// where says which index answers the query, as there are no statistics that SQLite could go by: the first condition, the rarest,
// is the only one that may use its index (a + forbids it). flow has none.
func (q Query) where() (string, []any) {
	where, args := "1", []any{}
	for _, c := range []struct{ column, value string }{{"session", q.Session}, {"state", string(q.State)}, {"flow", q.Flow}} {
		if c.value == "" {
			continue
		}
		if len(args) > 0 {
			c.column = "+" + c.column
		}
		where, args = where+" AND "+c.column+" = ?", append(args, c.value)
	}
	if q.Before != "" {
		where, args = where+" AND seq < (SELECT seq FROM posts WHERE id = ?)", append(args, q.Before)
	}
	return where, args
}

// List returns records: see [Store].
func (l *Ledger) List(ctx context.Context, q Query) ([]Post, error) {
	where, args := q.where()
	args = append(args, q.Rows())
	return Scan(l.db.Read().QueryContext(ctx, `SELECT record FROM posts WHERE `+where+` ORDER BY seq DESC LIMIT ?`, args...))
}

// Get returns one record: see [Store].
func (l *Ledger) Get(ctx context.Context, id string) (Post, error) {
	return Find(id, func(from, below string) ([]Post, error) {
		return Scan(l.db.Read().QueryContext(ctx, `SELECT record FROM posts WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 2`, from, below))
	})
}

// minPrefix is the shortest beginning of an id that names a record.
const minPrefix = 6

// Find returns the record with this id, or the only one whose id begins with it; read returns the first two records with ids from
// one on and below another, in order.
func Find(id string, read func(from, below string) ([]Post, error)) (Post, error) {
	if len(id) < minPrefix {
		return Post{}, ErrNotFound
	}
	posts, err := read(id, id+"\U0010FFFF")
	switch {
	case err != nil:
		return Post{}, err
	case len(posts) == 1 || len(posts) == 2 && posts[0].ID == id: // an id that is the beginning of another comes first
		return posts[0], nil
	}
	return Post{}, ErrNotFound
}

// Scan reads the records of a query for their column record.
func Scan(rows *sql.Rows, err error) ([]Post, error) {
	if err != nil {
		return nil, Unavailable("read", err)
	}
	defer rows.Close()
	posts := []Post{}
	for rows.Next() {
		var raw []byte
		var p Post
		if err := errors.Join(rows.Scan(&raw), json.Unmarshal(raw, &p)); err != nil {
			return nil, Unavailable("read", err)
		}
		posts = append(posts, p)
	}
	if err := rows.Err(); err != nil {
		return nil, Unavailable("read", err)
	}
	return posts, nil
}
