// Package db keeps a service's state in an SQLite file, or in a PostgreSQL schema that replicas share. Both run the
// same statements: $1 is the first parameter in both. Package db/backend opens either; db/sqlite and db/postgres open
// one, and link nothing of the other.
package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Schema describes tables.
type Schema struct {
	Name    string // in PostgreSQL
	Version int    // above zero, and unique to the schema
	Forgets string // what a new database would forget; part of each refusal, so that it is not replaced lightly
	// Tables are CREATE statements. TEXT columns compare byte by byte in both databases, BLOB columns hold bytes, and
	// INTEGER PRIMARY KEY counts rows that name no number.
	Tables string
	// Missing is the error of [One] for no row.
	Missing error
	// Existing opens what exists, to read it: neither a schema nor a file is made.
	Existing bool
	// Frequent are the statements of writes that SQLite parses only once, because parsing costs more than running.
	Frequent []string
}

// Backend is the database behind a [DB].
type Backend struct {
	Read  *sql.DB // sees what is durable, and writes nothing
	Write func(ctx context.Context, do func(context.Context, Transaction) error) error
	Close func() error
	// Listen is nil for a file: see [DB.Listen].
	Listen func(ctx context.Context, channel string, heard func(), failed func(error))
}

// Transaction is what a backend gives to a write.
type Transaction struct {
	*sql.Tx
	// Prepared are the schema's frequent statements, by their texts.
	Prepared map[string]*sql.Stmt
	// Batch runs statements in one round trip, and returns the number of rows that each has changed, up to the first
	// that fails. It is nil where there are no round trips.
	Batch func(ctx context.Context, all []Statement) ([]int64, error)
}

// DB is safe for concurrent use, also by several processes if it is in PostgreSQL.
type DB struct {
	missing error
	at      Backend
}

// New returns the database of a schema.
func New(s Schema, at Backend) *DB { return &DB{s.Missing, at} }

// Shared reports whether other processes may use the database, as in PostgreSQL.
func (d *DB) Shared() bool { return d.at.Listen != nil }

// Clock returns the clock of the database server, which all replicas share. It is nil for a file.
func (d *DB) Clock() func(ctx context.Context) (time.Time, error) {
	if !d.Shared() {
		return nil
	}
	return func(ctx context.Context) (time.Time, error) {
		return One[time.Time](ctx, d, "read the clock",
			`SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`)
	}
}

// Locked ends a SELECT in a transaction whose rows no other transaction may change meanwhile. A file has one writer.
func (d *DB) Locked() string {
	if !d.Shared() {
		return ""
	}
	return " FOR UPDATE"
}

// Listen calls heard after each [Tx.Notify] of another replica, and whenever it may have missed one, until ctx ends. A
// file has no replicas.
func (d *DB) Listen(ctx context.Context, channel string, heard func(), failed func(error)) {
	if d.Shared() {
		d.at.Listen(ctx, channel, heard, failed)
	}
}

// Close makes what was accepted durable and closes the database.
func (d *DB) Close() error { return d.at.Close() }

// Tx is a transaction. Its errors have the code ledger_unavailable.
type Tx struct {
	Transaction
	ctx   context.Context
	doing string
	db    *DB
}

// Write runs do in a transaction and returns nil once it is durable. If do fails, its changes are undone. doing is for
// errors.
func (d *DB) Write(ctx context.Context, doing string, do func(Tx) error) error {
	return d.at.Write(ctx, func(ctx context.Context, t Transaction) error { return do(Tx{t, ctx, doing, d}) })
}

type within struct{}

// Context returns a context whose reads are in the transaction, and need no other connection.
func (t Tx) Context() context.Context { return context.WithValue(t.ctx, within{}, t) }

// Exec runs a statement and returns the number of changed rows.
func (t Tx) Exec(query string, args ...any) (int64, error) {
	var r sql.Result
	var err error
	if s := t.Prepared[query]; s != nil {
		r, err = t.StmtContext(t.ctx, s).ExecContext(t.ctx, stored(args)...)
	} else {
		r, err = t.ExecContext(t.ctx, query, stored(args)...)
	}
	if err != nil {
		return 0, ledger.Unavailable(t.doing, err)
	}
	return r.RowsAffected()
}

// Statement is a statement for [Tx.Run].
type Statement struct {
	Query string
	Args  []any
	None  error // the result unless the statement changes one row; nil if it need not
}

