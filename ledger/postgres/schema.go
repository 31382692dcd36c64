package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// versionTable holds the version of a schema.
const versionTable = `
CREATE TABLE %[1]s.schema_version (one int PRIMARY KEY CHECK (one = 1), version int NOT NULL);
INSERT INTO %[1]s.schema_version VALUES (1, %[2]d);`

// ledgerSchema is the ledger's. Ids are compared byte by byte (COLLATE "C"): this is faster, and a beginning is a range.
var ledgerSchema = Schema{Name: "actionproof", Version: 1, Forgets: "the records, and which keys are consumed: they could be used again", Statements: `
CREATE TABLE actionproof.consumed (
	kind    text COLLATE "C" NOT NULL,
	id      text COLLATE "C" NOT NULL,
	expires bigint NOT NULL, -- Unix seconds
	PRIMARY KEY (kind, id)
);
CREATE INDEX consumed_expires ON actionproof.consumed (expires);
CREATE TABLE actionproof.forgotten ( -- one row, once something has been pruned
	one     int PRIMARY KEY CHECK (one = 1),
	expires bigint NOT NULL -- Unix seconds: keys that expired by then are not known any more
);
CREATE TABLE actionproof.posts (
	seq       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	id        text COLLATE "C" NOT NULL UNIQUE,
	instance  text COLLATE "C" NOT NULL, -- the process whose post it is
	flow      text COLLATE "C" NOT NULL,
	state     text COLLATE "C" NOT NULL,
	session   text COLLATE "C" NOT NULL,
	started   bigint NOT NULL, -- Unix milliseconds
	record    text NOT NULL,   -- the Record without its artifacts, JSON
	artifacts text             -- JSON
);
CREATE INDEX posts_forwarding ON actionproof.posts (instance) WHERE state = 'forwarding';
CREATE INDEX posts_started ON actionproof.posts (started, seq);
CREATE INDEX posts_state ON actionproof.posts (state, started, seq);
CREATE INDEX posts_session ON actionproof.posts (session, started, seq);
`}

// lockID is the advisory lock under which one process at a time makes the schema or prunes: "actionpr" in ASCII.
const lockID = 0x616374696f6e7072

// makeSchema makes the schema where there is none, by the time now, and refuses another version of it. A process that comes meanwhile
// waits.
//
// A role that may not create anything can use tables that are there, and one that may not create a schema can be given
// it. Therefore the schema is asked for first: CREATE SCHEMA IF NOT EXISTS would need the right all the same.
func makeSchema(ctx context.Context, db *sql.DB, now time.Time) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if err := ledgerSchema.ensure(ctx, tx); err != nil {
		return err
	}
	return identify(ctx, tx, now)
}

// Schema is what a program expects in a schema of its own in the database.
type Schema struct {
	Name       string
	Version    int    // above zero; another one for each other schema
	Statements string // that make its tables
	Forgets    string // what a new database would forget; said where a schema is refused, so that it is not replaced lightly
}

// ensure makes the schema in a transaction, unless it is there, and refuses another version of it.
func (s Schema) ensure(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockID)); err != nil {
		return err
	}
	var schema, made bool
	err := tx.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL, to_regclass($1 || '.schema_version') IS NOT NULL`, s.Name).Scan(&schema, &made)
	if err != nil {
		return err
	}
	if made {
		return s.check(ctx, tx)
	}
	if !schema {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+s.Name); err != nil {
			return fmt.Errorf("make the schema %s, which takes CREATE on the database: %w", s.Name, err)
		}
	}
	statements := fmt.Sprintf(versionTable, s.Name, s.Version) + s.Statements
	if _, err := tx.ExecContext(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil { // several statements
		return fmt.Errorf("make the tables: %w", err)
	}
	return nil
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
