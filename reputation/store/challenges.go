package store

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/probes"
)

// Challenge is a challenge of a session. Times are Unix milliseconds.
type Challenge struct {
	autonomy.Challenge
	Owner, Session, Agent string
	Number                int64 // in its session, from 1, so that replicas cannot issue the same
	Version               int64 // counts changes
	Expires               int64 // the end of the time to commit
	Revealed              int64 // 0 until then
	Asked                 []probes.Probe
}

// Open reports whether a session must deal with the challenge before it gets another: the agent can still commit to it,
// or has committed and not revealed.
func (c Challenge) Open(now time.Time) bool {
	if c.Commitment == "" {
		return now.UnixMilli() < c.Expires
	}
	return c.Revealed == 0
}

// Issue keeps a new challenge. It returns [ErrMoved] if its number is taken, and [ErrFull] at the owner's maximum.
func (s *Store) Issue(ctx context.Context, c Challenge, most int64) error {
	return s.db.Write(ctx, "keep the challenge", func(t db.Tx) error {
		return t.Run(
			db.Statement{Query: `INSERT INTO challenges (nonce, owner, session, number, version, issued, body)
				VALUES ($1, $2, $3, $4, 0, $5, $6) ON CONFLICT DO NOTHING`,
				Args: []any{c.Nonce, c.Owner, c.Session, c.Number, c.Issued, db.JSON{Of: c}}, None: ErrMoved},
			known(c.Owner),
			db.Statement{Query: `UPDATE owners SET challenges = challenges + 1 WHERE owner = $1 AND challenges < $2`,
				Args: []any{c.Owner, most}, None: ErrFull})
	})
}

// Change replaces the challenge of version c.Version by the next version, or returns [ErrMoved].
func (s *Store) Change(ctx context.Context, c Challenge) error {
	version := c.Version
	c.Version++
	return s.db.Write(ctx, "keep the change of the challenge", func(t db.Tx) error {
		return t.One(ErrMoved, `UPDATE challenges SET version = version + 1, body = $1 WHERE nonce = $2 AND version = $3`,
			db.JSON{Of: c}, c.Nonce, version)
	})
}

// Challenge returns a challenge, or [ErrNotFound].
func (s *Store) Challenge(ctx context.Context, nonce string) (Challenge, error) {
	return db.Object[Challenge](ctx, s.db, "read the challenge", `SELECT body FROM challenges WHERE nonce = $1`, nonce)
}

// Challenges returns the challenges of a session, in order.
func (s *Store) Challenges(ctx context.Context, owner, session string) ([]Challenge, error) {
	return db.Objects[Challenge](ctx, s.db, "read the challenges",
		`SELECT body FROM challenges WHERE owner = $1 AND session = $2 ORDER BY number`, owner, session)
}

// Use durably records a single-use token until it expires. All callers but one, of all replicas, get [ErrUsed].
func (s *Store) Use(ctx context.Context, id string, expires time.Time) error {
	return s.db.Write(ctx, "use the token", func(t db.Tx) error {
		return t.One(ErrUsed, `INSERT INTO used (id, expires) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, expires)
	})
}
