package tables

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// pageRows and pageBytes bound what is read at once, and so the records in memory and how long a list holds a version
// of the data. In a hostile copy of a file all rows can share one text that is nearly as long as the file.
const pageRows, pageBytes = 256, 16 << 20

// errFull ends a page before its last row.
var errFull = errors.New("the page is full")

// position is a record's place in the order.
type position struct{ Started, Seq int64 }

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
	if less := a.Started < b.Started || a.Started == b.Started && a.Seq < b.Seq; less == q.OldestFirst {
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

// Statement returns the query for a page; sets lists the key sets with q.Key. SQLite uses a partial index only if the
// condition repeats the index's own, and byKeys must name that index. There is none for flow, nor for the state
// forwarded, which nearly every record has.
func Statement(q ledger.Query, byKeys, sets string) string {
	page, index := `SELECT started, seq, `+matches+`record END, `+matches+artifacts+` END FROM posts `, `WHERE `
	switch {
	case q.Keys:
		page = keysOnly
	case q.Bare:
		page = `SELECT started, seq, ` + matches + `record END, NULL FROM posts `
	}
	switch {
	case q.Key != "":
		index = byKeys + `WHERE keys > 0 AND keys IN (` + sets + `) AND `
	case q.Keys:
		index = byKeys + `WHERE keys > 0 AND `
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

// ByKeys names the index of the keys for SQLite, which without statistics would not find it.
const ByKeys = `INDEXED BY posts_keys `

func (r Reader) page(ctx context.Context, q ledger.Query, sets string, args []any) (p page, err error) {
	byKeys := ByKeys
	if r.db.Shared() {
		byKeys = ""
	}
	statement := Statement(q, byKeys, sets)
	if q.Keys {
		err = each(ctx, r, statement, args, p.addKeys)
	} else {
		err = each(ctx, r, statement, args, p.add)
	}
	if err == errFull {
		err = nil
	}
	return p, err
}

// row has no record if it does not match.
type row struct {
	At                position
	Record, Artifacts []byte
}

func (p *page) add(r row) error {
	p.rows, p.last = p.rows+1, r.At
	if r.Record == nil {
		return nil
	}
	found, err := decode(r.Record, r.Artifacts)
	if err != nil {
		return err
	}
	p.records = append(p.records, found)
	if p.bytes += len(r.Record) + len(r.Artifacts); p.bytes >= pageBytes {
		return errFull
	}
	return nil
}

// keysRow has no kids if it does not match.
type keysRow struct {
	At             position
	ID, Flow       string
	State, Session string
	Kids           *string
}

func (p *page) addKeys(r keysRow) error {
	p.rows, p.last = p.rows+1, r.At
	if r.Kids == nil {
		return nil
	}
	kids, err := kidsOf(*r.Kids)
	p.records = append(p.records, ledger.Record{ID: r.ID, Flow: r.Flow, State: ledger.State(r.State), Session: r.Session,
		Started: time.UnixMilli(r.At.Started).UTC(), Keys: kids})
	return err
}
