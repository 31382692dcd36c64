// Package db keeps a service's state in an SQLite file, or in a PostgreSQL schema that replicas share. Both run the
// same statements.
package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
)

// Schema describes tables.
type Schema struct {
	Name    string // in PostgreSQL
	Version int
	Forgets string // what a new database would forget
	// Tables are CREATE statements. TEXT columns compare byte by byte in both databases, BLOB columns hold bytes, and
	// INTEGER PRIMARY KEY counts rows.
	Tables string
	// Missing is the error of [One] for no row.
	Missing error
	// Existing opens what exists, to read it: neither a schema nor a file is made.
	Existing bool
	// Frequent are the statements of writes that SQLite parses only once, because parsing costs more than running.
	Frequent []string
}

// inPostgres translates what SQLite spells otherwise.
var inPostgres = strings.NewReplacer(" TEXT", ` text COLLATE "C"`, " BLOB", " bytea", " WITHOUT ROWID", "",
	" INTEGER PRIMARY KEY", " bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY")

// DB is safe for concurrent use, also by several processes if it is in PostgreSQL.
type DB struct {
	missing  error
	read     *sql.DB
	write    func(ctx context.Context, do func(context.Context, *sql.Tx) error) error
	close    func() error
	frequent map[string]*sql.Stmt
	shared   *postgres.DB // nil for a file
}

