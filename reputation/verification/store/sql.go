package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/reputation/verification"
)

const (
	version = 5
	forgets = "who is verified, and who has to wait after failures"
)

// tables are those of an SQLite file. Times are Unix milliseconds. A session is open until its state is final; where that never comes, the time at
// which it was opened tells.
const tables = `
CREATE TABLE sessions (
	id      TEXT PRIMARY KEY,
	version BIGINT NOT NULL,
	subject TEXT NOT NULL,
	session TEXT NOT NULL, -- the caller's
	active  BIGINT NOT NULL, -- 1 until the state is final
	opened  BIGINT NOT NULL,
	body    TEXT NOT NULL  -- the Session, JSON
);
CREATE INDEX sessions_active ON sessions (opened, subject) WHERE active = 1;
CREATE INDEX sessions_caller ON sessions (subject, session, opened);
CREATE TABLE opening ( -- one row, which whoever opens a session changes first: so sessions are counted and opened one after another
	one   BIGINT PRIMARY KEY,
	times BIGINT NOT NULL
);
INSERT INTO opening (one, times) VALUES (1, 0);
CREATE TABLE failures (
	name   TEXT PRIMARY KEY,
	failed BIGINT NOT NULL,
	latest BIGINT NOT NULL
);
CREATE TABLE plugins (
	did      TEXT PRIMARY KEY,
	owner    TEXT NOT NULL, -- its key
	name     TEXT NOT NULL,
	searched TEXT NOT NULL,
	body     TEXT NOT NULL -- the Plugin, JSON
);
CREATE INDEX plugins_name ON plugins (name, did);
CREATE TABLE agents ( -- that have registered a plugin; one stays registered since the first time
	agent TEXT PRIMARY KEY,
	since BIGINT NOT NULL
);
CREATE TABLE passed ( -- the last verification of each caller whom a sidecar names
	subject TEXT PRIMARY KEY,
	at      BIGINT NOT NULL,
	result  TEXT NOT NULL -- signed
);
`

const postgresSchema = "actionproof_verification"

// postgresTables are the same in PostgreSQL. Texts are compared byte by byte, as SQLite does.
var postgresTables = strings.NewReplacer(
	" TEXT", ` text COLLATE "C"`, "CREATE TABLE ", "CREATE TABLE "+postgresSchema+".", " ON ", " ON "+postgresSchema+".", "INSERT INTO ", "INSERT INTO "+postgresSchema+".",
).Replace(tables)

// SQL is a [verification.Store] in an SQLite file of one process, or in a PostgreSQL database that replicas share. Both run the same statements.
type SQL struct {
	read  *sql.DB
	write func(ctx context.Context, do func(tx) error) error
	now   func(ctx context.Context) (time.Time, error)
	close func() error
}

var _ verification.Store = (*SQL)(nil)

// tx is a transaction, and the context of its statements.
type tx struct {
	*sql.Tx
	ctx context.Context
}

// OpenSQLite opens the file at path, or creates it: see [sqlite.OpenDB]. Its clock is now.
func OpenSQLite(ctx context.Context, path string, now func() time.Time) (*SQL, error) {
	if now == nil {
		return nil, errors.New("store: a clock is required")
	}
	db, err := sqlite.OpenDB(ctx, path, sqlite.Schema{Version: version, Statements: tables, Forgets: forgets})
	if err != nil {
		return nil, err
	}
	return &SQL{
		read: db.Read(), close: db.Close, now: func(context.Context) (time.Time, error) { return now(), nil },
		write: func(ctx context.Context, do func(tx) error) error {
			// A context that ends would interrupt the writes of others, which share the transaction.
			return db.Write(ctx, func(t *sql.Tx) error { return do(tx{t, context.WithoutCancel(ctx)}) })
		},
	}, nil
}

// OpenPostgres opens the schema actionproof_verification of the database that dsn names: see [postgres.OpenDB]. Its clock is the database
// server's, so replicas agree about the time.
func OpenPostgres(ctx context.Context, dsn string) (*SQL, error) {
	db, err := postgres.OpenDB(ctx, dsn, postgres.Schema{Name: postgresSchema, Version: version, Statements: postgresTables, Forgets: forgets})
	if err != nil {
		return nil, err
	}
	return &SQL{
		read: db.Read(), close: db.Close, now: db.Now,
		write: func(ctx context.Context, do func(tx) error) error {
			return db.Write(ctx, func(ctx context.Context, t *sql.Tx) error { return do(tx{t, ctx}) })
		},
	}, nil
}

