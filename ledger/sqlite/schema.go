package sqlite

import "github.com/actionproof/mediator/ledger/internal/tables"

// dialect is SQLite's SQL. The mark is the greatest seq of the records plus what pruning lost of it, because SQLite
// reuses the seq of a removed last record. It costs a post nothing.
var dialect = tables.Dialect{
	Identity: `SELECT id, pruned + coalesce((SELECT max(seq) FROM posts), 0), (SELECT count(*) FROM accepted)
		FROM identity`,
	// Without statistics the statement must name the index.
	ByKeys:    `INDEXED BY posts_keys `,
	Artifacts: artifactsOf,
	Sets:      `SELECT value FROM json_each($8)`,
	KeyUses: `SELECT kids, ` + edge + `started >= first ORDER BY started LIMIT 1), ` + edge +
		`started <= last ORDER BY started DESC LIMIT 1), n FROM key_sets WHERE n > 0`,
	Pending: `SELECT count(*) FROM (SELECT 1 FROM leaves WHERE seq > ` + numbered + ` LIMIT 1)`,
	Number:  `SELECT seq - 1, entry FROM leaves WHERE seq > $1 ORDER BY seq LIMIT $2`,
	Index:   `iif(seq <= ` + numbered + `, seq - 1, -1)`,
}

// edge begins to select the first or the last record of a key set. Pruning leaves the set's own first and last, from
// which the search begins.
const edge = `(SELECT started FROM posts INDEXED BY posts_keys WHERE keys > 0 AND keys = key_sets.id AND `

// numbered is the seq of the last leaf in the log.
const numbered = `(SELECT size FROM tree)`

const artifactsOf = `(SELECT artifacts FROM artifacts WHERE artifacts.seq = posts.seq)`

// The cost of a post must not grow with the tables. So seq only rises, and an index on a column that many rows share
// ends in started and seq: lists are read from its end, and new rows come near the end.
var schema = Schema{Version: 5, Forgets: "the records, and which keys are consumed: they could be used again",
	Statements: `
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
	keys    INTEGER NOT NULL, -- of key_sets; 0 without evidence
	record  TEXT NOT NULL     -- the ledger.Record without its artifacts, JSON
);
CREATE INDEX posts_started ON posts (started);
CREATE INDEX posts_state ON posts (state, started) WHERE state <> 'forwarded'; -- forwarded is that of nearly all
CREATE INDEX posts_session ON posts (session, started) WHERE session <> '';
CREATE INDEX posts_keys ON posts (started, seq, keys) WHERE keys > 0; -- new rows come at its end
CREATE TABLE key_sets ( -- few. Pruning leaves them
	id    INTEGER PRIMARY KEY,
	kids  TEXT NOT NULL,    -- JSON
	first INTEGER NOT NULL, -- Unix milliseconds: no record of the set started earlier
	last  INTEGER NOT NULL, -- nor later
	n     INTEGER NOT NULL  -- records
);
CREATE TRIGGER posts_removed AFTER DELETE ON posts WHEN old.keys > 0 BEGIN
	UPDATE key_sets SET n = n - 1 WHERE id = old.keys;
END;
CREATE TABLE artifacts ( -- of the record with the same seq
	seq       INTEGER PRIMARY KEY,
	artifacts TEXT NOT NULL -- JSON
);
CREATE TABLE unexported ( -- see ledger.Exports
	seq INTEGER PRIMARY KEY -- of the record
);
CREATE TABLE receipts (
	seq     INTEGER PRIMARY KEY,
	session TEXT NOT NULL,
	number  INTEGER NOT NULL,
	call    TEXT NOT NULL,    -- id of a record, or of the session
	signed  INTEGER NOT NULL, -- Unix milliseconds
	token   TEXT NOT NULL,
	UNIQUE (session, number)
);
CREATE TABLE open_calls (
	id      TEXT PRIMARY KEY, -- of a record, or of a session
	session TEXT NOT NULL,
	started INTEGER NOT NULL, -- Unix milliseconds
	draft   TEXT NOT NULL
);
CREATE TABLE deliveries (
	session TEXT PRIMARY KEY,
	number  INTEGER NOT NULL, -- of the last receipt that was acknowledged
	due     INTEGER NOT NULL, -- Unix milliseconds
	refused TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (due);
CREATE TABLE identity ( -- one row
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	id     TEXT NOT NULL,
	pruned INTEGER NOT NULL -- by how much prunings have lowered the greatest seq of posts
);
CREATE TABLE accepted (
	seq        INTEGER PRIMARY KEY,
	acceptance TEXT NOT NULL -- JSON
);
CREATE TABLE leaves ( -- of the transparency log. Pruning keeps the last one, so that SQLite leaves no gap
	seq     INTEGER PRIMARY KEY, -- its number in the log, plus one
	id      TEXT NOT NULL UNIQUE,
	entry   TEXT NOT NULL,    -- JSON
	opening TEXT NOT NULL,    -- JSON
	made    INTEGER NOT NULL  -- Unix milliseconds
);
CREATE TABLE tiles (
	level INTEGER NOT NULL, -- -1 for entries
	n     INTEGER NOT NULL,
	data  BLOB NOT NULL,
	UNIQUE (level, n)
);
CREATE TABLE tree ( -- one row
	one           INTEGER PRIMARY KEY CHECK (one = 1),
	size          INTEGER NOT NULL,
	root          BLOB NOT NULL,
	signed_size   INTEGER NOT NULL,
	signed        TEXT NOT NULL, -- the checkpoint that the log's key signed last
	accepted_size INTEGER NOT NULL,
	accepted      TEXT NOT NULL  -- the one that the witnesses cosigned last
);`}

