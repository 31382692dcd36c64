package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"time"
)

// Identity tells one ledger from another, and an older copy of a ledger from the ledger itself.
type Identity struct {
	ID       string `json:"id"`       // random, made with the ledger
	Mark     int64  `json:"mark"`     // rises with every record, and is not lowered by pruning
	Accepted int64  `json:"accepted"` // how often an operator has accepted the ledger in the place of another
}

// Acceptance is kept in a ledger that an operator has accepted in the place of another, or of a later state of its own.
type Acceptance struct {
	At     time.Time `json:"at"`
	Was    Identity  `json:"was"` // what the sidecar had seen last
	Found  Identity  `json:"found"`
	Reason string    `json:"reason"`
}

// Identified is a store that can be told from others. Its methods are safe for concurrent use.
type Identified interface {
	Store
	// Identity returns who the ledger is, as far as that is durable.
	Identity(ctx context.Context) (Identity, error)
	// Accept keeps an acceptance. Nobody knows which keys were used in the ledger that was there before: those that expire by a time
	// are refused from then on.
	Accept(ctx context.Context, a Acceptance, until time.Time) error
	// Acceptances returns what Accept has kept, the first first.
	Acceptances(ctx context.Context) ([]Acceptance, error)
}

// NewID makes the id of a ledger.
func NewID() string { return rand.Text() }

// Follows reports whether i can be what has become of a ledger that was seen as last: the same ledger, no older, or one that an
// operator has accepted since.
func (i Identity) Follows(last Identity) bool {
	return i.Accepted > last.Accepted || i.Accepted == last.Accepted && i.ID == last.ID && i.Mark >= last.Mark
}

// ScanIdentity reads an identity: id, mark, and how often it was accepted.
func ScanIdentity(row *sql.Row) (i Identity, err error) {
	if err := row.Scan(&i.ID, &i.Mark, &i.Accepted); err != nil {
		return Identity{}, Unavailable("read its identity", err)
	}
	return i, nil
}

// Encode returns the acceptance as a store keeps it.
func (a Acceptance) Encode() (string, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return "", Unavailable("write the acceptance", err)
	}
	return string(raw), nil
}

// ScanAcceptances reads what Encode has made.
func ScanAcceptances(rows *sql.Rows, err error) ([]Acceptance, error) {
	all := []Acceptance{}
	err = each(rows, err, func() error {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		var a Acceptance
		err := json.Unmarshal(raw, &a)
		all = append(all, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// identityTables are made when a ledger is opened, in one too that an earlier program has made.
//
// The mark is the greatest seq of the records, and what prunings have taken from it: SQLite gives the seq of the last record that was
// removed again. It costs a post nothing.
const (
	identityTables = `
CREATE TABLE IF NOT EXISTS identity ( -- one row
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	id     TEXT NOT NULL,
	pruned INTEGER NOT NULL -- by how much prunings have lowered the greatest seq of posts
);
CREATE TABLE IF NOT EXISTS accepted (
	seq        INTEGER PRIMARY KEY,
	acceptance TEXT NOT NULL -- JSON
)`
	insertIdentity = `INSERT INTO identity (one, id, pruned) VALUES (1, ?, 0) ON CONFLICT DO NOTHING`
	selectIdentity = `SELECT id, pruned + coalesce((SELECT max(seq) FROM posts), 0), (SELECT count(*) FROM accepted) FROM identity`
	selectMark     = `SELECT coalesce(max(seq), 0) FROM posts`
	keepMark       = `UPDATE identity SET pruned = pruned + ? - coalesce((SELECT max(seq) FROM posts), 0)`
)

// identify gives a ledger its identity, unless it has one.
func (l *Ledger) identify(tx *sql.Tx) error {
	_, err := tx.Exec(identityTables)
	if err == nil {
		_, err = tx.Exec(insertIdentity, NewID())
	}
	if err != nil {
		return Unavailable("write its identity", err)
	}
	return nil
}

// Identity returns who the ledger is: see [Identified].
func (l *Ledger) Identity(ctx context.Context) (Identity, error) {
	return ScanIdentity(l.db.Read().QueryRowContext(ctx, selectIdentity))
}

// Accept keeps an acceptance: see [Identified].
func (l *Ledger) Accept(ctx context.Context, a Acceptance, until time.Time) error {
	text, err := a.Encode()
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO accepted (acceptance) VALUES (?)`, text)
		if err == nil {
			err = l.forgetUntil(tx, until.Unix())
		}
		if err != nil {
			return Unavailable("write the acceptance", err)
		}
		return nil
	})
}

// Acceptances returns what Accept has kept: see [Identified].
func (l *Ledger) Acceptances(ctx context.Context) ([]Acceptance, error) {
	return ScanAcceptances(l.db.Read().QueryContext(ctx, `SELECT acceptance FROM accepted ORDER BY seq`))
}
