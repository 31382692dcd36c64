package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// version is that of the schema.
const version = 1

// tables are the schema. Ids are compared byte by byte (COLLATE "C"): this is faster, and a beginning is a range.
var tables = fmt.Sprintf(`
CREATE TABLE actionproof.schema_version (one int PRIMARY KEY CHECK (one = 1), version int NOT NULL);
INSERT INTO actionproof.schema_version VALUES (1, %d);
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
`, version)

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
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockID)); err != nil {
		return err
	}
	var schema, made bool
	err = tx.QueryRowContext(ctx, `
SELECT to_regnamespace('actionproof') IS NOT NULL, to_regclass('actionproof.schema_version') IS NOT NULL`).Scan(&schema, &made)
	if err != nil {
		return err
	}
	if made {
		if err := checkVersion(ctx, tx); err != nil {
			return err
		}
		return identify(ctx, tx, now)
	}
	if !schema {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA actionproof`); err != nil {
			return fmt.Errorf("make the schema actionproof, which takes CREATE on the database: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, tables, pgx.QueryExecModeSimpleProtocol); err != nil { // several statements
		return fmt.Errorf("make the tables: %w", err)
	}
	return identify(ctx, tx, now)
}

func checkVersion(ctx context.Context, tx *sql.Tx) error {
	var found int
	if err := tx.QueryRowContext(ctx, `SELECT version FROM actionproof.schema_version`).Scan(&found); err != nil {
		return err
	}
	if found != version {
		return fmt.Errorf("the schema actionproof has version %d and this program needs %d: "+
			"use the program that made it. A new database would forget the records, and which keys are consumed: "+
			"they could be used again", found, version)
	}
	return nil
}