const (
	insertKey    = `INSERT INTO used (id, kind, expires) VALUES (?, ?, ?)`
	insertPost   = `INSERT INTO posts (id, flow, state, session, started, keys, record) VALUES (?, ?, ?, ?, ?, ?, ?)`
	insertKeySet = `INSERT INTO key_sets (id, kids, first, last, n) VALUES (?1, ?2, ?3, ?3, 1) ON CONFLICT
		DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last), n = n + 1`
	insertArtifacts = `INSERT INTO artifacts (seq, artifacts) VALUES (last_insert_rowid(), ?)`
	updatePost      = `UPDATE posts SET state = ?, record = ? WHERE id = ? AND state = 'forwarding'`

	insertUnexported = `INSERT INTO unexported (seq) SELECT seq FROM posts WHERE id = ?`
	// CROSS JOIN makes SQLite begin with the records that wait.
	selectUnexported = `SELECT posts.seq, id, record, coalesce(` + artifactsOf + `, '')
		FROM unexported CROSS JOIN posts ON posts.seq = unexported.seq ORDER BY unexported.seq LIMIT ?`
	deleteUnexported = `DELETE FROM unexported WHERE seq IN ` + listed

	insertOpenCall = `INSERT INTO open_calls (id, session, started, draft) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	deleteOpenCall = `DELETE FROM open_calls WHERE id = ?`
	selectOpen     = `SELECT id, session, started, draft FROM open_calls ORDER BY started, id`
	insertReceipt  = `INSERT INTO receipts (session, number, call, signed, token) VALUES (?, ?, ?, ?, ?)`
	selectToken    = `SELECT token FROM receipts WHERE session = ? AND number = ?`
	insertLeaf     = `INSERT INTO leaves (id, entry, opening, made) VALUES (?, ?, ?, ?)`
	insertDelivery = `INSERT INTO deliveries (session, number, due, refused) VALUES (?, 0, 0, '')
		ON CONFLICT DO NOTHING`
	selectDue = `SELECT session, number, due, refused FROM deliveries AS d WHERE due <= ? AND number <
		(SELECT number FROM receipts WHERE session = d.session ORDER BY number DESC LIMIT 1) ORDER BY due LIMIT ?`
)

// selectInFlight repeats the condition in order to use posts_state: a start must not read every record.
var selectInFlight = dialect.Posts() + `WHERE state = 'forwarding' AND state <> 'forwarded'`
