package trigger

import (
	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/refusal"
)

const forgets = "which deliveries were seen: old signed ones would open sessions again"

var errMissing = refusal.New("not_found", "there is no such event")

// schema is the event store's schema. Rows of seen are never removed: a webhook's signature without a time is valid as
// long as its secret.
var schema = db.Schema{Name: "actionproof_events", Version: 3, Forgets: forgets, Missing: errMissing,
	Frequent: []string{selectFacts + byID, insertUse, countUse}, Tables: `
CREATE TABLE events (
	seq        INTEGER PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	source     TEXT NOT NULL,
	evidence   TEXT NOT NULL,    -- good for one event of its source
	state      TEXT NOT NULL,
	claimed_by TEXT NOT NULL DEFAULT '',
	claimable  BIGINT NOT NULL,  -- it may stand behind a post
	expires    BIGINT NOT NULL,  -- Unix milliseconds
	event      TEXT NOT NULL,    -- the rest of the Event, JSON
	payload    BLOB,             -- as it came
	UNIQUE (source, evidence)
);
CREATE INDEX events_waiting ON events (seq) WHERE state = 'received' AND claimable = 1;
CREATE INDEX events_open ON events (expires) WHERE state IN ('received', 'claimed');
CREATE INDEX events_expires ON events (expires);
CREATE TABLE seen (
	source TEXT NOT NULL,
	key    TEXT NOT NULL,        -- good for one event of the source
	event  TEXT NOT NULL,        -- the event's id; empty where the source's delivery was of no interest
	PRIMARY KEY (source, key)
) WITHOUT ROWID;
CREATE TABLE uses (
	event   TEXT NOT NULL,
	action  TEXT NOT NULL,
	binding TEXT NOT NULL,       -- the hash of the post that was paid for
	unsent  BIGINT NOT NULL DEFAULT 0, -- the post never left
	PRIMARY KEY (event, action, binding)
) WITHOUT ROWID;
CREATE TABLE spent (
	event  TEXT NOT NULL,
	action TEXT NOT NULL,
	posts  BIGINT NOT NULL,      -- rows of uses without the unsent, so that a post need not count them
	PRIMARY KEY (event, action)
) WITHOUT ROWID;
`}
