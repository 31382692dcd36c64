package verification

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/backend"
	"github.com/actionproof/mediator/internal/refusal"
)

var (
	// ErrNotFound means that there is no such session or plugin.
	ErrNotFound = errors.New("verification: not found")
	// ErrConflict means that the session was updated since it was read. Nothing was stored.
	ErrConflict = errors.New("verification: the session was updated meanwhile")
)

// Effects are what the end of a session changes besides the session.
type Effects struct {
	// Plugin is registered, or refused if another key has its DID.
	Plugin *Plugin
	// Agents are registered from At on, unless they already are, and then until RegisteredFor after At.
	Agents []string
	// Passed replaces its subject's earlier one. A replica that was frozen can bring an older one, which does not count.
	Passed *Passed
	// Fail names get one more failure at At; Reset names lose theirs.
	Fail, Reset []string
	At          time.Time
}

// Passed is a passed verification of a caller named by a sidecar.
type Passed struct {
	Subject string
	At      time.Time
	Result  string
}

// Plugin is a registered plugin.
type Plugin struct {
	DID        string    `json:"did"`
	Key        string    `json:"key"`
	DIDKey     string    `json:"didKey"`
	Subject    string    `json:"subject"`
	Metadata   Metadata  `json:"metadata"`
	Manifest   string    `json:"manifest,omitempty"`
	Result     string    `json:"result"`
	Registered time.Time `json:"registered"`
}

// Metadata is the agent's own description of its plugin. It is short and printable, but still the agent's text.
type Metadata struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

var schema = db.Schema{
	Name: "actionproof_verification", Version: 7, Tables: tables, Missing: ErrNotFound,
	Forgets: "who is verified, and who has to wait after failures",
}