// Close closes the store.
func (s *SQL) Close() error { return s.close() }

// Now returns the time by the store's clock.
func (s *SQL) Now(ctx context.Context) (time.Time, error) { return s.now(ctx) }

// Open keeps a new session: see [verification.Store].
func (s *SQL) Open(ctx context.Context, session verification.Session, perSubject, total int) error {
	body, err := json.Marshal(session)
	if err != nil {
		return err
	}
	lifetime := session.Expires().Sub(time.UnixMilli(session.Opened))
	since := time.UnixMilli(session.Opened).Add(-lifetime).UnixMilli() // what was opened until then has expired
	return s.write(ctx, func(t tx) error {
		if _, err := t.exec(`UPDATE opening SET times = times + 1 WHERE one = 1`); err != nil {
			return err
		}
		var mine, all int
		err := t.QueryRowContext(t.ctx, `SELECT count(*), coalesce(sum(CASE WHEN subject = $1 THEN 1 ELSE 0 END), 0) FROM sessions WHERE active = 1 AND opened > $2`,
			session.Caller.Subject, since).Scan(&all, &mine)
		if err != nil {
			return ledger.Unavailable("count verifications", err)
		}
		if mine >= perSubject || all >= total {
			return verification.ErrTooMany()
		}
		_, err = t.exec(`INSERT INTO sessions (id, version, subject, session, active, opened, body) VALUES ($1, $2, $3, $4, 1, $5, $6)`,
			session.ID, session.Version, session.Caller.Subject, session.Caller.Session, session.Opened, string(body))
		return err
	})
}

// Session returns a session: see [verification.Store].
func (s *SQL) Session(ctx context.Context, id string) (verification.Session, error) {
	return s.session(s.read.QueryRowContext(ctx, `SELECT version, body FROM sessions WHERE id = $1`, id))
}

// Sessions returns the sessions that were opened last: see [verification.Store].
func (s *SQL) Sessions(ctx context.Context, limit int) ([]verification.Session, error) {
	return list(ctx, s.read, "list verifications", func(rows *sql.Rows) (verification.Session, error) { return s.session(rows) }, `SELECT version, body FROM sessions ORDER BY opened DESC, id DESC LIMIT $1`, limit)
}

// list reads the rows of a query.
func list[T any](ctx context.Context, db *sql.DB, what string, scan func(*sql.Rows) (T, error), query string, args ...any) (found []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, ledger.Unavailable(what, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	if err := rows.Err(); err != nil {
		return nil, ledger.Unavailable(what, err)
	}
	return found, nil
}

// Newest returns a caller's newest session: see [verification.Store].
func (s *SQL) Newest(ctx context.Context, by verification.Caller) (verification.Session, error) {
	return s.session(s.read.QueryRowContext(ctx,
		`SELECT version, body FROM sessions WHERE subject = $1 AND session = $2 ORDER BY opened DESC, id DESC LIMIT 1`, by.Subject, by.Session))
}

func (s *SQL) session(row interface{ Scan(...any) error }) (found verification.Session, err error) {
	var version int64
	if err = read(row, &found, &version); err == nil {
		found.Version = version
	}
	return found, err
}

// read reads the last column of a row into v, which points to what its JSON holds, and the columns before it into others.
func read(row interface{ Scan(...any) error }, v any, others ...any) error {
	var body string
	err := row.Scan(append(others, &body)...)
	if errors.Is(err, sql.ErrNoRows) {
		return verification.ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), v)
	}
	if err != nil {
		return ledger.Unavailable("read about verifications", err)
	}
	return nil
}

// Update replaces a session: see [verification.Store].
func (s *SQL) Update(ctx context.Context, session verification.Session, e verification.Effects) error {
	version := session.Version
	session.Version++
	body, err := json.Marshal(session)
	if err != nil {
		return err
	}
	active := 1
	if session.State.Final() {
		active = 0
	}
	return s.write(ctx, func(t tx) error {
		changed, err := t.exec(`UPDATE sessions SET version = version + 1, active = $1, body = $2 WHERE id = $3 AND version = $4`, active, string(body), session.ID, version)
		if err != nil {
			return err
		}
		if changed != 1 {
			return verification.ErrConflict
		}
		return t.effects(e)
	})
}

