package tables

import (
	"slices"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/ledger"
)

// Schema has the tables of a ledger.
//
// The cost of a post must not grow with them. So seq only rises, and an index on a column that many rows share ends in
// started and seq: lists are read from its end, and new rows come near the end.
var Schema = db.Schema{Name: "actionproof", Version: 6, Missing: ledger.ErrNotFound,
	Forgets: "the records, and which keys are consumed: they could be used again", Tables: `
CREATE TABLE consumed ( -- in the order in which they were used, which is that in which they expire, but for a few
	seq     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL,   -- in SQLite see timeFirst
	kind    TEXT NOT NULL,
	expires BIGINT NOT NULL, -- Unix seconds
	UNIQUE (id, kind)
);
CREATE TABLE forgotten ( -- one row, once something has been pruned
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	expires BIGINT NOT NULL -- Unix seconds: the use of keys that expired by then is unknown
);
CREATE TABLE posts (
	seq      INTEGER PRIMARY KEY,
	id       TEXT NOT NULL UNIQUE,
	instance TEXT NOT NULL,   -- the process whose post it is
	flow     TEXT NOT NULL,
	state    TEXT NOT NULL,
	session  TEXT NOT NULL,
	started  BIGINT NOT NULL, -- Unix milliseconds
	keys     BIGINT NOT NULL, -- of key_sets; 0 without evidence
	record   TEXT NOT NULL    -- the ledger.Record without its artifacts, JSON
);
CREATE INDEX posts_started ON posts (started, seq);
CREATE INDEX posts_state ON posts (state, started, seq) WHERE state <> 'forwarded'; -- forwarded is that of nearly all
CREATE INDEX posts_session ON posts (session, started, seq) WHERE session <> '';
CREATE INDEX posts_keys ON posts (started, seq, keys) WHERE keys > 0; -- new rows come at its end
CREATE TABLE key_sets ( -- few. Pruning leaves them. Only a file counts: see countKeySet
	id    INTEGER PRIMARY KEY,
	kids  TEXT NOT NULL,   -- JSON
	first BIGINT NOT NULL, -- Unix milliseconds: no record of the set started earlier
	last  BIGINT NOT NULL, -- nor later
	n     BIGINT NOT NULL  -- records
);
CREATE TABLE artifacts ( -- of the record with the same seq: an outcome does not write them again
	seq       INTEGER PRIMARY KEY,
	artifacts TEXT NOT NULL -- JSON
);
CREATE TABLE unexported ( -- see ledger.Exports
	seq      INTEGER PRIMARY KEY, -- of the record
	instance TEXT NOT NULL        -- the process that exports it
);
CREATE INDEX unexported_instance ON unexported (instance, seq);
CREATE TABLE receipts (
	seq     INTEGER PRIMARY KEY,
	session TEXT NOT NULL,
	number  BIGINT NOT NULL,
	call    TEXT NOT NULL,   -- id of a record, or of the session
	signed  BIGINT NOT NULL, -- Unix milliseconds
	token   TEXT NOT NULL,
	UNIQUE (session, number)
);
CREATE TABLE open_calls (
	id       TEXT PRIMARY KEY, -- of a record, or of a session
	instance TEXT NOT NULL,    -- the process whose call it is
	session  TEXT NOT NULL,
	started  BIGINT NOT NULL,  -- Unix milliseconds
	draft    TEXT NOT NULL
);
CREATE TABLE deliveries (
	session TEXT PRIMARY KEY,
	number  BIGINT NOT NULL, -- of the last receipt that was acknowledged
	due     BIGINT NOT NULL, -- Unix milliseconds
	refused TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (due);
CREATE TABLE identity ( -- one row
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	id     TEXT NOT NULL,
	pruned BIGINT NOT NULL -- by how much prunings have lowered the greatest seq of posts
);
CREATE TABLE accepted (
	seq        INTEGER PRIMARY KEY,
	acceptance TEXT NOT NULL -- JSON
);
CREATE TABLE leaves ( -- of the transparency log
	seq     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	entry   TEXT NOT NULL,   -- JSON
	opening TEXT NOT NULL,   -- JSON
	made    BIGINT NOT NULL, -- Unix milliseconds
	number  BIGINT           -- in the log; NULL while it has none
);
CREATE INDEX leaves_pending ON leaves (seq) WHERE number IS NULL;
CREATE TABLE tiles (
	level BIGINT NOT NULL, -- -1 for entries
	n     BIGINT NOT NULL,
	data  BLOB NOT NULL,
	UNIQUE (level, n)
);
CREATE TABLE tree ( -- one row
	one           INTEGER PRIMARY KEY CHECK (one = 1),
	size          BIGINT NOT NULL,
	root          BLOB NOT NULL,
	signed_size   BIGINT NOT NULL,
	signed        TEXT NOT NULL, -- the checkpoint that the log's key signed last
	accepted_size BIGINT NOT NULL,
	accepted      TEXT NOT NULL  -- the one that the witnesses cosigned last
);`, Frequent: slices.Concat(ofPosts[:], ofReceipts[:], []string{insertKey, insertLeaf, numberLeaf, exported,
		deleteArtifacts, uncountKeySet, deletePost})}

