package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actionproof/mediator/ledger"
)

// Each calls do for each row of a query, and ends with its first error. A struct T takes the columns into its first
// fields, in order; any other T takes one column. Times are stored in Unix milliseconds, with 0 for the zero time.
//
// A text that PostgreSQL cannot store is missing, not a failure: strangers choose what is looked up.
func Each[T any](ctx context.Context, d *DB, doing, query string, args []any, do func(T) error) error {
	for _, a := range args {
		if text, ok := a.(string); ok && !Storable(text) {
			return d.missing
		}
	}
	if t, ok := ctx.Value(within{}).(Tx); ok && t.db == d {
		return eachIn(t, query, args, do)
	}
	rows, err := d.at.Read.QueryContext(ctx, query, stored(args)...)
	return scan(doing, rows, err, do)
}

// Many returns the rows of a query. See [Each].
func Many[T any](ctx context.Context, d *DB, doing, query string, args ...any) (all []T, _ error) {
	err := Each(ctx, d, doing, query, args, func(one T) error { all = append(all, one); return nil })
	return all, err
}

// Storable reports whether both databases can store a text.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// One returns the first row of a query, or Schema.Missing. See [Each].
func One[T any](ctx context.Context, d *DB, doing, query string, args ...any) (one T, err error) {
	err = Each(ctx, d, doing, query, args, func(row T) error { one = row; return errFirst })
	switch err {
	case errFirst:
		return one, nil
	case nil:
		err = d.missing
	}
	return one, err
}

// errFirst ends a query after its first row: in a hostile copy of a file the others can be many and long.
var errFirst = errors.New("one row is enough")

// Objects returns the rows of a query whose one column has the JSON of a T. See [Each].
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
	text, err := One[string](ctx, d, doing, query, args...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &one)
	}
	return one, err
}

// ManyIn returns the rows of a query in a transaction. See [Each].
func ManyIn[T any](t Tx, query string, args ...any) (all []T, _ error) {
	err := eachIn(t, query, args, func(one T) error { all = append(all, one); return nil })
	return all, err
}

func eachIn[T any](t Tx, query string, args []any, do func(T) error) error {
	var rows *sql.Rows
	var err error
	if s := t.Prepared[query]; s != nil {
		rows, err = t.StmtContext(t.ctx, s).QueryContext(t.ctx, stored(args)...)
	} else {
		rows, err = t.QueryContext(t.ctx, query, stored(args)...)
	}
	return scan(t.doing, rows, err, do)
}

func scan[T any](doing string, rows *sql.Rows, err error, do func(T) error) error {
	if err != nil {
		return ledger.Unavailable(doing, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return ledger.Unavailable(doing, err)
	}
	var one, none T
	to := places(reflect.ValueOf(&one).Elem())[:len(columns)]
	for rows.Next() {
		one = none
		if err := rows.Scan(to...); err != nil {
			return ledger.Unavailable(doing, err)
		}
		if err := do(one); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return ledger.Unavailable(doing, err)
	}
	return nil
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

func stored(args []any) []any {
	for i, a := range args {
		at, ok := a.(time.Time)
		if !ok {
			continue
		}
		args = slices.Clone(args)
		if args[i] = at.UnixMilli(); at.IsZero() {
			args[i] = 0
		}
	}
	return args
}
