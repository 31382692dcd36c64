package ledger

import (
	"context"
	"database/sql"
)

// Query selects records; empty fields select all.
type Query struct {
	Limit   int    // at most MaxLimit; zero means 50
	Before  string // the id of a record: only those that started before it; none if it is not kept
	State   State
	Session string
	Flow    string
}

const (
	defaultLimit = 50
	// MaxLimit is the greatest limit of a Query.
	MaxLimit = 1000
)

// Rows returns how many records the query is for at most.
func (q Query) Rows() int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return min(q.Limit, MaxLimit)
}

// where says which index answers the query, as there are no statistics that SQLite could go by: the first condition, the rarest,
// is the only one that may use its index (a + forbids it). An index that leaves rows out is used where the condition says that it does
// too. flow has none, nor has the state forwarded: it is that of nearly every record, so those are found from the newest one on.
func (q Query) where() (string, []any) {
	where, args := "1", []any{}
	for _, c := range []struct{ column, value, partial string }{
		{"session", q.Session, " AND session <> ''"}, {"state", string(q.State), " AND state <> 'forwarded'"}, {"flow", q.Flow, ""},
	} {
		if c.value == "" {
			continue
		}
		if c.column == "state" && q.State == StateForwarded || len(args) > 0 {
			c.column, c.partial = "+"+c.column, ""
		}
		where, args = where+" AND "+c.column+" = ?"+c.partial, append(args, c.value)
	}
	if q.Before != "" {
		where, args = where+" AND (started, seq) < (SELECT started, seq FROM posts WHERE id = ?)", append(args, q.Before)
	}
	return where, args
}

// newestFirst goes by the start and not by seq: a record may be stored after that of a call that started later.
const newestFirst = ` ORDER BY started DESC, seq DESC`

// List returns records: see [Store].
func (l *Ledger) List(ctx context.Context, q Query) ([]Record, error) {
	where, args := q.where()
	args = append(args, q.Rows())
	return Scan(l.db.Read().QueryContext(ctx, selectPost+`WHERE `+where+newestFirst+` LIMIT ?`, args...))
}

// Get returns one record: see [Store].
func (l *Ledger) Get(ctx context.Context, id string) (Record, error) {
	return Find(id, func(from, below string) ([]Record, error) {
		return Scan(l.db.Read().QueryContext(ctx, selectPost+`WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 2`, from, below))
	})
}

// minPrefix is the shortest beginning of an id that names a record.
const minPrefix = 6

// Find returns the record with this id, or the only one whose id begins with it; read returns the first two records with ids from
// one on and below another, in order.
func Find(id string, read func(from, below string) ([]Record, error)) (Record, error) {
	if len(id) < minPrefix {
		return Record{}, ErrNotFound
	}
	posts, err := read(id, id+"\U0010FFFF")
	switch {
	case err != nil:
		return Record{}, err
	case len(posts) == 1 || len(posts) == 2 && posts[0].ID == id: // an id that is the beginning of another comes first
		return posts[0], nil
	}
	return Record{}, ErrNotFound
}

// Scan reads the records of a query for what [Record.Encode] has made: the record and its artifacts, which may be NULL.
func Scan(rows *sql.Rows, err error) ([]Record, error) {
	if err != nil {
		return nil, Unavailable("read", err)
	}
	defer rows.Close()
	posts := []Record{}
	for rows.Next() {
		var record, artifacts []byte
		if err := rows.Scan(&record, &artifacts); err != nil {
			return nil, Unavailable("read", err)
		}
		p, err := decode(record, artifacts)
		if err != nil {
			return nil, Unavailable("read", err)
		}
		posts = append(posts, p)
	}
	if err := rows.Err(); err != nil {
		return nil, Unavailable("read", err)
	}
	return posts, nil
}
