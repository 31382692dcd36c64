package ledger

// migrations are the schema in the order in which it came to be. One that has been released never changes.
//
// A table's cost for one post must not grow with the table: seq only rises, and an index of a column that many rows share ends in
// seq, so that every list is read from its end, newest first, and a new row is appended to each.
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
	record  TEXT NOT NULL     -- the whole Post, JSON
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
`}

const (
	insertKey  = `INSERT INTO consumed (kind, id, expires) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	insertPost = `INSERT INTO posts (id, flow, state, session, started, record) VALUES (?, ?, ?, ?, ?, ?)`
	updatePost = `UPDATE posts SET state = ?, record = ? WHERE id = ? AND state = 'forwarding'`
)
