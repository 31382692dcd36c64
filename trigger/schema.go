package trigger

// migrations are the schema in the order in which it came to be. One that has been released never changes.
//
// The rows of seen are kept for ever: a webhook's signature may have no time in it, and is then good for as long as its secret is.
var migrations = []string{`
CREATE TABLE events (
	seq      INTEGER PRIMARY KEY,
	id       TEXT NOT NULL UNIQUE,
	source   TEXT NOT NULL,
	evidence TEXT NOT NULL,      -- good for one event of its source
	state    TEXT NOT NULL,
	expires  INTEGER NOT NULL,   -- Unix milliseconds
	event    TEXT NOT NULL,      -- the whole Event, JSON
	UNIQUE (source, evidence)
);
CREATE INDEX events_waiting ON events (seq) WHERE state = 'received';
CREATE TABLE spent (
	event  TEXT NOT NULL,
	action TEXT NOT NULL,
	number INTEGER NOT NULL,
	PRIMARY KEY (event, action, number)
) WITHOUT ROWID;
`, `
ALTER TABLE events ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN claimable INTEGER NOT NULL DEFAULT 0; -- it may stand behind a post
ALTER TABLE events ADD COLUMN payload BLOB;                         -- as it came
UPDATE events SET
	claimed_by = coalesce(event ->> '$.claimedBy', ''),
	claimable  = event ->> '$.kind' IN ('source_event', 'scheduled', 'autonomous_policy') AND event ->> '$.method' NOT IN ('manual', 'self_reported'),
	payload    = event -> '$.payload';
UPDATE events SET event = json_remove(event, '$.payload', '$.claimedBy', '$.state');
DROP INDEX events_waiting;
CREATE INDEX events_waiting ON events (seq) WHERE state = 'received' AND claimable;
CREATE INDEX events_open ON events (expires) WHERE state IN ('received', 'claimed');
CREATE INDEX events_expires ON events (expires);
CREATE TABLE seen (
	source TEXT NOT NULL,
	key    TEXT NOT NULL,        -- good for one event of the source
	event  TEXT NOT NULL,        -- the event's id; empty where the source's delivery was of no interest
	PRIMARY KEY (source, key)
) WITHOUT ROWID;
INSERT INTO seen SELECT source, 'id:' || evidence, id FROM events;
CREATE TABLE uses (
	event   TEXT NOT NULL,
	action  TEXT NOT NULL,
	binding TEXT NOT NULL,       -- the hash of the post that was paid for
	PRIMARY KEY (event, action, binding)
) WITHOUT ROWID;
INSERT INTO uses SELECT event, action, number FROM spent;
DROP TABLE spent;
`, `
CREATE TABLE spent (
	event  TEXT NOT NULL,
	action TEXT NOT NULL,
	posts  INTEGER NOT NULL,     -- how many rows of uses there are: counting them would cost each post more than the one before
	PRIMARY KEY (event, action)
) WITHOUT ROWID;
INSERT INTO spent SELECT event, action, count(*) FROM uses GROUP BY event, action;
`}
