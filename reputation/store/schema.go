package store

import "github.com/actionproof/mediator/internal/db"

var schema = db.Schema{
	Name: "actionproof_reputation", Version: 9, Tables: tables, Missing: ErrNotFound,
	Forgets: "the receipts of all owners, the commitments of agents, the logs behind their reputations, and all disputes",
}

// tables have times in Unix milliseconds; 0 means never.
const tables = `
CREATE TABLE owners (
	owner    TEXT PRIMARY KEY,
	sessions BIGINT NOT NULL, -- current number
	receipts BIGINT NOT NULL,
	samples  BIGINT NOT NULL, -- ever given
	challenges BIGINT NOT NULL
);
CREATE TABLE sessions (
	owner   TEXT NOT NULL,
	session TEXT NOT NULL,
	agent   TEXT NOT NULL,
	next    BIGINT NOT NULL, -- number of the next receipt
	updated BIGINT NOT NULL, -- when the last receipt came
	closed  BIGINT NOT NULL, -- when the closing receipt came
	forked  BIGINT NOT NULL, -- 1 if there are two chains
	entered BIGINT NOT NULL, -- next when it was last entered in its agent's log or skipped
	PRIMARY KEY (owner, session)
);
CREATE INDEX sessions_session ON sessions (session);
CREATE INDEX sessions_updated ON sessions (updated);
CREATE INDEX sessions_unentered ON sessions (owner, closed) WHERE closed > 0 AND forked = 0 AND entered < next;
CREATE TABLE receipts (
	owner   TEXT NOT NULL,
	session TEXT NOT NULL,
	number  BIGINT NOT NULL,
	hash    TEXT NOT NULL UNIQUE,
	request TEXT NOT NULL, -- request_id: a call has one receipt
	token   TEXT NOT NULL,
	PRIMARY KEY (owner, session, number),
	UNIQUE (owner, session, request)
);
CREATE TABLE forks ( -- the first contradiction of a session
	owner   TEXT NOT NULL,
	session TEXT NOT NULL,
	number  BIGINT NOT NULL,
	token   TEXT NOT NULL, -- another receipt with this number
	seen    BIGINT NOT NULL,
	PRIMARY KEY (owner, session)
);
CREATE TABLE challenges (
	nonce   TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	session TEXT NOT NULL,
	number  BIGINT NOT NULL,
	version BIGINT NOT NULL,
	issued  BIGINT NOT NULL,
	body    TEXT NOT NULL, -- the Challenge, JSON
	UNIQUE (owner, session, number)
);
CREATE INDEX challenges_issued ON challenges (issued);
CREATE TABLE used ( -- caller tokens
	id      TEXT PRIMARY KEY,
	expires BIGINT NOT NULL
);
CREATE INDEX used_expires ON used (expires);
CREATE TABLE samples (
	owner   TEXT NOT NULL,
	session TEXT NOT NULL,
	closed  BIGINT NOT NULL,
	sample  TEXT NOT NULL, -- JSON
	PRIMARY KEY (owner, session)
);
CREATE INDEX samples_closed ON samples (owner, closed, session);
CREATE TABLE baselines ( -- never removed, because scores name them
	hash    TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	number  BIGINT NOT NULL, -- per owner, from 1, so that replicas cannot make the same
	made    BIGINT NOT NULL,
	samples BIGINT NOT NULL, -- ever given by the owner
	document TEXT NOT NULL,  -- JSON
	UNIQUE (owner, number)
);
CREATE TABLE entries ( -- agents' logs; never removed, because reputations follow from them
	agent  TEXT NOT NULL,   -- the owner's thumbprint, a colon, and the subject
	number BIGINT NOT NULL, -- per agent, from 1, so that replicas cannot add the same
	head   TEXT NOT NULL,   -- of the log
	entry  TEXT NOT NULL,   -- canonical JSON
	PRIMARY KEY (agent, number)
);
CREATE INDEX entries_agents ON entries (agent) WHERE number = 1;
CREATE TABLE steps ( -- the log of signals and disputes; never removed
	number    BIGINT PRIMARY KEY, -- from 1
	step      TEXT NOT NULL,      -- canonical JSON
	completed BLOB NOT NULL       -- hashes of the subtrees that end with it, the smallest first
);
CREATE TABLE state ( -- rows of package dispute
	id    TEXT PRIMARY KEY,
	text  TEXT NOT NULL,   -- JSON
	at    BIGINT NOT NULL, -- time of the step that wrote it; Unix seconds
	queue TEXT NOT NULL,   -- where it waits, or empty
	due   BIGINT NOT NULL  -- Unix seconds
);
CREATE INDEX state_at ON state (at);
CREATE INDEX state_due ON state (queue, due, id) WHERE queue <> '';
INSERT INTO state (id, text, at, queue, due) VALUES ('log', '', 0, '', 0);
CREATE TABLE documents ( -- of signals and disputes; never removed
	id   TEXT PRIMARY KEY,
	text TEXT NOT NULL
);
`
