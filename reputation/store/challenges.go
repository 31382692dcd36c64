package store

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/db"
)

// Challenge is a challenge of a session.
type Challenge struct {
	Nonce                 string
	Owner, Session, Agent string
	Number                int64
	Issued, Expires       time.Time
	Commitment            string
	Committed             time.Time
	Revealed              time.Time
	Salt, Strategy        string // empty until then; Strategy is JSON
	Probes                []Probe
}

// Open reports whether a session must deal with the challenge before it gets another: the agent can still commit to it,
// or has committed and not revealed.
func (c Challenge) Open(now time.Time) bool {
	if c.Commitment == "" {
		return now.Before(c.Expires)
	}
	return c.Revealed.IsZero()
}

// Probe is a question of a challenge.
type Probe struct {
	ID     string
	Pair   int64 // probes of one pair ask the same
	Prompt string
}

// Issue keeps a new challenge with its probes. It returns [ErrMoved] if the session has a challenge with this number,
// and [ErrFull] if the owner has the maximum.
func (s *Store) Issue(ctx context.Context, c Challenge, most int64) error {
	return s.db.Write(ctx, "keep the challenge", func(t db.Tx) error {
		err := t.One(ErrMoved,
			`INSERT INTO challenges (nonce, owner, session, agent, number, issued, expires, commitment, committed, revealed,
				salt, strategy)
			VALUES ($1, $2, $3, $4, $5, $6, $7, '', 0, 0, '', '') ON CONFLICT DO NOTHING`,
			c.Nonce, c.Owner, c.Session, c.Agent, c.Number, c.Issued, c.Expires)
		if err != nil {
			return err
		}
		var rows [][]any
		for i, p := range c.Probes {
			rows = append(rows, []any{p.ID, c.Nonce, int64(i), p.Pair, p.Prompt})
		}
		if _, err = t.Insert(`INSERT INTO probes (id, nonce, place, pair, prompt)`, rows); err != nil {
			return err
		}
		if err := know(t, c.Owner); err != nil {
			return err
		}
		return t.One(ErrFull, `UPDATE owners SET challenges = challenges + 1 WHERE owner = $1 AND challenges < $2`, c.Owner,
			most)
	})
}

// Commit keeps an agent's commitment, or returns [ErrMoved] if there is one.
func (s *Store) Commit(ctx context.Context, nonce, commitment string, at time.Time) error {
	return s.db.Write(ctx, "keep the commitment", func(t db.Tx) error {
		return t.One(ErrMoved, `UPDATE challenges SET commitment = $1, committed = $2 WHERE nonce = $3 AND commitment = ''`,
			commitment, at, nonce)
	})
}

// Reveal keeps a revealed strategy. It returns [ErrMoved] if there is no commitment, or a strategy already.
func (s *Store) Reveal(ctx context.Context, nonce, salt, strategy string, at time.Time) error {
	return s.db.Write(ctx, "keep the strategy", func(t db.Tx) error {
		return t.One(ErrMoved,
			`UPDATE challenges SET salt = $1, strategy = $2, revealed = $3 WHERE nonce = $4 AND commitment <> ''
				AND revealed = 0`,
			salt, strategy, at, nonce)
	})
}

const selectChallenge = `SELECT nonce, owner, session, agent, number, issued, expires, commitment, committed,
	revealed, salt, strategy FROM challenges `

// Challenge returns a challenge without its probes, or [ErrNotFound].
func (s *Store) Challenge(ctx context.Context, nonce string) (Challenge, error) {
	return db.One[Challenge](ctx, s.db, "read the challenge", selectChallenge+`WHERE nonce = $1`, nonce)
}

// Challenges returns the challenges of a session with their probes, in order.
func (s *Store) Challenges(ctx context.Context, owner, session string) ([]Challenge, error) {
	const doing = "read the challenges"
	all, err := db.Many[Challenge](ctx, s.db, doing,
		selectChallenge+`WHERE owner = $1 AND session = $2 ORDER BY number`, owner, session)
	if err != nil || len(all) == 0 {
		return all, err
	}
	type placed struct {
		Nonce string
		Probe
	}
	probes, err := db.Many[placed](ctx, s.db, doing, `SELECT p.nonce, p.id, p.pair, p.prompt FROM probes AS p
		JOIN challenges AS c ON c.nonce = p.nonce WHERE c.owner = $1 AND c.session = $2 ORDER BY p.nonce, p.place`,
		owner, session)
	for _, p := range probes {
		for i := range all {
			if all[i].Nonce == p.Nonce {
				all[i].Probes = append(all[i].Probes, p.Probe)
			}
		}
	}
	return all, err
}

// Use durably records a single-use token until it expires. Exactly one caller among all replicas gets nil; all others
// get [ErrUsed].
func (s *Store) Use(ctx context.Context, id string, expires time.Time) error {
	return s.db.Write(ctx, "use the token", func(t db.Tx) error {
		return t.One(ErrUsed, `INSERT INTO used (id, expires) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, expires)
	})
}