// tables have times in Unix milliseconds. A session is open until its state is final or its time has passed.
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
CREATE TABLE opening ( -- one row, updated first by each opening, so that sessions are counted one after another
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
CREATE TABLE agents (
	agent  TEXT PRIMARY KEY,
	since  BIGINT NOT NULL, -- the first registration of a plugin, without a gap of RegisteredFor since then
	latest BIGINT NOT NULL  -- the last one
);
CREATE TABLE passed ( -- the last passed verification of each caller named by a sidecar
	subject TEXT PRIMARY KEY,
	at      BIGINT NOT NULL,
	result  TEXT NOT NULL -- signed
);
`

// Store keeps sessions, failures and plugins. A call that returned nil is durable. It is safe for concurrent use.
type Store struct {
	db  *db.DB
	now func(ctx context.Context) (time.Time, error)
}

// Open opens a schema of the PostgreSQL database that dsn names, with the server's clock, so that replicas agree. If
// dsn is empty, it opens the SQLite file at path with the clock now.
func Open(ctx context.Context, path, dsn string, now func() time.Time) (*Store, error) {
	d, err := backend.Open(ctx, path, dsn, schema)
	if err != nil {
		return nil, err
	}
	s := &Store{d, d.Clock()}
	if s.now == nil {
		s.now = func(context.Context) (time.Time, error) { return now(), nil }
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.db.Close() }

// Now returns the time by the store's clock, the only clock for sessions, so that replicas agree.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.now(ctx) }

// Begin keeps a new session, or refuses it if the subject has perSubject open sessions or there are total.
func (s *Store) Begin(ctx context.Context, session Session, perSubject, total int) error {
	lifetime := session.Expires().Sub(time.UnixMilli(session.Opened))
	since := time.UnixMilli(session.Opened).Add(-lifetime).UnixMilli() // earlier ones have expired
	return s.db.Write(ctx, "open the verification", func(t db.Tx) error {
		if _, err := t.Exec(`UPDATE opening SET times = times + 1 WHERE one = 1`); err != nil {
			return err
		}
		open, err := db.ManyIn[struct{ OfSubject, All int }](t,
			`SELECT coalesce(sum(CASE WHEN subject = $1 THEN 1 ELSE 0 END), 0), count(*) FROM sessions
			WHERE active = 1 AND opened > $2`, session.Caller.Subject, since)
		if err != nil {
			return err
		}
		if open[0].OfSubject >= perSubject || open[0].All >= total {
			return refusal.New("too_many_open", "too many verifications are open; finish one, or wait until one expires")
		}
		_, err = t.Exec(
			`INSERT INTO sessions (id, version, subject, session, active, opened, body) VALUES ($1, $2, $3, $4, 1, $5, $6)`,
			session.ID, session.Version, session.Caller.Subject, session.Caller.Session, session.Opened, db.JSON{Of: session})
		return err
	})
}

// Session returns a session, or ErrNotFound.
func (s *Store) Session(ctx context.Context, id string) (Session, error) {
	return db.Object[Session](ctx, s.db, "read the verification", `SELECT body FROM sessions WHERE id = $1`, id)
}

// Newest returns the caller's latest session, or ErrNotFound.
func (s *Store) Newest(ctx context.Context, by Caller) (Session, error) {
	return db.Object[Session](ctx, s.db, "read the verification",
		`SELECT body FROM sessions WHERE subject = $1 AND session = $2 ORDER BY opened DESC, id DESC LIMIT 1`, by.Subject,
		by.Session)
}

// Update replaces the session of this version, or returns ErrConflict, and applies effects, in one transaction.
func (s *Store) Update(ctx context.Context, session Session, e Effects) error {
	version := session.Version
	session.Version++
	active := 1
	if session.State.Final() {
		active = 0
	}
	all := []db.Statement{{
		Query: `UPDATE sessions SET version = version + 1, active = $1, body = $2 WHERE id = $3 AND version = $4`,
		Args:  []any{active, db.JSON{Of: session}, session.ID, version}, None: ErrConflict,
	}}
	add := func(none error, query string, args ...any) {
		all = append(all, db.Statement{Query: query, Args: args, None: none})
	}
	if p := e.Plugin; p != nil {
		searched := strings.ToLower(strings.Join([]string{p.Metadata.Name, p.Metadata.Description, p.DID}, "\n"))
		add(refusal.New("id_taken", "%s is registered for another key", p.DID),
			`INSERT INTO plugins (did, owner, name, searched, body) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (did) DO UPDATE SET name = excluded.name, searched = excluded.searched, body = excluded.body
			WHERE plugins.owner = excluded.owner`, p.DID, p.Key, p.Metadata.Name, searched, db.JSON{Of: p})
	}
	for _, id := range e.Agents {
		add(nil, `INSERT INTO agents (agent, since, latest) VALUES ($1, $2, $2) ON CONFLICT (agent) DO UPDATE
			SET since = CASE WHEN agents.latest <= $3 THEN excluded.since ELSE agents.since END,
			latest = CASE WHEN agents.latest > excluded.latest THEN agents.latest ELSE excluded.latest END`,
			id, e.At, e.At.Add(-RegisteredFor))
	}
	if p := e.Passed; p != nil {
		add(nil, `INSERT INTO passed (subject, at, result) VALUES ($1, $2, $3)
			ON CONFLICT (subject) DO UPDATE SET at = excluded.at, result = excluded.result
			WHERE passed.at <= excluded.at`, p.Subject, p.At, p.Result)
	}
	for _, name := range e.Fail {
		add(nil, `INSERT INTO failures (name, failed, latest) VALUES ($1, 1, $2)
			ON CONFLICT (name) DO UPDATE SET failed = failures.failed + 1, latest = excluded.latest`, name, e.At)
	}
	for _, name := range e.Reset {
		add(nil, `DELETE FROM failures WHERE name = $1`, name)
	}
	return s.db.Write(ctx, "update the verification", func(t db.Tx) error { return t.Run(all...) })
}

// Failures returns the failures of these names.
func (s *Store) Failures(ctx context.Context, names ...string) ([]Failures, error) {
	list, argument := s.db.List(names)
	return db.Many[Failures](ctx, s.db, "read failures",
		`SELECT name, failed, latest FROM failures WHERE name IN `+list+` ORDER BY name`, argument)
}

var literally = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// Search returns plugins with the query in name, description or DID, ordered by name, at most limit.
func (s *Store) Search(ctx context.Context, query string, limit int) ([]Plugin, error) {
	return db.Objects[Plugin](ctx, s.db, "search plugins",
		`SELECT body FROM plugins WHERE searched LIKE $1 ESCAPE '!' ORDER BY name, did LIMIT $2`,
		"%"+literally.Replace(strings.ToLower(query))+"%", limit)
}

// Plugin returns a plugin, or ErrNotFound.
func (s *Store) Plugin(ctx context.Context, did string) (Plugin, error) {
	return db.Object[Plugin](ctx, s.db, "read the plugin", `SELECT body FROM plugins WHERE did = $1`, did)
}

// RegisteredFor is the time for which an agent stays registered after a passed verification.
const RegisteredFor = 30 * 24 * time.Hour

// Registered returns since when an agent is registered. It must pass a verification again within [RegisteredFor].
func (s *Store) Registered(ctx context.Context, agent string) (since time.Time, ok bool, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return since, false, err
	}
	since, err = db.One[time.Time](ctx, s.db, "read who is registered",
		`SELECT since FROM agents WHERE agent = $1 AND latest > $2`, agent, now.Add(-RegisteredFor))
	if errors.Is(err, ErrNotFound) {
		return time.Time{}, false, nil
	}
	return since, err == nil, err
}

// Passed returns the last passed verification of a caller named by a sidecar, or ErrNotFound.
func (s *Store) Passed(ctx context.Context, subject string) (Passed, error) {
	return db.One[Passed](ctx, s.db, "read the passed verification",
		`SELECT subject, at, result FROM passed WHERE subject = $1`, subject)
}

// Prune removes sessions opened, failures made, and verifications passed before the given times.
func (s *Store) Prune(ctx context.Context, sessions, failures, passed time.Time) error {
	return s.db.Write(ctx, "remove old verifications", func(t db.Tx) error {
		return t.Run(db.Statement{Query: `DELETE FROM sessions WHERE opened < $1`, Args: []any{sessions}},
			db.Statement{Query: `DELETE FROM failures WHERE latest < $1`, Args: []any{failures}},
			db.Statement{Query: `DELETE FROM passed WHERE at < $1`, Args: []any{passed}})
	})
}