// Open opens the schema in the PostgreSQL database that dsn names, or without a dsn the SQLite file at path.
func Open(ctx context.Context, path, dsn string, s Schema) (*DB, error) {
	if dsn != "" {
		inDatabase := postgres.OpenDB
		if s.Existing {
			inDatabase = postgres.OpenReadOnly
		}
		d, err := inDatabase(ctx, dsn, postgres.Schema{
			Name: s.Name, Version: s.Version, Statements: inPostgres.Replace(s.Tables), Forgets: s.Forgets,
		})
		if err != nil {
			return nil, err
		}
		return &DB{missing: s.Missing, read: d.Read(), write: d.Write, close: d.Close, shared: d}, nil
	}
	if s.Existing {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	f, err := sqlite.OpenDB(ctx, path, sqlite.Schema{Version: s.Version, Statements: s.Tables, Forgets: s.Forgets})
	if err != nil {
		return nil, err
	}
	d := &DB{missing: s.Missing, read: f.Read(), close: f.Close, frequent: make(map[string]*sql.Stmt)}
	for _, query := range s.Frequent {
		if d.frequent[query], err = f.Prepare(ctx, query); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	d.write = func(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
		// A cancelled statement would take the other writes of its group with it.
		return f.Write(ctx, func(t *sql.Tx) error { return do(context.WithoutCancel(ctx), t) })
	}
	return d, nil
}

// Clock returns the clock of the database server, which all replicas share. It is nil for a file.
func (d *DB) Clock() func(ctx context.Context) (time.Time, error) {
	if d.shared == nil {
		return nil
	}
	return func(ctx context.Context) (time.Time, error) {
		return One[time.Time](ctx, d, "read the clock",
			`SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`)
	}
}

// Locked ends a SELECT in a transaction whose rows no other transaction may change meanwhile. A file has one writer.
func (d *DB) Locked() string {
	if d.shared == nil {
		return ""
	}
	return " FOR UPDATE"
}

// Listen calls heard after each [Tx.Notify] of another replica, and whenever it may have missed one, until ctx ends. A
// file has no replicas.
func (d *DB) Listen(ctx context.Context, channel string, heard func(), failed func(error)) {
	if d.shared != nil {
		d.shared.Listen(ctx, channel, heard, failed)
	}
}

// Close makes what was accepted durable and closes the database.
func (d *DB) Close() error { return d.close() }

// Tx is a transaction. Its errors have the code ledger_unavailable.
type Tx struct {
	tx    *sql.Tx
	ctx   context.Context
	doing string
	db    *DB
}

// Write runs do in a transaction and returns nil once it is durable. If do fails, its changes are undone. doing is for
// errors.
func (d *DB) Write(ctx context.Context, doing string, do func(Tx) error) error {
	return d.write(ctx, func(ctx context.Context, t *sql.Tx) error { return do(Tx{t, ctx, doing, d}) })
}

type within struct{}

// Context returns a context whose reads are in the transaction, and need no other connection.
func (t Tx) Context() context.Context { return context.WithValue(t.ctx, within{}, t) }

// Exec runs a statement and returns the number of changed rows.
func (t Tx) Exec(query string, args ...any) (int64, error) {
	var r sql.Result
	var err error
	if s := t.db.frequent[query]; s != nil {
		r, err = t.tx.StmtContext(t.ctx, s).ExecContext(t.ctx, stored(args)...)
	} else {
		r, err = t.tx.ExecContext(t.ctx, query, stored(args)...)
	}
	if err != nil {
		return 0, ledger.Unavailable(t.doing, err)
	}
	return r.RowsAffected()
}

// Notify wakes the replicas that listen to channel once the transaction is durable.
func (t Tx) Notify(channel string) error {
	if t.db.shared == nil {
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
	if t.db.shared != nil && len(rows) > 1 {
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
	if d.shared != nil {
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

// Many returns the rows of a query. A struct T takes the columns into its first fields, in order; any other T takes one
// column. Times are stored in Unix milliseconds, with 0 for the zero time.
//
// A text that PostgreSQL cannot store is missing, not a failure: strangers choose what is looked up.
func Many[T any](ctx context.Context, d *DB, doing, query string, args ...any) ([]T, error) {
	for _, a := range args {
		if text, ok := a.(string); ok && !Storable(text) {
			return nil, d.missing
		}
	}
	if t, ok := ctx.Value(within{}).(Tx); ok && t.db == d {
		return ManyIn[T](t, query, args...)
	}
	rows, err := d.read.QueryContext(ctx, query, stored(args)...)
	return collect[T](doing, rows, err)
}

// Storable reports whether both databases can store a text.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// One returns the first row of a query, or Schema.Missing. See [Many].
func One[T any](ctx context.Context, d *DB, doing, query string, args ...any) (one T, err error) {
	all, err := Many[T](ctx, d, doing, query, args...)
	return first(d, all, err)
}

// Objects returns the rows of a query whose one column has the JSON of a T. See [Many].
func Objects[T any](ctx context.Context, d *DB, doing, query string, args ...any) ([]T, error) {
	texts, err := Many[string](ctx, d, doing, query, args...)
	all := make([]T, len(texts))
	for i, text := range texts {
		err = errors.Join(err, json.Unmarshal([]byte(text), &all[i]))
	}
	return all, err
}

// Object returns the first of [Objects], or Schema.Missing.
func Object[T any](ctx context.Context, d *DB, doing, query string, args ...any) (one T, err error) {
	all, err := Objects[T](ctx, d, doing, query, args...)
	return first(d, all, err)
}

func first[T any](d *DB, all []T, err error) (one T, _ error) {
	switch {
	case err != nil:
		return one, err
	case len(all) == 0:
		return one, d.missing
	}
	return all[0], nil
}

// ManyIn returns the rows of a query in a transaction. See [Many].
func ManyIn[T any](t Tx, query string, args ...any) ([]T, error) {
	var rows *sql.Rows
	var err error
	if s := t.db.frequent[query]; s != nil {
		rows, err = t.tx.StmtContext(t.ctx, s).QueryContext(t.ctx, stored(args)...)
	} else {
		rows, err = t.tx.QueryContext(t.ctx, query, stored(args)...)
	}
	return collect[T](t.doing, rows, err)
}

func collect[T any](doing string, rows *sql.Rows, err error) (all []T, _ error) {
	if err != nil {
		return nil, ledger.Unavailable(doing, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	for err == nil && rows.Next() {
		var one T
		if err = rows.Scan(places(reflect.ValueOf(&one).Elem())[:len(columns)]...); err == nil {
			all = append(all, one)
		}
	}
	if err := errors.Join(err, rows.Err()); err != nil {
		return nil, ledger.Unavailable(doing, err)
	}
	return all, nil
}

// places returns where to scan the columns of a row.
func places(v reflect.Value) (all []any) {
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		return []any{moment{at}}
	}
	if v.Kind() != reflect.Struct {
		return []any{v.Addr().Interface()}
	}
	for i := range v.NumField() {
		all = append(all, places(v.Field(i))...)
	}
	return all
}

type moment struct{ at *time.Time }

// Scan implements [sql.Scanner].
func (m moment) Scan(column any) error {
	ms, ok := column.(int64)
	if !ok {
		return fmt.Errorf("the column is not a time: %T", column)
	}
	if ms != 0 {
		*m.at = time.UnixMilli(ms).UTC()
	}
	return nil
}

// JSON is an argument that is stored as JSON, as [Objects] reads it.
type JSON struct{ Of any }

// Value implements [driver.Valuer].
func (j JSON) Value() (driver.Value, error) {
	raw, err := json.Marshal(j.Of)
	return string(raw), err
}

func stored(args []any) []any {
	all := slices.Clone(args)
	for i, a := range all {
		switch at, ok := a.(time.Time); {
		case ok && at.IsZero():
			all[i] = 0
		case ok:
			all[i] = at.UnixMilli()
		}
	}
	return all
}
