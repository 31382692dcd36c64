package store

import (
	"context"
	"time"
)

// Challenge is one challenge of a session.
type Challenge struct {
	Nonce                 string
	Owner, Session, Agent string
	Number                int64 // in its session, from 1
	Issued, Expires       time.Time
	Commitment            string    // empty until the agent has committed
	Committed             time.Time // zero until then
	Revealed              time.Time // zero until the strategy was revealed
	Salt, Strategy        string    // empty until then; Strategy is JSON
	Probes                []Probe   // in the order in which they were issued
}

// Open reports whether a session has to deal with the challenge before it gets another one: it can still be committed to, or is committed
// to and not revealed.
func (c Challenge) Open(now time.Time) bool {
	if c.Commitment == "" {
		return now.Before(c.Expires)
	}
	return c.Revealed.IsZero()
}

// Probe is a question that was issued with a challenge.
type Probe struct {
	ID     string
	Pair   int64 // the two probes of a pair ask the same
	Prompt string
}

// Issue keeps a new challenge with its probes. It returns [ErrMoved] if the session has a challenge with this number, and [ErrFull] if the
// owner has most of them.
func (s *Store) Issue(ctx context.Context, c Challenge, most int64) error {
	return s.transact(ctx, "keep the challenge", func(t tx) error {
		err := t.one(ErrMoved, `INSERT INTO challenges (nonce, owner, session, agent, number, issued, expires, commitment, committed, revealed, salt, strategy)
			VALUES ($1, $2, $3, $4, $5, $6, $7, '', 0, 0, '', '') ON CONFLICT DO NOTHING`,
			c.Nonce, c.Owner, c.Session, c.Agent, c.Number, c.Issued.UnixMilli(), c.Expires.UnixMilli())
		if err != nil {
			return err
		}
		var rows [][]any
		for i, p := range c.Probes {
			rows = append(rows, []any{p.ID, c.Nonce, i, p.Pair, p.Prompt})
		}
		if _, err = t.insert(`INSERT INTO probes (id, nonce, place, pair, prompt)`, rows); err != nil {
			return err
		}
		if err := t.know(c.Owner); err != nil {
			return err
		}
		return t.one(ErrFull, `UPDATE owners SET challenges = challenges + 1 WHERE owner = $1 AND challenges < $2`, c.Owner, most)
	})
}

// Commit keeps what an agent commits to. It returns [ErrMoved] if the challenge has a commitment.
func (s *Store) Commit(ctx context.Context, nonce, commitment string, at time.Time) error {
	return s.transact(ctx, "keep the commitment", func(t tx) error {
		return t.one(ErrMoved, `UPDATE challenges SET commitment = $1, committed = $2 WHERE nonce = $3 AND commitment = ''`, commitment, at.UnixMilli(), nonce)
	})
}

// Reveal keeps the strategy that an agent had committed to. It returns [ErrMoved] if the challenge has no commitment, or is revealed.
func (s *Store) Reveal(ctx context.Context, nonce, salt, strategy string, at time.Time) error {
	return s.transact(ctx, "keep the strategy", func(t tx) error {
		return t.one(ErrMoved, `UPDATE challenges SET salt = $1, strategy = $2, revealed = $3 WHERE nonce = $4 AND commitment <> '' AND revealed = 0`,
			salt, strategy, at.UnixMilli(), nonce)
	})
}

const selectChallenge = `SELECT nonce, owner, session, agent, number, issued, expires, commitment, committed, revealed, salt, strategy FROM challenges `

func scanChallenge(scan func(...any) error) (c Challenge, err error) {
	var issued, expires, committed, revealed int64
	err = scan(&c.Nonce, &c.Owner, &c.Session, &c.Agent, &c.Number, &issued, &expires, &c.Commitment, &committed, &revealed, &c.Salt, &c.Strategy)
	c.Issued, c.Expires, c.Committed, c.Revealed = moment(issued), moment(expires), moment(committed), moment(revealed)
	return c, err
}

// moment is a time as it is kept; 0 is the zero time.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Challenge returns a challenge without its probes, or [ErrNotFound].
func (s *Store) Challenge(ctx context.Context, nonce string) (Challenge, error) {
	const doing = "read the challenge"
	rows, err := s.query(ctx, selectChallenge+`WHERE nonce = $1`, nonce)
	return first(list(doing, rows, err, scanChallenge))
}

// Challenges returns the challenges of a session, with their probes, in their order.
func (s *Store) Challenges(ctx context.Context, owner, session string) ([]Challenge, error) {
	const doing = "read the challenges"
	rows, err := s.query(ctx, selectChallenge+`WHERE owner = $1 AND session = $2 ORDER BY number`, owner, session)
	all, err := list(doing, rows, err, scanChallenge)
	if err != nil || len(all) == 0 {
		return all, err
	}
	type placed struct {
		nonce string
		Probe
	}
	rows, err = s.query(ctx, `SELECT p.nonce, p.id, p.pair, p.prompt FROM probes AS p JOIN challenges AS c ON c.nonce = p.nonce
		WHERE c.owner = $1 AND c.session = $2 ORDER BY p.nonce, p.place`, owner, session)
	probes, err := list(doing, rows, err, func(scan func(...any) error) (p placed, err error) {
		err = scan(&p.nonce, &p.ID, &p.Pair, &p.Prompt)
		return p, err
	})
	for _, p := range probes {
		for i := range all {
			if all[i].Nonce == p.nonce {
				all[i].Probes = append(all[i].Probes, p.Probe)
			}
		}
	}
	return all, err
}

// Use records a single-use token as used until it expires. Exactly one caller, of all replicas, gets nil, and only once that is durable;
// every other one gets [ErrUsed].
func (s *Store) Use(ctx context.Context, id string, expires time.Time) error {
	return s.transact(ctx, "use the token", func(t tx) error {
		return t.one(ErrUsed, `INSERT INTO used (id, expires) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, expires.UnixMilli())
	})
}
