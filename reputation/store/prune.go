package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/db"
)

// Bounds on one transaction, so that others need not wait for a whole pruning.
const (
	pruneChunk     = 16
	tokenChunk     = 1000
	challengeChunk = 256
)

// Old says what [Store.Prune] removes.
type Old struct {
	Sessions time.Time // sessions with their last receipt before, and all that belongs to them
	Tokens   time.Time // used tokens expired before
	Samples  int       // of each owner beyond the last ones
}

// Prune removes old state. Baselines stay, because scores name them.
func (s *Store) Prune(ctx context.Context, old Old) error {
	err := s.repeat(ctx, func(t db.Tx) (bool, error) {
		n, err := t.Exec(`DELETE FROM used WHERE id IN (SELECT id FROM used WHERE expires < $1 ORDER BY expires LIMIT $2)`,
			old.Tokens, tokenChunk)
		return n == tokenChunk, err
	})
	if err != nil {
		return err
	}
	if err := s.pruneSamples(ctx, old.Samples); err != nil {
		return err
	}
	if err := s.repeat(ctx, func(t db.Tx) (bool, error) { return pruneSessions(t, old.Sessions) }); err != nil {
		return err
	}
	return s.repeat(ctx, func(t db.Tx) (bool, error) { return pruneChallenges(t, old.Sessions) })
}

func (s *Store) repeat(ctx context.Context, do func(db.Tx) (more bool, err error)) error {
	for more := true; more; {
		err := s.db.Write(ctx, "remove old state", func(t db.Tx) (err error) {
			more, err = do(t)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) pruneSamples(ctx context.Context, last int) error {
	owners, err := s.Grown(ctx)
	if err != nil {
		return err
	}
	for _, o := range owners {
		err := s.db.Write(ctx, "remove old samples", func(t db.Tx) error {
			_, err := t.Exec(`DELETE FROM samples WHERE owner = $1 AND closed < (
				SELECT closed FROM samples WHERE owner = $1 ORDER BY closed DESC, session DESC
				LIMIT 1 OFFSET $2)`, o.Owner, last-1)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func pruneSessions(t db.Tx, before time.Time) (more bool, err error) {
	// A receipt that came meanwhile saves the session.
	old, err := db.ManyIn[Session](t, `DELETE FROM sessions WHERE updated < $1 AND (owner, session) IN
		(SELECT owner, session FROM sessions WHERE updated < $1 ORDER BY updated LIMIT $2)
		RETURNING owner, session, agent, next`, before, pruneChunk)
	if err != nil {
		return false, err
	}
	removed := make(map[string]counts)
	for _, one := range old {
		gone := removed[one.Owner]
		gone[0]++
		for i, table := range []string{"receipts", "challenges", "forks"} {
			n, err := t.Exec(`DELETE FROM `+table+` WHERE owner = $1 AND session = $2`, one.Owner, one.Session)
			if err != nil {
				return false, err
			}
			gone[1+i] += n
		}
		removed[one.Owner] = gone
	}
	return len(old) == pruneChunk, discount(t, removed)
}

// pruneChallenges removes old challenges of sessions without receipts.
func pruneChallenges(t db.Tx, before time.Time) (more bool, err error) {
	owners, err := db.ManyIn[string](t, `DELETE FROM challenges WHERE nonce IN
		(SELECT nonce FROM challenges AS c WHERE issued < $1 AND NOT EXISTS
		(SELECT 1 FROM sessions AS s WHERE s.owner = c.owner AND s.session = c.session) ORDER BY issued LIMIT $2)
		RETURNING owner`, before, challengeChunk)
	if err != nil {
		return false, err
	}
	removed := make(map[string]counts)
	for _, owner := range owners {
		gone := removed[owner]
		gone[2]++
		removed[owner] = gone
	}
	return len(owners) == challengeChunk, discount(t, removed)
}

// counts has the numbers of removed sessions, receipts, challenges and forks.
type counts [4]int64

// discount comes last in a transaction, like counting up, which avoids deadlocks.
func discount(t db.Tx, removed map[string]counts) error {
	for _, owner := range slices.Sorted(maps.Keys(removed)) {
		c := removed[owner]
		if _, err := t.Exec(
			`UPDATE owners SET sessions = sessions - $1, receipts = receipts - $2, challenges = challenges - $3
				WHERE owner = $4`,
			c[0], c[1], c[2], owner); err != nil {
			return err
		}
	}
	return nil
}
