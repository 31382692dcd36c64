package store

import (
	"context"
	"maps"
	"slices"
	"time"
)

// What one transaction removes at most, so that no other waits for a whole pruning.
const (
	pruneChunk     = 16 // sessions
	tokenChunk     = 1000
	challengeChunk = 256
)

// Prune removes whole sessions, with their challenges, whose last receipt came before a moment, and used tokens that expired before another
// one; and samples beyond the last [MaxSamples] of each owner. Baselines stay: scores name them.
func (s *Store) Prune(ctx context.Context, sessions, tokens time.Time) error {
	err := s.repeat(ctx, func(t tx) (bool, error) {
		n, err := t.exec(`DELETE FROM used WHERE id IN (SELECT id FROM used WHERE expires < $1 ORDER BY expires LIMIT $2)`, tokens.UnixMilli(), tokenChunk)
		return n == tokenChunk, err
	})
	if err != nil {
		return err
	}
	if err := s.pruneSamples(ctx); err != nil {
		return err
	}
	if err := s.repeat(ctx, func(t tx) (bool, error) { return t.pruneSessions(sessions.UnixMilli()) }); err != nil {
		return err
	}
	// Challenges of sessions that have sent no receipt.
	return s.repeat(ctx, func(t tx) (bool, error) {
		const old = `(SELECT nonce FROM challenges AS c WHERE issued < $1
			AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.owner = c.owner AND s.session = c.session) ORDER BY issued LIMIT $2)`
		if _, err := t.exec(`DELETE FROM probes WHERE nonce IN `+old, sessions.UnixMilli(), challengeChunk); err != nil {
			return false, err
		}
		n, err := t.exec(`DELETE FROM challenges WHERE nonce IN `+old, sessions.UnixMilli(), challengeChunk)
		return n == challengeChunk, err
	})
}

// repeat runs a transaction as long as there is more to do.
func (s *Store) repeat(ctx context.Context, do func(tx) (more bool, err error)) error {
	for more := true; more; {
		err := s.transact(ctx, "remove what is old", func(t tx) (err error) {
			more, err = do(t)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pruneSamples removes the samples of an owner that no baseline is made of any more.
func (s *Store) pruneSamples(ctx context.Context) error {
	owners, err := s.Grown(ctx)
	if err != nil {
		return err
	}
	for _, o := range owners {
		err := s.transact(ctx, "remove old samples", func(t tx) error {
			_, err := t.exec(`DELETE FROM samples WHERE owner = $1 AND closed < (
				SELECT closed FROM samples WHERE owner = $1 ORDER BY closed DESC, session DESC LIMIT 1 OFFSET $2)`, o.Owner, MaxSamples-1)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pruneSessions removes the sessions that were updated least recently, before a moment.
func (t tx) pruneSessions(before int64) (more bool, err error) {
	rows, err := t.QueryContext(t.ctx, selectSession+`WHERE updated < $1 ORDER BY updated LIMIT $2`, before, pruneChunk)
	old, err := list("read old sessions", rows, err, scanSession)
	if err != nil {
		return false, err
	}
	removed := make(map[string][2]int64) // sessions and receipts, by owner
	for _, one := range old {
		// A receipt that came meanwhile keeps it.
		n, err := t.exec(`DELETE FROM sessions WHERE owner = $1 AND session = $2 AND updated < $3`, one.Owner, one.Session, before)
		if err != nil {
			return false, err
		}
		if n == 0 {
			continue
		}
		const of = ` WHERE owner = $1 AND session = $2`
		if n, err = t.exec(`DELETE FROM receipts`+of, one.Owner, one.Session); err != nil {
			return false, err
		}
		for _, query := range []string{
			`DELETE FROM forks` + of, `DELETE FROM probes WHERE nonce IN (SELECT nonce FROM challenges` + of + `)`, `DELETE FROM challenges` + of,
		} {
			if _, err := t.exec(query, one.Owner, one.Session); err != nil {
				return false, err
			}
		}
		count := removed[one.Owner]
		removed[one.Owner] = [2]int64{count[0] + 1, count[1] + n}
	}
	for _, owner := range slices.Sorted(maps.Keys(removed)) { // last, as where receipts are added: so no two transactions wait for each other
		count := removed[owner]
		if _, err := t.exec(`UPDATE owners SET sessions = sessions - $1, receipts = receipts - $2 WHERE owner = $3`, count[0], count[1], owner); err != nil {
			return false, err
		}
	}
	return len(old) == pruneChunk, nil
}