const (
	insertPost = `INSERT INTO posts (id, instance, flow, state, session, started, keys, record)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	insertArtifacts = `INSERT INTO artifacts (seq, artifacts) SELECT seq, $2 FROM posts WHERE id = $1`
	insertKeySet    = `INSERT INTO key_sets (id, kids, first, last, n) VALUES ($1, $2, $3, $3, 1) ON CONFLICT (id) DO `
	// countKeySet is for a file. In a shared database it would make the posts of all processes wait for each other: then
	// eight writers commit a fifth to a third as many.
	countKeySet = insertKeySet +
		`UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last), n = n + 1`
	nameKeySet       = insertKeySet + `NOTHING`
	insertUnexported = `INSERT INTO unexported (seq, instance) SELECT seq, $2 FROM posts WHERE id = $1`
	// updatePost finds the post by id. A plain state = 'forwarding' could read all of posts_state, which in PostgreSQL
	// keeps an entry for each post that has ended since the last vacuum.
	updatePost = `UPDATE posts SET state = $2, record = $3 WHERE id = $1 AND state || '' = 'forwarding'`

	insertLeaf = `INSERT INTO leaves (id, entry, opening, made) VALUES ($1, $2, $3, $4)`
	addLeaf    = insertLeaf + ` ON CONFLICT DO NOTHING`
	// insertEnd adds the leaf of a lost post unless the log lacks its intent: then it began before the ledger logged.
	insertEnd = `INSERT INTO leaves (id, entry, opening, made)
		SELECT $1, $2, $3, CAST($4 AS bigint) WHERE EXISTS (SELECT 1 FROM leaves WHERE id = $5)`

	// insertKey inserts nothing if the key is known, or may have been forgotten.
	insertKey = `INSERT INTO consumed (id, kind, expires) SELECT $1, $2, $3
		WHERE NOT EXISTS (SELECT 1 FROM forgotten WHERE expires >= $3) ON CONFLICT DO NOTHING`
	forgetUntil = `INSERT INTO forgotten (one, expires) VALUES (1, $1)
		ON CONFLICT (one) DO UPDATE SET expires = excluded.expires WHERE forgotten.expires < excluded.expires`

	insertOpenCall = `INSERT INTO open_calls (id, instance, session, started, draft)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	deleteOpenCall = `DELETE FROM open_calls WHERE id = $1`
	// insertReceipt changes no row if the chain has another receipt with this number.
	insertReceipt = `INSERT INTO receipts (session, number, call, signed, token) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (session, number) DO UPDATE SET token = receipts.token WHERE receipts.token = excluded.token`
	insertDelivery = `INSERT INTO deliveries (session, number, due, refused) VALUES ($1, 0, 0, '')
		ON CONFLICT DO NOTHING`
	exported = `DELETE FROM unexported WHERE seq = $1`

	insertAcceptance = `INSERT INTO accepted (acceptance) VALUES ($1)`
	insertIdentity   = `INSERT INTO identity (one, id, pruned) VALUES (1, $1, 0) ON CONFLICT DO NOTHING`
	insertTree       = `INSERT INTO tree (one, size, root, signed_size, signed, accepted_size, accepted)
		VALUES (1, 0, $1, 0, '', 0, '') ON CONFLICT DO NOTHING`
)

var (
	ofPosts    = [...]string{insertPost, insertArtifacts, countKeySet, insertUnexported, updatePost}
	ofReceipts = [...]string{insertOpenCall, deleteOpenCall, insertReceipt, insertDelivery}
)
