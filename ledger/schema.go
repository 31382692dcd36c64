package ledger

// migrations are the schema in the order in which it came to be. One that has been released never changes.
//
// A table's cost for one post must not grow with the table: seq only rises, and an index of a column that many rows share ends in
// started and seq, so that every list is read from its end, newest first, and a new row comes near the end.
var migrations = []string{`
CREATE TABLE consumed (
	kind    TEXT NOT NULL,
	id      TEXT NOT NULL,
	expires INTEGER NOT NULL, -- Unix seconds
	PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX consumed_expires ON consumed (expires);
CREATE TABLE posts (
	seq     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	flow    TEXT NOT NULL,
	state   TEXT NOT NULL,
	session TEXT NOT NULL,
	started INTEGER NOT NULL, -- Unix milliseconds
	record  TEXT NOT NULL     -- the whole Record, JSON
);
CREATE INDEX posts_forwarding ON posts (state) WHERE state = 'forwarding';
CREATE INDEX posts_started ON posts (started);
`, `
DROP INDEX posts_forwarding;
CREATE INDEX posts_state ON posts (state);
CREATE INDEX posts_session ON posts (session);
CREATE TABLE forgotten ( -- one row, once something has been pruned
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	expires INTEGER NOT NULL -- Unix seconds: no key that expired by then is known any more
);
`, `
CREATE TABLE used ( -- the keys of a post side by side: see place
	id      TEXT NOT NULL,
	kind    TEXT NOT NULL,
	expires INTEGER NOT NULL, -- Unix seconds
	PRIMARY KEY (id, kind)
) WITHOUT ROWID;
INSERT INTO used SELECT iif(instr(id, ' '), substr(id, instr(id, ' ') + 1) || ' ' || substr(id, 1, instr(id, ' ') - 1), id), kind, expires FROM consumed;
DROP TABLE consumed;
CREATE INDEX used_expires ON used (expires);
CREATE TABLE artifacts ( -- of posts; those of an older program, and of a post that was lost, are in its record
	seq       INTEGER PRIMARY KEY,
	artifacts TEXT NOT NULL -- JSON
);
DROP INDEX posts_state;
DROP INDEX posts_session;
CREATE INDEX posts_state ON posts (state) WHERE state <> 'forwarded'; -- that of nearly all
CREATE INDEX posts_session ON posts (session) WHERE session <> '';
`, `
DROP INDEX posts_state;
DROP INDEX posts_session;
CREATE INDEX posts_state ON posts (state, started) WHERE state <> 'forwarded';
CREATE INDEX posts_session ON posts (session, started) WHERE session <> '';
`, `
ALTER TABLE used RENAME TO used_before;
CREATE TABLE used ( -- in the order in which they were used, which is that in which they expire, but for a few
	seq     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL,
	kind    TEXT NOT NULL,
	expires INTEGER NOT NULL, -- Unix seconds
	UNIQUE (id, kind)
);
INSERT INTO used (id, kind, expires) SELECT id, kind, expires FROM used_before ORDER BY expires;
DROP TABLE used_before;
`}

const (
	insertKey       = `INSERT INTO used (id, kind, expires) VALUES (?, ?, ?)`
	insertPost      = `posts (id, flow, state, session, started, record)`
	postColumns     = 6
	insertArtifacts = `INSERT INTO artifacts (seq, artifacts) VALUES (last_insert_rowid(), CAST(? AS TEXT))`
	updatePost      = `UPDATE posts SET state = ?, record = ? WHERE id = ? AND state = 'forwarding'`
	selectPost      = `SELECT record, (SELECT artifacts FROM artifacts WHERE seq = posts.seq) FROM posts `
)
