package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/ledger/internal/tables"
)

const versionTable = `
CREATE TABLE %[1]s.schema_version (one int PRIMARY KEY CHECK (one = 1), version int NOT NULL);
INSERT INTO %[1]s.schema_version VALUES (1, %[2]d);`

// dialect is PostgreSQL's SQL. Identity reads rows, and not the sequence behind them: a visible row is durable.
var dialect = tables.Dialect{
	Identity: `SELECT id, greatest(pruned, (SELECT max(seq) FROM posts)), (SELECT count(*) FROM accepted)
		FROM identity`,
	Artifacts: `artifacts`,
	Sets:      `SELECT value::bigint FROM json_array_elements_text($8::json)`,
	// It reads all of posts_keys: counts kept in rows would make the posts of all instances wait for each other. Then
	// eight writers commit a fifth to a third as many.
	KeyUses: `SELECT kids, first, last, n FROM (SELECT keys, min(started) AS first, max(started) AS last, count(*) AS n
		FROM posts WHERE keys > 0 GROUP BY keys) AS used JOIN key_sets ON key_sets.id = used.keys`,
	Pending: `SELECT count(*) FROM (SELECT FROM leaves WHERE number IS NULL LIMIT 1) AS pending`,
	// One statement reads and numbers the leaves: one more could see other ones.
	Number: `UPDATE leaves SET number = p.place FROM (
		SELECT s, $1 + row_number() OVER (ORDER BY s) - 1 AS place
		FROM (SELECT seq AS s FROM leaves WHERE number IS NULL ORDER BY seq LIMIT $2) AS oldest
	) AS p WHERE seq = p.s RETURNING number, entry`,
	Index: `coalesce(number, -1)`,
}

// ledgerSchema compares ids byte by byte (COLLATE "C"): this is faster, and an id's beginning is a range.
var ledgerSchema = Schema{Name: "actionproof", Version: 5,
	Forgets: "the records, and which keys are consumed: they could be used again", Statements: `
CREATE TABLE consumed (
	kind    text COLLATE "C" NOT NULL,
	id      text COLLATE "C" NOT NULL,
	expires bigint NOT NULL, -- Unix seconds
	PRIMARY KEY (kind, id)
);
CREATE INDEX consumed_expires ON consumed (expires);
CREATE TABLE forgotten ( -- one row, once something has been pruned
	one     int PRIMARY KEY CHECK (one = 1),
	expires bigint NOT NULL -- Unix seconds: the use of keys that expired by then is unknown
);
CREATE TABLE posts (
	seq       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	id        text COLLATE "C" NOT NULL UNIQUE,
	instance  text COLLATE "C" NOT NULL, -- the process whose post it is
	flow      text COLLATE "C" NOT NULL,
	state     text COLLATE "C" NOT NULL,
	session   text COLLATE "C" NOT NULL,
	started   bigint NOT NULL, -- Unix milliseconds
	keys      bigint NOT NULL, -- of key_sets; 0 without evidence
	record    text NOT NULL,   -- the Record without its artifacts, JSON
	artifacts text             -- JSON
);
CREATE INDEX posts_forwarding ON posts (instance) WHERE state = 'forwarding';
CREATE INDEX posts_started ON posts (started, seq);
CREATE INDEX posts_state ON posts (state, started, seq);
CREATE INDEX posts_session ON posts (session, started, seq);
CREATE INDEX posts_keys ON posts (started, seq, keys) WHERE keys > 0;
CREATE TABLE key_sets ( -- few: a record changes nothing here unless a key was rotated. Pruning leaves them
	id   bigint PRIMARY KEY,
	kids text NOT NULL -- JSON
);
CREATE TABLE unexported ( -- see ledger.Exports
	seq      bigint PRIMARY KEY,       -- of the record
	instance text COLLATE "C" NOT NULL -- the process that exports it
);
CREATE INDEX unexported_instance ON unexported (instance, seq);
CREATE TABLE receipts (
	session text COLLATE "C" NOT NULL,
	number  bigint NOT NULL,
	call    text COLLATE "C" NOT NULL, -- id of a record, or of the session
	signed  bigint NOT NULL,           -- Unix milliseconds
	token   text NOT NULL,
	PRIMARY KEY (session, number)
);
CREATE INDEX receipts_signed ON receipts (signed);
CREATE TABLE open_calls (
	id       text COLLATE "C" PRIMARY KEY, -- of a record, or of a session
	instance text COLLATE "C" NOT NULL,    -- the process whose call it is
	session  text COLLATE "C" NOT NULL,
	started  bigint NOT NULL,              -- Unix milliseconds
	draft    text NOT NULL
);
CREATE TABLE deliveries (
	session text COLLATE "C" PRIMARY KEY,
	number  bigint NOT NULL, -- of the last receipt that was acknowledged
	due     bigint NOT NULL, -- Unix milliseconds
	refused text NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due);
CREATE TABLE identity ( -- one row
	one    int PRIMARY KEY CHECK (one = 1),
	id     text NOT NULL,
	pruned bigint NOT NULL -- the greatest seq of posts when they were pruned last
);
CREATE TABLE accepted (
	seq        bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	acceptance text NOT NULL -- JSON
);
CREATE TABLE leaves ( -- of the transparency log
	seq     bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	id      text COLLATE "C" NOT NULL UNIQUE,
	entry   text NOT NULL,   -- JSON
	opening text NOT NULL,   -- JSON
	made    bigint NOT NULL, -- Unix milliseconds
	number  bigint           -- in the log; NULL while it has none
);
CREATE INDEX leaves_pending ON leaves (seq) WHERE number IS NULL;
CREATE TABLE tiles (
	level int NOT NULL, -- -1 for entries
	n     bigint NOT NULL,
	data  bytea NOT NULL,
	PRIMARY KEY (level, n)
);
CREATE TABLE tree ( -- one row
	one           int PRIMARY KEY CHECK (one = 1),
	size          bigint NOT NULL,
	root          bytea NOT NULL,
	signed_size   bigint NOT NULL,
	signed        text NOT NULL, -- the checkpoint that the log's key signed last
	accepted_size bigint NOT NULL,
	accepted      text NOT NULL  -- the one that the witnesses cosigned last
);
`}

