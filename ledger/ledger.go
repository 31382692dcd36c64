// Package ledger keeps, durably, which single-use keys have been used, and the record of every call.
//
// What it promises: a key is consumed by exactly one caller, for good, before anything rests on it; the intent to forward a post is
// durable in the same transaction, before its first byte goes out; and a post whose outcome a crash has taken away is shown as
// indeterminate, never sent again.
package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// Key is one single-use key: the jti of an artifact, or what else may be used once.
type Key struct {
	Kind string
	ID   string
	// Expires is when the artifact behind the key is refused by itself; the key is kept for longer than that.
	Expires time.Time
}

// State is how a call ended.
type State string

// The states of a record.
const (
	StateRefused       State = "refused"       // nothing was sent
	StateForwarding    State = "forwarding"    // the intent is durable; the outcome is not yet known
	StateForwarded     State = "forwarded"     // the upstream answered
	StateFailed        State = "failed"        // nothing was sent: the upstream could not be reached
	StateIndeterminate State = "indeterminate" // it may have been sent; nobody on this side knows
)

// Post is the record of one call.
type Post struct {
	ID           string     `json:"id"`
	Flow         string     `json:"flow"`
	State        State      `json:"state"`
	Session      string     `json:"session,omitempty"`
	Event        string     `json:"event,omitempty"`
	Rule         string     `json:"rule,omitempty"`
	Subject      string     `json:"subject,omitempty"`
	Action       string     `json:"action,omitempty"`
	Resource     string     `json:"resource,omitempty"`
	Method       string     `json:"method,omitempty"`
	Host         string     `json:"host,omitempty"`
	Path         string     `json:"path,omitempty"` // without the query
	ContentHash  string     `json:"contentHash,omitempty"`
	BindingHash  string     `json:"bindingHash,omitempty"`
	CapabilityID string     `json:"capabilityId,omitempty"`
	Started      time.Time  `json:"started"`
	Finished     time.Time  `json:"finished,omitzero"`
	Code         string     `json:"code,omitempty"` // of a refusal or failure
	Step         string     `json:"step,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	Status       int        `json:"status,omitempty"` // of the upstream
	BytesOut     int64      `json:"bytesOut,omitempty"`
	BytesIn      int64      `json:"bytesIn,omitempty"`
	Artifacts    []Artifact `json:"artifacts,omitempty"`
	Checks       []Check    `json:"checks,omitempty"`
	Steps        []Step     `json:"steps,omitempty"`
}

// Artifact is one signed artifact of a post, as it travelled.
type Artifact struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// Check is one verification with its result.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Step is one step of the way, with the time that it took.
type Step struct {
	Name   string `json:"name"`
	Micros int64  `json:"micros"`
}

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
`}

// Options configures a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention is how long a record is kept; zero keeps it for ever.
	Retention time.Duration
}

// Ledger is the record in one SQLite file. It is safe for concurrent use.
type Ledger struct {
	db *DB
	o  Options
}

// Open opens or creates the ledger at path. Posts that an earlier process left in flight become indeterminate: nobody knows
// whether they were sent.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Now == nil {
		return nil, errors.New("ledger: a clock is required")
	}
	db, err := OpenDB(ctx, path, migrations)
	if err != nil {
		return nil, err
	}
	l := &Ledger{db: db, o: o}
	if err := l.settle(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

// Close makes what has been accepted durable and closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// settle marks posts that were in flight when the process ended.
func (l *Ledger) settle(ctx context.Context) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		posts, err := scan(tx.Query(`SELECT record FROM posts WHERE state = ?`, StateForwarding))
		if err != nil {
			return err
		}
		for _, p := range posts {
			p.State, p.Code, p.Step = StateIndeterminate, "indeterminate", "forward"
			p.Reason = "the mediator ended while the post was in flight; it may have been sent, and is not sent again"
			p.Finished = l.o.Now()
			if err := update(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// Consume records keys as used, all or none. For each key exactly one caller ever gets nil, and only once that survives a crash;
// every other caller gets a [*ConsumedError]. After any other error count the keys as consumed.
func (l *Ledger) Consume(ctx context.Context, keys ...Key) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return consume(tx, keys) })
}

// Begin consumes keys as [Ledger.Consume] does and records the intent to forward p, in one transaction. Only after nil may the
// first byte go out.
func (l *Ledger) Begin(ctx context.Context, p Post, keys ...Key) error {
	p.State = StateForwarding
	record, err := json.Marshal(p)
	if err != nil {
		return unavailable("write the record", err)
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		if err := consume(tx, keys); err != nil {
			return err
		}
		return insert(tx, p, record)
	})
}

// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. It succeeds once.
func (l *Ledger) Finish(ctx context.Context, p Post) error {
	if p.State != StateForwarded && p.State != StateFailed && p.State != StateIndeterminate {
		return ErrState
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return update(tx, p) })
}

// Record keeps a whole record at once: of a refusal, or of a call that needs no evidence.
func (l *Ledger) Record(ctx context.Context, p Post) error {
	if p.State == StateForwarding {
		return ErrState
	}
	record, err := json.Marshal(p)
	if err != nil {
		return unavailable("write the record", err)
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return insert(tx, p, record) })
}

func consume(tx *sql.Tx, keys []Key) error {
	for _, k := range keys {
		if k.Kind == "" || k.ID == "" || k.Expires.IsZero() {
			return unavailable("consume", errors.New("a key lacks its kind, id or expiry"))
		}
		r, err := tx.Exec(`INSERT INTO consumed (kind, id, expires) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, k.Kind, k.ID, k.Expires.Unix())
		if err != nil {
			return unavailable("consume", err)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return unavailable("consume", err)
		}
		if n != 1 {
			return &ConsumedError{k}
		}
	}
	return nil
}

func insert(tx *sql.Tx, p Post, record []byte) error {
	if p.ID == "" {
		return unavailable("write the record", errors.New("it has no id"))
	}
	_, err := tx.Exec(`INSERT INTO posts (id, flow, state, session, started, record) VALUES (?, ?, ?, ?, ?, ?)`,
		p.ID, p.Flow, p.State, p.Session, p.Started.UnixMilli(), string(record))
	if err != nil {
		return unavailable("write the record", err)
	}
	return nil
}

// update replaces the record of a post that is in flight.
func update(tx *sql.Tx, p Post) error {
	record, err := json.Marshal(p)
	if err != nil {
		return unavailable("write the record", err)
	}
	r, err := tx.Exec(`UPDATE posts SET state = ?, record = ? WHERE id = ? AND state = ?`, p.State, string(record), p.ID, StateForwarding)
	if err != nil {
		return unavailable("write the record", err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		return unavailable("write the record", err)
	}
	if n != 1 {
		return ErrState
	}
	return nil
}
