package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"math"

	"github.com/actionproof/mediator/ledger"
)

// pageRows and pageBytes bound what is read at once, and so the records in memory and how long a list holds a version
// of the data. In a hostile copy of a file all rows can share one text that is nearly as long as the file.
const pageRows, pageBytes = 256, 16 << 20

// errFull ends a page before its last row.
var errFull = errors.New("the page is full")

// position is a record's place in the order.
type position struct{ started, seq int64 }

type page struct {
	records []ledger.Record // that match
	rows    int             // that were read
	bytes   int             // of them
	last    position        // of the last row
}

// pages yields the selected records: read reads that many rows after a position, and find returns the position of a
// record. Nothing is open between two pages.
func pages(q ledger.Query, find func(id string) (position, error), read func(from position, rows int) (page, error),
) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		from := first(q)
		if q.Cursor != "" {
			at, err := find(q.Cursor)
			if err != nil {
				yield(ledger.Record{}, err)
				return
			}
			from = later(q, from, at)
		}
		rows := pageRows
		if q.Limit > 0 {
			rows = min(rows, q.Limit)
		}
		for left := q.Limit; ; rows = pageRows { // without a limit, left never becomes zero
			page, err := read(from, rows)
			if err != nil {
				yield(ledger.Record{}, err)
				return
			}
			for _, r := range page.records {
				if left--; !yield(r, nil) || left == 0 {
					return
				}
			}
			if page.rows < rows && page.bytes < pageBytes {
				return
			}
			if page.last == from || later(q, from, page.last) != page.last { // a hostile database never ends
				yield(ledger.Record{}, ledger.Unavailable("read", errors.New("the database repeats its rows")))
				return
			}
			from = page.last
		}
	}
}

func first(q ledger.Query) position {
	switch {
	case q.OldestFirst && q.Since.IsZero():
		return position{math.MinInt64, math.MinInt64}
	case q.OldestFirst:
		return position{q.Since.UnixMilli() - 1, math.MaxInt64}
	case q.Until.IsZero():
		return position{math.MaxInt64, math.MaxInt64}
	default:
		return position{q.Until.UnixMilli(), math.MinInt64}
	}
}

func later(q ledger.Query, a, b position) position {
	if less := a.started < b.started || a.started == b.started && a.seq < b.seq; less == q.OldestFirst {
		return b
	}
	return a
}

// Newest first, the list includes this start; oldest first, it does not.
func last(q ledger.Query) int64 {
	switch {
	case q.OldestFirst && q.Until.IsZero():
		return math.MaxInt64
	case q.OldestFirst:
		return q.Until.UnixMilli()
	case q.Since.IsZero():
		return math.MinInt64
	default:
		return q.Since.UnixMilli()
	}
}

// Rows that do not match come without their text, so a page costs the same however few match.
const (
	matches  = `CASE WHEN ($5 = '' OR session = $5) AND ($6 = '' OR state = $6) AND ($7 = '' OR flow = $7) THEN `
	keysOnly = `SELECT started, seq, id, flow, state, session, ` +
		matches + `(SELECT kids FROM key_sets WHERE key_sets.id = posts.keys) END FROM posts `

	newestFirst = `(started, seq) < ($1, $2) AND started >= $3 ORDER BY started DESC, seq DESC LIMIT $4`
	oldestFirst = `(started, seq) > ($1, $2) AND started < $3 ORDER BY started, seq LIMIT $4`
)

// Statement returns the query for a page. SQLite uses a partial index only if the condition repeats the index's own.
// There is none for flow, nor for the state forwarded, which nearly every record has.
func (d Dialect) Statement(q ledger.Query) string {
	page, index := `SELECT started, seq, `+matches+`record END, `+matches+d.Artifacts+` END FROM posts `, `WHERE `
	switch {
	case q.Keys:
		page = keysOnly
	case q.Bare:
		page = `SELECT started, seq, ` + matches + `record END, NULL FROM posts `
	}
	switch {
	case q.Key != "":
		index = d.ByKeys + `WHERE keys > 0 AND keys IN (` + d.Sets + `) AND `
	case q.Keys:
		index = d.ByKeys + `WHERE keys > 0 AND `
	case q.Session != "":
		index = `WHERE session = $5 AND session <> '' AND `
	case q.State != "" && q.State != ledger.StateForwarded:
		index = `WHERE state = $6 AND state <> 'forwarded' AND `
	}
	if q.OldestFirst {
		return page + index + oldestFirst
	}
	return page + index + newestFirst
}

func (r Reader) page(ctx context.Context, q ledger.Query, args []any) (p page, err error) {
	err = r.each(ctx, r.d.Statement(q), args, func(rows *sql.Rows) (err error) {
		var found ledger.Record
		var record, artifacts, kids []byte
		if q.Keys {
			err = rows.Scan(&p.last.started, &p.last.seq, &found.ID, &found.Flow, &found.State, &found.Session, &kids)
		} else {
			err = rows.Scan(&p.last.started, &p.last.seq, &record, &artifacts)
		}
		p.rows++
		switch {
		case err != nil || record == nil && kids == nil: // it does not match
			return err
		case q.Keys:
			found.Started = at(p.last.started)
			err = json.Unmarshal(kids, &found.Keys)
		default:
			found, err = decode(record, artifacts)
		}
		p.records = append(p.records, found)
		if p.bytes += len(record) + len(artifacts); err == nil && p.bytes >= pageBytes {
			err = errFull
		}
		return err
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return p, err
}