// lockID is the advisory lock for making the schema and for pruning: "actionpr" in ASCII.
const lockID = 0x616374696f6e7072

// Schema is what a program expects in its schema.
type Schema struct {
	Name       string
	Version    int    // above zero, and unique to the schema
	Statements string // that create the tables
	Forgets    string // what a new database would forget; part of each refusal, so that it is not replaced lightly
}

const (
	making    = time.Minute // bounds the wait for a process that makes the schema
	lookPause = 50 * time.Millisecond
)

// ensure creates a missing schema, and refuses another version. One process creates it. Others that start meanwhile
// look again: if they waited for each other, the last one of many would wait too long.
func (p *pool) ensure(ctx context.Context, s Schema) error {
	ctx, cancel := context.WithTimeout(ctx, making)
	defer cancel()
	for {
		made := false
		err := p.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			made, err = s.ensure(ctx, tx)
			return err
		})
		if err != nil || made {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookPause):
		}
	}
}

// ensure reports false while another process creates the schema. It looks for the schema first, because CREATE SCHEMA
// IF NOT EXISTS needs the right to create even if the schema exists.
func (s Schema) ensure(ctx context.Context, tx *sql.Tx) (made bool, err error) {
	schema, made, err := s.look(ctx, tx)
	if err != nil {
		return false, err
	}
	if !made {
		var mine bool
		err := tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(lockID)).Scan(&mine)
		if err != nil || !mine {
			return false, err
		}
		if schema, made, err = s.look(ctx, tx); err != nil { // it may have been made since
			return false, err
		}
	}
	if made {
		return true, s.check(ctx, tx)
	}
	if !schema {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+s.Name); err != nil {
			return false, fmt.Errorf("make the schema %s, which takes CREATE on the database: %w", s.Name, err)
		}
	}
	statements := fmt.Sprintf(versionTable, s.Name, s.Version) + s.Statements
	if _, err := tx.ExecContext(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil { // several statements
		return false, fmt.Errorf("make the tables: %w", err)
	}
	return true, nil
}

// look reports whether the schema and its tables are there. It reads them as rows: to_regclass may remember that there
// were none.
func (s Schema) look(ctx context.Context, tx *sql.Tx) (schema, made bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), EXISTS (
	SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relname = 'schema_version')`, s.Name).Scan(&schema, &made)
	return schema, made, err
}

func (s Schema) check(ctx context.Context, tx *sql.Tx) error {
	var found int
	if err := tx.QueryRowContext(ctx, `SELECT version FROM `+s.Name+`.schema_version`).Scan(&found); err != nil {
		return err
	}
	if found != s.Version {
		return fmt.Errorf("the schema %s has version %d and this program needs %d: use the program that made it. "+
			"A new database would forget %s", s.Name, found, s.Version, s.Forgets)
	}
	return nil
}
