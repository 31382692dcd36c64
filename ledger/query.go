package ledger

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"time"
)

// Query selects records; empty fields select all. Records come in the order of their start, and where two started
// together, in the order in which they were stored.
type Query struct {
	Since, Until time.Time // started at Since or later, and before Until, to the millisecond
	State        State
	Session      string
	Flow         string
	Cursor       string // the id of a record: only those that follow it in the order
	OldestFirst  bool   // otherwise the newest come first
	Limit        int    // how many at most; zero is no limit
}

// pageRows bounds the rows that are looked at in one piece: so long, and no longer, is a version of the data held for a
// list, and so many records are in memory.
const pageRows = 256

// Position is the place of a record in the order: when it started, in Unix milliseconds, and its number in the store.
type Position struct{ Started, Seq int64 }

// Page is what one look at the rows of a store has found.
type Page struct {
	Records []Record // those that match
	Rows    int      // how many rows were looked at
	Last    Position // of the last of them
}

// Pages yields what a query selects, read from a store one page after the other: read looks at that many rows that
// follow a position, and find returns the position of a record. Nothing is held open between two pages. An error is
// the last thing that is yielded; without one the list is whole.
func (q Query) Pages(find func(id string) (Position, error), read func(from Position, rows int) (Page, error)) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		from := q.first()
		if q.Cursor != "" {
			at, err := find(q.Cursor)
			if err != nil {
				yield(Record{}, err)
				return
			}
			from = q.later(from, at)
		}
		rows := pageRows
		if q.Limit > 0 {
			rows = min(rows, q.Limit)
		}
		for left := q.Limit; ; rows = pageRows { // without a limit, left never becomes zero
			page, err := read(from, rows)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range page.Records {
				if left--; !yield(r, nil) || left == 0 {
					return
				}
			}
			if page.Rows < rows {
				return
			}
			from = page.Last
		}
	}
}

// first returns the position that the list follows.
func (q Query) first() Position {
	switch {
	case q.OldestFirst && q.Since.IsZero():
		return Position{math.MinInt64, math.MinInt64}
	case q.OldestFirst:
		return Position{q.Since.UnixMilli() - 1, math.MaxInt64}
	case q.Until.IsZero():
		return Position{math.MaxInt64, math.MaxInt64}
	default:
		return Position{q.Until.UnixMilli(), math.MinInt64}
	}
}

// later returns the one of two positions that comes later in the list.
func (q Query) later(a, b Position) Position {
	if less := a.Started < b.Started || a.Started == b.Started && a.Seq < b.Seq; less == q.OldestFirst {
		return b
	}
	return a
}

