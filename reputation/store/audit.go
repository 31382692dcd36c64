package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/refusal"
)

// logged is a stored entry of the log of disputes, and stated a stored row of its state.
type (
	logged struct {
		Number    int64
		Text      string
		Completed []byte
	}
	stated struct {
		ID, Text, Queue string
		At, Due         int64
	}
)

// Audit replays the log of disputes into an empty store. It returns the number of entries, and an error if one does not
// follow, or the stored state differs from that of the replay. Nothing may add to the log meanwhile.
func (s *Store) Audit(ctx context.Context, empty *Store) (entries int64, err error) {
	for more := true; more; {
		all, err := db.Many[logged](ctx, s.db, "read the log of disputes",
			`SELECT number, step, completed FROM steps WHERE number > $1 ORDER BY number LIMIT $2`, entries, MaxEntries)
		if err != nil {
			return entries, err
		}
		if err := empty.Turn(ctx, func(t *Turn) error { return t.replay(all) }); err != nil {
			return entries, err
		}
		entries += int64(len(all))
		more = len(all) > 0
	}
	for after, more := "", true; more; {
		got, err := s.stated(ctx, after)
		if err != nil {
			return entries, err
		}
		want, err := empty.stated(ctx, after)
		if err != nil {
			return entries, err
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				differ := slices.Concat(got[min(i, len(got)):], want[min(i, len(want)):])
				return entries, refusal.New("log_contradicted",
					"the row %.200q of the state does not follow from the log of disputes", differ[0].ID)
			}
			after = got[i].ID
		}
		more = len(got) > 0
	}
	return entries, nil
}

func (s *Store) stated(ctx context.Context, after string) ([]stated, error) {
	return db.Many[stated](ctx, s.db, "read the state of the log of disputes",
		`SELECT id, text, queue, at, due FROM state WHERE id > $1 ORDER BY id LIMIT $2`, after, MaxEntries)
}

func (t *Turn) replay(all []logged) error {
	for _, one := range all {
		step, err := t.Read([]byte(one.Text))
		if err == nil {
			err = t.Take(step)
		}
		switch {
		case err != nil:
			return fmt.Errorf("entry %d: %w", one.Number, err)
		case one.Number != step.Log.Entries || !bytes.Equal(one.Completed, joined(step.Completed)):
			return refusal.New("log_contradicted", "the entry %d has another place in the tree of the log of disputes",
				one.Number)
		}
	}
	return nil
}