func (t tx) effects(e verification.Effects) error {
	if p := e.Plugin; p != nil {
		body, err := json.Marshal(p)
		if err != nil {
			return err
		}
		changed, err := t.exec(`INSERT INTO plugins (did, owner, name, searched, body) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (did) DO UPDATE SET name = excluded.name, searched = excluded.searched, body = excluded.body WHERE plugins.owner = excluded.owner`,
			p.DID, p.Key, p.Metadata.Name, searched(*p), string(body))
		if err != nil {
			return err
		}
		if changed != 1 {
			return verification.ErrTaken(p.DID)
		}
	}
	for _, id := range e.Agents {
		if _, err := t.exec(`INSERT INTO agents (agent, since) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, e.At.UnixMilli()); err != nil {
			return err
		}
	}
	if p := e.Passed; p != nil {
		if _, err := t.exec(`INSERT INTO passed (subject, at, result) VALUES ($1, $2, $3)
			ON CONFLICT (subject) DO UPDATE SET at = excluded.at, result = excluded.result`, p.Subject, p.At.UnixMilli(), p.Result); err != nil {
			return err
		}
	}
	for _, name := range e.Fail {
		if _, err := t.exec(`INSERT INTO failures (name, failed, latest) VALUES ($1, 1, $2)
			ON CONFLICT (name) DO UPDATE SET failed = failures.failed + 1, latest = excluded.latest`, name, e.At.UnixMilli()); err != nil {
			return err
		}
	}
	for _, name := range e.Reset {
		if _, err := t.exec(`DELETE FROM failures WHERE name = $1`, name); err != nil {
			return err
		}
	}
	return nil
}

// exec runs a statement and returns how many rows it changed.
func (t tx) exec(query string, args ...any) (int64, error) {
	done, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, ledger.Unavailable("write about verifications", err)
	}
	return done.RowsAffected()
}

// Failures returns failures: see [verification.Store].
func (s *SQL) Failures(ctx context.Context, names ...string) (found []verification.Failures, err error) {
	for _, name := range names {
		f := verification.Failures{Name: name}
		var latest int64
		err := s.read.QueryRowContext(ctx, `SELECT failed, latest FROM failures WHERE name = $1`, name).Scan(&f.Count, &latest)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			return nil, ledger.Unavailable("read failures", err)
		}
		f.Last = time.UnixMilli(latest)
		found = append(found, f)
	}
	return found, nil
}

// literally makes a text a pattern of LIKE that stands for itself.
var literally = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// Search returns plugins: see [verification.Store].
func (s *SQL) Search(ctx context.Context, query string, limit int) ([]verification.Plugin, error) {
	return list(ctx, s.read, "search plugins", func(rows *sql.Rows) (p verification.Plugin, err error) {
		err = read(rows, &p)
		return p, err
	}, `SELECT body FROM plugins WHERE searched LIKE $1 ESCAPE '!' ORDER BY name, did LIMIT $2`, "%"+literally.Replace(strings.ToLower(query))+"%", limit)
}

// Plugin returns a plugin: see [verification.Store].
func (s *SQL) Plugin(ctx context.Context, did string) (p verification.Plugin, err error) {
	err = read(s.read.QueryRowContext(ctx, `SELECT body FROM plugins WHERE did = $1`, did), &p)
	return p, err
}

// Registered returns since when an agent is registered: see [verification.Store].
func (s *SQL) Registered(ctx context.Context, agent string) (since time.Time, ok bool, err error) {
	var ms int64
	err = s.read.QueryRowContext(ctx, `SELECT since FROM agents WHERE agent = $1`, agent).Scan(&ms)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return since, false, nil
	case err != nil:
		return since, false, ledger.Unavailable("read who is registered", err)
	}
	return time.UnixMilli(ms), true, nil
}

// Passed returns what a caller has passed: see [verification.Store].
func (s *SQL) Passed(ctx context.Context, subject string) (verification.Passed, error) {
	p := verification.Passed{Subject: subject}
	var at int64
	err := s.read.QueryRowContext(ctx, `SELECT at, result FROM passed WHERE subject = $1`, subject).Scan(&at, &p.Result)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return p, verification.ErrNotFound
	case err != nil:
		return p, ledger.Unavailable("read what was passed", err)
	}
	p.At = time.UnixMilli(at)
	return p, nil
}

// Prune removes what is old: see [verification.Store].
func (s *SQL) Prune(ctx context.Context, sessions, failures, passed time.Time) error {
	return s.write(ctx, func(t tx) error {
		for query, before := range map[string]time.Time{
			`DELETE FROM sessions WHERE opened < $1`: sessions, `DELETE FROM failures WHERE latest < $1`: failures, `DELETE FROM passed WHERE at < $1`: passed,
		} {
			if _, err := t.exec(query, before.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}
