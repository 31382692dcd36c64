package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/verification"
)

// schema is that of the file. Times are Unix milliseconds. A session is open until its state is final; where that never comes, its time of
// opening tells.
var schema = ledger.Schema{Version: 3, Forgets: "who is verified, and who has to wait after failures", Statements: `
CREATE TABLE sessions (
	id      TEXT PRIMARY KEY,
	version INTEGER NOT NULL,
	subject TEXT NOT NULL,
	session TEXT NOT NULL, -- the caller's
	open    INTEGER NOT NULL,
	opened  INTEGER NOT NULL,
	body    TEXT NOT NULL  -- the Session, JSON
);
CREATE INDEX sessions_open ON sessions (opened, subject) WHERE open = 1;
CREATE INDEX sessions_caller ON sessions (subject, session, opened);
CREATE TABLE failures (
	name  TEXT PRIMARY KEY,
	count INTEGER NOT NULL,
	last  INTEGER NOT NULL
);
CREATE TABLE plugins (
	did      TEXT PRIMARY KEY,
	key      TEXT NOT NULL,
	name     TEXT NOT NULL,
	searched TEXT NOT NULL,
	body     TEXT NOT NULL -- the Plugin, JSON
);
CREATE INDEX plugins_name ON plugins (name, did);
`}

// SQLite is a [verification.Store] in one file.
type SQLite struct {
	db  *ledger.DB
	now func() time.Time
}

// OpenSQLite opens the file at path, or creates it: see [ledger.OpenDB].
func OpenSQLite(ctx context.Context, path string, now func() time.Time) (*SQLite, error) {
	if now == nil {
		return nil, errors.New("store: a clock is required")
	}
	db, err := ledger.OpenDB(ctx, path, schema)
	if err != nil {
		return nil, err
	}
	return &SQLite{db, now}, nil
}

var _ verification.Store = (*SQLite)(nil)

// Close closes the file.
func (s *SQLite) Close() error { return s.db.Close() }

// Now returns the time.
func (s *SQLite) Now(context.Context) (time.Time, error) { return s.now(), nil }

// Open keeps a new session: see [verification.Store].
func (s *SQLite) Open(ctx context.Context, session verification.Session, perSubject, total int) error {
	body, err := json.Marshal(session)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		var mine, all int
		since := s.now().Add(-session.Expires().Sub(time.UnixMilli(session.Opened))).UnixMilli()
		err := tx.QueryRow(`SELECT count(*), coalesce(sum(subject = ?), 0) FROM sessions WHERE open = 1 AND opened > ?`, session.Caller.Subject, since).Scan(&all, &mine)
		if err != nil {
			return ledger.Unavailable("count verifications", err)
		}
		if mine >= perSubject || all >= total {
			return verification.ErrTooMany()
		}
		_, err = tx.Exec(`INSERT INTO sessions (id, version, subject, session, open, opened, body) VALUES (?, ?, ?, ?, 1, ?, ?)`,
			session.ID, session.Version, session.Caller.Subject, session.Caller.Session, session.Opened, body)
		if err != nil {
			return ledger.Unavailable("open a verification", err)
		}
		return nil
	})
}

// Session returns a session: see [verification.Store].
func (s *SQLite) Session(ctx context.Context, id string) (verification.Session, error) {
	return s.session(s.db.Read().QueryRowContext(ctx, `SELECT version, body FROM sessions WHERE id = ?`, id))
}

// Newest returns a caller's newest session: see [verification.Store].
func (s *SQLite) Newest(ctx context.Context, by verification.Caller) (verification.Session, error) {
	return s.session(s.db.Read().QueryRowContext(ctx,
		`SELECT version, body FROM sessions WHERE subject = ? AND session = ? ORDER BY opened DESC, id DESC LIMIT 1`, by.Subject, by.Session))
}

func (s *SQLite) session(row *sql.Row) (found verification.Session, err error) {
	var version int64
	if err = read(row, &found, &version); err == nil {
		found.Version = version
	}
	return found, err
}

