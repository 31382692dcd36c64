package store

import "strings"

const (
	version = 3
	forgets = "the receipts of all owners, what agents have committed to, the logs that their reputations follow from, and all disputes"
)

// tables are those in SQLite. Times are Unix milliseconds, and 0 means never.
const tables = `
CREATE TABLE owners (
	owner    TEXT PRIMARY KEY,
	sessions BIGINT NOT NULL, -- how many it has, so that they need not be counted
	receipts BIGINT NOT NULL,
	samples  BIGINT NOT NULL, -- how many it has ever given
	challenges BIGINT NOT NULL
);
CREATE TABLE sessions (
	owner   TEXT NOT NULL,
	session TEXT NOT NULL,
	agent   TEXT NOT NULL,
	next    BIGINT NOT NULL, -- number of the receipt that is wanted
	head    TEXT NOT NULL,   -- hash of the last receipt
	began   BIGINT NOT NULL, -- when the first receipt came
	updated BIGINT NOT NULL, -- when the last receipt came
	closed  BIGINT NOT NULL, -- when the last receipt came, if it closes the chain
	forked  BIGINT NOT NULL, -- 1 if there are two chains
	sampled BIGINT NOT NULL, -- 1 once it has given its sample, or was found to have none
	entered BIGINT NOT NULL, -- the value of next when the session was last entered in the log of its agent, or was found to have no place there
	PRIMARY KEY (owner, session)
);
CREATE INDEX sessions_session ON sessions (session);
CREATE INDEX sessions_updated ON sessions (updated);
CREATE INDEX sessions_unsampled ON sessions (closed) WHERE closed > 0 AND sampled = 0;
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
	token   TEXT NOT NULL, -- a receipt with this number, which is another one than that in receipts
	seen    BIGINT NOT NULL,
	PRIMARY KEY (owner, session)
);
CREATE TABLE challenges (
	nonce      TEXT PRIMARY KEY,
	owner      TEXT NOT NULL,
	session    TEXT NOT NULL,
	agent      TEXT NOT NULL,
	number     BIGINT NOT NULL, -- in its session, from 1: two replicas cannot issue the same one
	issued     BIGINT NOT NULL,
	expires    BIGINT NOT NULL, -- until when it can be committed to
	commitment TEXT NOT NULL,
	committed  BIGINT NOT NULL,
	revealed   BIGINT NOT NULL,
	salt       TEXT NOT NULL,
	strategy   TEXT NOT NULL,   -- canonical JSON
	UNIQUE (owner, session, number)
);
CREATE INDEX challenges_issued ON challenges (issued);
CREATE TABLE probes (
	id     TEXT PRIMARY KEY,
	nonce  TEXT NOT NULL,   -- of the challenge that they were issued with
	place  BIGINT NOT NULL, -- in the answer
	pair   BIGINT NOT NULL, -- two probes of one pair ask the same
	prompt TEXT NOT NULL
);
CREATE INDEX probes_nonce ON probes (nonce);
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
CREATE TABLE baselines ( -- snapshots; they are never removed, since scores name them
	hash    TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	number  BIGINT NOT NULL, -- of the owner's, from 1: two replicas cannot make the same one
	made    BIGINT NOT NULL,
	samples BIGINT NOT NULL, -- how many the owner had ever given
	document TEXT NOT NULL,  -- JSON
	UNIQUE (owner, number)
);
CREATE TABLE entries ( -- the logs of the agents; they are never removed, since reputations follow from them
	agent  TEXT NOT NULL,   -- the owner's thumbprint, a colon, and the subject
	number BIGINT NOT NULL, -- of the agent's, from 1: two replicas cannot add the same one
	head   TEXT NOT NULL,   -- hash of the log up to this entry
	entry  TEXT NOT NULL,   -- canonical JSON
	PRIMARY KEY (agent, number)
);
CREATE INDEX entries_agents ON entries (agent) WHERE number = 1;
CREATE TABLE steps ( -- the log of signals and disputes; they are never removed
	number BIGINT PRIMARY KEY, -- from 1: two replicas cannot add the same one
	head   TEXT NOT NULL,      -- hash of the log up to this step
	step   TEXT NOT NULL       -- canonical JSON
);
CREATE TABLE signals (
	id       TEXT PRIMARY KEY,
	number   BIGINT NOT NULL, -- of the step that published it
	agent    TEXT NOT NULL,
	owner    TEXT NOT NULL,   -- whose bound it counts for
	final    BIGINT NOT NULL, -- 1 once the log says that it has closed
	document TEXT NOT NULL    -- canonical JSON, with its signature
);
CREATE INDEX signals_agent ON signals (agent, number);
CREATE INDEX signals_open ON signals (owner, agent) WHERE final = 0;
CREATE TABLE disputes (
	id         TEXT PRIMARY KEY,
	number     BIGINT NOT NULL, -- of the step that opened it
	challenger TEXT NOT NULL,
	target     TEXT NOT NULL,
	signal     TEXT NOT NULL,   -- that is disputed; empty where none is
	owner      TEXT NOT NULL,   -- whose bound it counts for: the challenger's
	reviewing  BIGINT NOT NULL, -- 1 once the log says that somebody looks at it
	resolved   BIGINT NOT NULL, -- number of the step that resolved it, or 0
	token      TEXT NOT NULL,   -- the signed resolution; empty until then
	document   TEXT NOT NULL    -- canonical JSON, with its signature
);
CREATE INDEX disputes_challenger ON disputes (challenger, number);
CREATE INDEX disputes_target ON disputes (target, number);
CREATE INDEX disputes_open ON disputes (owner, challenger) WHERE resolved = 0;
`

// postgresTables are the same in PostgreSQL. Texts are compared byte by byte, as SQLite does.
var postgresTables = strings.NewReplacer(
	" TEXT", ` text COLLATE "C"`, "CREATE TABLE ", "CREATE TABLE actionproof_reputation.", " ON ", " ON actionproof_reputation.",
).Replace(tables)