// Run runs statements in order, in PostgreSQL in one round trip. It returns the first failure.
func (t Tx) Run(all ...Statement) error {
	if t.Batch == nil || len(all) == 1 {
		for _, s := range all {
			if err := t.One(s.None, s.Query, s.Args...); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range all {
		all[i].Args = stored(all[i].Args)
	}
	changed, err := t.Batch(t.ctx, all)
	for i, n := range changed {
		if n != 1 && all[i].None != nil {
			return all[i].None
		}
	}
	if err != nil {
		return ledger.Unavailable(t.doing, err)
	}
	return nil
}

// Lock is the advisory lock in PostgreSQL of [Tx.Alone], and for making a schema: "actionpr" in ASCII.
const Lock = 0x616374696f6e7072

// Alone reports whether no other transaction with this lock is open. A file has one writer.
func (t Tx) Alone() (bool, error) {
	if !t.db.Shared() {
		return true, nil
	}
	alone, err := ManyIn[bool](t, `SELECT pg_try_advisory_xact_lock($1)`, int64(Lock))
	return err == nil && alone[0], err
}

// Notify wakes the replicas that listen to channel once the transaction is durable.
func (t Tx) Notify(channel string) error {
	if !t.db.Shared() {
		return nil
	}
	_, err := t.Exec(`SELECT pg_notify($1, '')`, channel)
	return err
}

// One runs a statement that must change one row; otherwise it returns instead.
func (t Tx) One(instead error, query string, args ...any) error {
	n, err := t.Exec(query, args...)
	if err == nil && n != 1 {
		return instead
	}
	return err
}

// rowsAtOnce bounds one INSERT. SQLite takes 32,766 parameters, PostgreSQL 65,535.
const rowsAtOnce = 100

// Insert inserts the rows that do not conflict and returns their number. head is the statement up to VALUES.
func (t Tx) Insert(head string, rows [][]any) (inserted int64, err error) {
	return t.insert(head, "DO NOTHING", rows)
}

// Replace inserts rows, or does with those that conflict what then says: the statement from ON CONFLICT on.
func (t Tx) Replace(head, then string, rows [][]any) error {
	_, err := t.insert(head, then, rows)
	return err
}

func (t Tx) insert(head, then string, rows [][]any) (inserted int64, err error) {
	if t.db.Shared() && len(rows) > 1 {
		places, columns := columnsOf(rows)
		return t.Exec(head+" SELECT * FROM unnest("+places+") ON CONFLICT "+then, columns...)
	}
	for len(rows) > 0 {
		n := min(rowsAtOnce, len(rows))
		var values []string
		var args []any
		for _, row := range rows[:n] {
			values = append(values, "("+Places(len(args)+1, len(row))+")")
			args = append(args, row...)
		}
		added, err := t.Exec(head+" VALUES "+strings.Join(values, ", ")+" ON CONFLICT "+then, args...)
		if err != nil {
			return inserted, err
		}
		inserted, rows = inserted+added, rows[n:]
	}
	return inserted, nil
}

// columnsOf returns rows as one array a column, and their places: PostgreSQL prepares one statement for any number.
func columnsOf(rows [][]any) (places string, columns []any) {
	for i, first := range rows[0] {
		var column any
		var kind string
		switch first.(type) {
		case string:
			column, kind = columnOf[string](rows, i), "text"
		case []byte:
			column, kind = columnOf[[]byte](rows, i), "bytea"
		default:
			column, kind = columnOf[int64](rows, i), "bigint"
		}
		columns = append(columns, column)
		places += fmt.Sprintf(", $%d::%s[]", i+1, kind)
	}
	return strings.TrimPrefix(places, ", "), columns
}

func columnOf[T any](rows [][]any, i int) (all []T) {
	for _, row := range rows {
		all = append(all, row[i].(T))
	}
	return all
}

// List returns a subquery of the column value, which has the strings of the argument $1.
func (d *DB) List(values []string) (query string, argument any) {
	raw, _ := json.Marshal(values) // strings
	if d.Shared() {
		return `(SELECT jsonb_array_elements_text($1::jsonb) AS value)`, string(raw)
	}
	return `(SELECT value FROM json_each($1))`, string(raw)
}

// Places returns n places for arguments from this number on: "$3, $4".
func Places(from, n int) string {
	places := make([]string, n)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", from+i)
	}
	return strings.Join(places, ", ")
}

// JSON is an argument that is stored as JSON, as [Objects] reads it.
type JSON struct{ Of any }

func (j JSON) Value() (driver.Value, error) {
	raw, err := json.Marshal(j.Of)
	return string(raw), err
}
