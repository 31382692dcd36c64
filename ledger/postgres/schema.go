package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// migrations are the schema in the order in which it came to be. One that has been released never changes. Processes of the release
// before it may still run while it is applied: it must not take from them what they use.
//
// Ids are compared byte by byte (COLLATE "C"): faster, and a beginning is a range.
var migrations = []string{`
CREATE TABLE actionproof.consumed (
	kind    text COLLATE "C" NOT NULL,
	id      text COLLATE "C" NOT NULL,
	expires bigint NOT NULL, -- Unix seconds
	PRIMARY KEY (kind, id)
);
CREATE INDEX consumed_expires ON actionproof.consumed (expires);
CREATE TABLE actionproof.forgotten ( -- one row, once something has been pruned
	one     int PRIMARY KEY CHECK (one = 1),
	expires bigint NOT NULL -- Unix seconds: no key that expired by then is known any more
);
`, `
CREATE TABLE actionproof.posts (
	seq      bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	id       text COLLATE "C" NOT NULL UNIQUE,
	instance text COLLATE "C" NOT NULL, -- the process whose post it is
	flow     text COLLATE "C" NOT NULL,
	state    text COLLATE "C" NOT NULL,
	session  text COLLATE "C" NOT NULL,
	started  bigint NOT NULL, -- Unix milliseconds
	record   text NOT NULL    -- the whole Post, JSON
);
CREATE INDEX posts_forwarding ON actionproof.posts (instance) WHERE state = 'forwarding';
CREATE INDEX posts_state ON actionproof.posts (state, seq);
CREATE INDEX posts_session ON actionproof.posts (session, seq);
CREATE INDEX posts_started ON actionproof.posts (started);
`, `
ALTER TABLE actionproof.posts ADD COLUMN artifacts text; -- of a post, JSON; those of an older program, and of a post that was lost, are in its record
`, `
DROP INDEX actionproof.posts_started;
DROP INDEX actionproof.posts_state;
DROP INDEX actionproof.posts_session;
CREATE INDEX posts_started ON actionproof.posts (started, seq);
CREATE INDEX posts_state ON actionproof.posts (state, started, seq);
CREATE INDEX posts_session ON actionproof.posts (session, started, seq);
`}

// lockID is the advisory lock under which one process at a time migrates or prunes: "actionpr" in ASCII.
const lockID = 0x616374696f6e7072

// migrate applies the migrations that the database lacks, each in a transaction with the version that it makes.
func migrate(ctx context.Context, db *sql.DB, migrations []string) error {
	for {
		if done, err := step(ctx, db, migrations); done || err != nil {
			return err
		}
	}
}

// step applies the next migration, and reports whether there was none. Another process waits meanwhile, and finds it done.
func step(ctx context.Context, db *sql.DB, migrations []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	// A migration may take its time; ctx bounds it.
	if _, err := tx.ExecContext(ctx, `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`); err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockID)); err != nil {
		return false, err
	}
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return false, err
	}
	switch {
	case version > len(migrations):
		return false, fmt.Errorf("it has schema version %d and this program knows %d: use the newer program", version, len(migrations))
	case version == len(migrations):
		return true, nil
	}
	if _, err := tx.ExecContext(ctx, migrations[version], pgx.QueryExecModeSimpleProtocol); err != nil { // several statements
		return false, fmt.Errorf("migration %d: %w", version+1, err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE actionproof.schema_version SET version = $1`, version+1); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// schemaVersion returns how many migrations the database has. A role that may not create anything can ask an existing one, and one that may
// not create a schema can be given it: IF NOT EXISTS would ask for the right all the same.
func schemaVersion(ctx context.Context, tx *sql.Tx) (version int, err error) {
	var schema, table bool
	if err := tx.QueryRowContext(ctx, `SELECT to_regnamespace('actionproof') IS NOT NULL, to_regclass('actionproof.schema_version') IS NOT NULL`).Scan(&schema, &table); err != nil {
		return 0, err
	}
	if !schema {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA actionproof`); err != nil {
			return 0, fmt.Errorf("make the schema actionproof, which takes CREATE on the database: %w", err)
		}
	}
	if !table {
		_, err := tx.ExecContext(ctx, `
CREATE TABLE actionproof.schema_version (one int PRIMARY KEY CHECK (one = 1), version int NOT NULL);
INSERT INTO actionproof.schema_version VALUES (1, 0);`, pgx.QueryExecModeSimpleProtocol)
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `SELECT version FROM actionproof.schema_version`).Scan(&version)
	return version, err
}