// read reads the last column of a row into v, which points to what its JSON holds, and the columns before it into others.
func read(row interface{ Scan(...any) error }, v any, others ...any) error {
	var body []byte
	err := row.Scan(append(others, &body)...)
	if errors.Is(err, sql.ErrNoRows) {
		return verification.ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return ledger.Unavailable("read about verifications", err)
	}
	return nil
}

// Update replaces a session: see [verification.Store].
func (s *SQLite) Update(ctx context.Context, session verification.Session, e verification.Effects) error {
	version := session.Version
	session.Version++
	body, err := json.Marshal(session)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		changed, err := exec(tx, `UPDATE sessions SET version = version + 1, open = ?, body = ? WHERE id = ? AND version = ?`, !session.State.Final(), body, session.ID, version)
		if err != nil {
			return err
		}
		if changed != 1 {
			return verification.ErrConflict
		}
		return effects(tx, e)
	})
}

func effects(tx *sql.Tx, e verification.Effects) error {
	if p := e.Plugin; p != nil {
		body, err := json.Marshal(p)
		if err != nil {
			return err
		}
		changed, err := exec(tx, `INSERT INTO plugins (did, key, name, searched, body) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (did) DO UPDATE SET name = excluded.name, searched = excluded.searched, body = excluded.body WHERE key = excluded.key`,
			p.DID, p.Key, p.Metadata.Name, searched(*p), body)
		if err != nil {
			return err
		}
		if changed != 1 {
			return verification.ErrTaken(p.DID)
		}
	}
	for _, name := range e.Fail {
		if _, err := exec(tx, `INSERT INTO failures (name, count, last) VALUES (?, 1, ?)
			ON CONFLICT (name) DO UPDATE SET count = count + 1, last = excluded.last`, name, e.At.UnixMilli()); err != nil {
			return err
		}
	}
	for _, name := range e.Reset {
		if _, err := exec(tx, `DELETE FROM failures WHERE name = ?`, name); err != nil {
			return err
		}
	}
	return nil
}

// exec runs a statement and returns how many rows it changed.
func exec(tx *sql.Tx, query string, args ...any) (int64, error) {
	done, err := tx.Exec(query, args...)
	if err != nil {
		return 0, ledger.Unavailable("write about verifications", err)
	}
	return done.RowsAffected()
}

// Failures returns failures: see [verification.Store].
func (s *SQLite) Failures(ctx context.Context, names ...string) (found []verification.Failures, err error) {
	for _, name := range names {
		f := verification.Failures{Name: name}
		var last int64
		err := s.db.Read().QueryRowContext(ctx, `SELECT count, last FROM failures WHERE name = ?`, name).Scan(&f.Count, &last)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			return nil, ledger.Unavailable("read failures", err)
		}
		f.Last = time.UnixMilli(last)
		found = append(found, f)
	}
	return found, nil
}

// Search returns plugins: see [verification.Store].
func (s *SQLite) Search(ctx context.Context, query string, limit int) (found []verification.Plugin, err error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT body FROM plugins WHERE instr(searched, ?) > 0 ORDER BY name, did LIMIT ?`, strings.ToLower(query), limit)
	if err != nil {
		return nil, ledger.Unavailable("search plugins", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p verification.Plugin
		if err := read(rows, &p); err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("search plugins: %w", err)
	}
	return found, nil
}

// Plugin returns a plugin: see [verification.Store].
func (s *SQLite) Plugin(ctx context.Context, did string) (p verification.Plugin, err error) {
	err = read(s.db.Read().QueryRowContext(ctx, `SELECT body FROM plugins WHERE did = ?`, did), &p)
	return p, err
}

// Prune removes what is old: see [verification.Store].
func (s *SQLite) Prune(ctx context.Context, sessions, failures time.Time) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := exec(tx, `DELETE FROM sessions WHERE opened < ?`, sessions.UnixMilli()); err != nil {
			return err
		}
		_, err := exec(tx, `DELETE FROM failures WHERE last < ?`, failures.UnixMilli())
		return err
	})
}