// End returns the start that ends the list, in Unix milliseconds: the list goes down to it, or up to what is below it
// if the oldest come first.
func (q Query) End() int64 {
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

// Of the rows that a page looks at, those that do not match come without their text: so a look costs the same however
// few match, and lasts no longer.
const (
	findPost = `SELECT started, seq FROM posts WHERE id = ?`
	matches  = `CASE WHEN (?5 = '' OR session = ?5) AND (?6 = '' OR state = ?6) AND (?7 = '' OR flow = ?7) THEN `
	pagePost = `SELECT started, seq, ` + matches + `record END, ` + matches + `(SELECT artifacts FROM artifacts WHERE seq = posts.seq) END FROM posts WHERE `

	newestFirst = `(started, seq) < (?1, ?2) AND started >= ?3 ORDER BY started DESC, seq DESC LIMIT ?4`
	oldestFirst = `(started, seq) > (?1, ?2) AND started < ?3 ORDER BY started, seq LIMIT ?4`
)

// statement returns the query for a page. Without statistics that SQLite could go by, it says which index answers: an
// index that leaves rows out is used where the condition says that it does too. flow has none, nor has the state
// forwarded: it is that of nearly every record, so those are found among all.
func (q Query) statement() string {
	index := ""
	switch {
	case q.Session != "":
		index = `session = ?5 AND session <> '' AND `
	case q.State != "" && q.State != StateForwarded:
		index = `state = ?6 AND state <> 'forwarded' AND `
	}
	if q.OldestFirst {
		return pagePost + index + oldestFirst
	}
	return pagePost + index + newestFirst
}

// reader reads records from an SQLite file.
type reader struct {
	db    *sql.DB
	early bool // an earlier program has made the file, which has no receipts
}

// Records yields records: see [Store].
func (r reader) Records(ctx context.Context, q Query) iter.Seq2[Record, error] {
	return q.Pages(func(id string) (Position, error) {
		return ScanPosition(r.db.QueryRowContext(ctx, findPost, id))
	}, func(from Position, rows int) (Page, error) {
		return ScanPage(r.db.QueryContext(ctx, q.statement(), from.Started, from.Seq, q.End(), rows, q.Session, q.State, q.Flow))
	})
}

// Get returns one record: see [Store].
func (r reader) Get(ctx context.Context, id string) (Record, error) {
	return Find(id, func(from, below string, rows int) ([]Record, error) {
		return Scan(r.db.QueryContext(ctx, selectPost+`WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3`, from, below, rows))
	})
}

// minPrefix is the shortest beginning of an id that names a record.
const minPrefix = 6

// Find returns the record with this id, or the only one whose id begins with it; read returns the first records with ids from one on
// and below another, in order, and no more rows than it is told. Several that begin with it are a [SeveralError].
func Find(id string, read func(from, below string, rows int) ([]Record, error)) (Record, error) {
	if len(id) < minPrefix {
		return Record{}, ErrNotFound
	}
	posts, err := read(id, id+"\U0010FFFF", MaxSeveral+1)
	switch {
	case err != nil:
		return Record{}, err
	case len(posts) == 0:
		return Record{}, ErrNotFound
	case len(posts) == 1 || posts[0].ID == id: // an id that is the beginning of another comes first
		return posts[0], nil
	}
	several := &SeveralError{Prefix: id, More: len(posts) > MaxSeveral}
	for _, p := range posts[:min(len(posts), MaxSeveral)] {
		several.IDs = append(several.IDs, p.ID)
	}
	return Record{}, several
}

// Scan reads the records of a query for what [Record.Encode] has made: the record and its artifacts, which may be NULL.
func Scan(rows *sql.Rows, err error) ([]Record, error) {
	posts := []Record{}
	err = each(rows, err, func() error {
		var record, artifacts []byte
		if err := rows.Scan(&record, &artifacts); err != nil {
			return err
		}
		p, err := decode(record, artifacts)
		posts = append(posts, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return posts, nil
}

// ScanPage reads the rows of a page: start, number, and the record and its artifacts, which are NULL for a row that does
// not match.
func ScanPage(rows *sql.Rows, err error) (page Page, failed error) {
	failed = each(rows, err, func() error {
		var record, artifacts []byte
		if err := rows.Scan(&page.Last.Started, &page.Last.Seq, &record, &artifacts); err != nil {
			return err
		}
		page.Rows++
		if record == nil {
			return nil
		}
		p, err := decode(record, artifacts)
		page.Records = append(page.Records, p)
		return err
	})
	return page, failed
}

// ScanPosition reads the position of a record. Where there is no such record, it returns [ErrNotFound].
func ScanPosition(row *sql.Row) (p Position, err error) {
	err = row.Scan(&p.Started, &p.Seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return p, ErrNotFound
	case err != nil:
		return p, Unavailable("read", err)
	}
	return p, nil
}

// each calls scan for each row.
func each(rows *sql.Rows, err error, scan func() error) error {
	if err != nil {
		return Unavailable("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return Unavailable("read", err)
		}
	}
	if err := rows.Err(); err != nil {
		return Unavailable("read", err)
	}
	return nil
}
