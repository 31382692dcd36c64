package ledger

import (
	"context"
	"database/sql"
	"strings"
)

// rowsTogether is how many rows one statement inserts, the most first.
var rowsTogether = [...]int{16, 4, 1}

// Insert is the insertion of a row that nobody waits for. Of those that share a transaction one statement inserts many: each row costs half of
// what a statement of its own does.
type Insert struct {
	columns int
	stmts   [len(rowsTogether)]*sql.Stmt // see rowsTogether
}

// PrepareInsert prepares an insertion into so many columns of a table, as in "t (a, b)". Call it before the first write.
func (d *DB) PrepareInsert(ctx context.Context, into string, columns int) (*Insert, error) {
	i := &Insert{columns: columns}
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	for at, n := range rowsTogether {
		insert := "INSERT INTO "
		if n > 1 {
			insert = "INSERT OR ROLLBACK INTO " // so that SQLite keeps no journal of the statement: where one row fails, all is undone anyway
		}
		var err error
		if i.stmts[at], err = d.Prepare(ctx, insert+into+" VALUES "+row+strings.Repeat(", "+row, n-1)); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// InsertLater is WriteLater for a row, which has a value for each column. It fails alone, as a write does.
func (d *DB) InsertLater(ctx context.Context, i *Insert, row []any, stored func(error)) error {
	return d.enqueue(ctx, d.later, &pending{
		ctx: context.WithoutCancel(ctx), insert: i, row: row, answer: stored,
		do: func(tx *sql.Tx) error { return i.exec(tx, row) },
	})
}

// exec inserts rows, the values of one behind those of the other.
func (i *Insert) exec(tx *sql.Tx, rows []any) error {
	for at, n := range rowsTogether {
		for n *= i.columns; len(rows) >= n; rows = rows[n:] {
			if _, err := tx.Stmt(i.stmts[at]).Exec(rows[:n]...); err != nil {
				return Unavailable("write", err)
			}
		}
	}
	return nil
}

// insertions are the rows of a group, until they are inserted together.
type insertions map[*Insert][]any

// take reports whether p is an insertion, whose row it has taken.
func (r insertions) take(p *pending) bool {
	if p.insert != nil {
		r[p.insert] = append(r[p.insert], p.row...)
	}
	return p.insert != nil
}

func (r insertions) exec(tx *sql.Tx) error {
	for i, rows := range r {
		if err := i.exec(tx, rows); err != nil {
			return err
		}
	}
	return nil
}
