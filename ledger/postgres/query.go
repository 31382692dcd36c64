package postgres

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/ledger"
)

// List returns records: see [ledger.Store].
func (l *Ledger) List(ctx context.Context, q ledger.Query) ([]ledger.Record, error) {
	where, args := []string{"true"}, []any{}
	for _, c := range []struct{ condition, value string }{
		{"session = $%d", q.Session}, {"state = $%d", string(q.State)}, {"flow = $%d", q.Flow},
		{"(started, seq) < (SELECT started, seq FROM actionproof.posts WHERE id = $%d)", q.Before},
	} {
		switch {
		case c.value == "":
			continue
		case !storable(c.value):
			return []ledger.Record{}, nil
		}
		args = append(args, c.value)
		where = append(where, fmt.Sprintf(c.condition, len(args)))
	}
	args = append(args, q.Rows())
	return l.read(ctx, fmt.Sprintf(`SELECT record, artifacts FROM actionproof.posts WHERE %s ORDER BY started DESC, seq DESC LIMIT $%d`, strings.Join(where, " AND "), len(args)), args...)
}

// Get returns one record: see [ledger.Store].
func (l *Ledger) Get(ctx context.Context, id string) (ledger.Record, error) {
	if !storable(id) {
		return ledger.Record{}, ledger.ErrNotFound
	}
	return ledger.Find(id, func(from, below string) ([]ledger.Record, error) {
		return l.read(ctx, `SELECT record, artifacts FROM actionproof.posts WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 2`, from, below)
	})
}

func (l *Ledger) read(ctx context.Context, query string, args ...any) ([]ledger.Record, error) {
	if l.closed.Load() {
		return nil, ledger.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, operation)
	defer cancel()
	return ledger.Scan(l.db.QueryContext(ctx, query, args...))
}

// storable reports whether PostgreSQL can hold s: then something there may equal it.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
