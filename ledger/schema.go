package ledger

// schema is that of a ledger in an SQLite file.
//
// The cost of one post must not grow with the tables. Therefore seq only rises, and an index of a column that many rows
// share ends in started and seq: every list is read from its end, newest first, and a new row comes near the end.
var schema = Schema{Version: 1, Forgets: "the records, and which keys are consumed: they could be used again", Statements: `
CREATE TABLE used ( -- in the order in which they were used, which is that in which they expire, but for a few
	seq     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL,    -- see timeFirst
	kind    TEXT NOT NULL,
	expires INTEGER NOT NULL, -- Unix seconds
	UNIQUE (id, kind)
);
CREATE TABLE forgotten ( -- one row, once something has been pruned
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	expires INTEGER NOT NULL -- Unix seconds: keys that expired by then are not known any more
);
CREATE TABLE posts (
	seq     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	flow    TEXT NOT NULL,
	state   TEXT NOT NULL,
	session TEXT NOT NULL,
	started INTEGER NOT NULL, -- Unix milliseconds
	record  TEXT NOT NULL     -- the Record without its artifacts, JSON
);
CREATE INDEX posts_started ON posts (started);
CREATE INDEX posts_state ON posts (state, started) WHERE state <> 'forwarded'; -- forwarded is that of nearly all
CREATE INDEX posts_session ON posts (session, started) WHERE session <> '';
CREATE TABLE artifacts ( -- of the record with the same seq
	seq       INTEGER PRIMARY KEY,
	artifacts TEXT NOT NULL -- JSON
);
`}

const (
	insertKey       = `INSERT INTO used (id, kind, expires) VALUES (?, ?, ?)`
	insertPost      = `INSERT INTO posts (id, flow, state, session, started, record) VALUES (?, ?, ?, ?, ?, ?)`
	insertArtifacts = `INSERT INTO artifacts (seq, artifacts) VALUES (last_insert_rowid(), ?)`
	updatePost      = `UPDATE posts SET state = ?, record = ? WHERE id = ? AND state = 'forwarding'`
	selectPost      = `SELECT record, (SELECT artifacts FROM artifacts WHERE seq = posts.seq) FROM posts `
	// selectInFlight says twice what it asks for, to be answered by posts_state: a start must not read every record.
	selectInFlight = selectPost + `WHERE state = 'forwarding' AND state <> 'forwarded'`
)
