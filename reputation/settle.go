package reputation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

// Settle closes signals and resolves disputes that are due. Before each trial, which can be slow, it does everything
// else. A failure of one does not delay the others.
func (s *Service) Settle(ctx context.Context) error {
	if s.o.Disputes == nil {
		return nil
	}
	s.docket.settling.Lock()
	defer s.docket.settling.Unlock()
	trials, err := s.dueTrials(ctx)
	if err != nil {
		return err
	}
	failed := []error{s.endings(ctx)}
	for len(trials) > 0 {
		at := s.docket.trials.next(trials)
		if err := s.try(ctx, trials[at]); err != nil {
			failed = append(failed, fmt.Errorf("the dispute %s: %w", trials[at], err))
		}
		trials = slices.Delete(trials, at, at+1)
		failed = append(failed, s.endings(ctx))
	}
	return errors.Join(failed...)
}

const (
	maxDue  = 100_000 // at once, the earliest
	maxEnds = 64      // in one turn
)

// endings ends what needs no trial, in the order in which it is due.
func (s *Service) endings(ctx context.Context) error {
	now, err := s.docket.clock.now(ctx)
	if err != nil {
		return err
	}
	book, err := s.openBook(ctx)
	if err != nil {
		return err
	}
	lists := book.Ending(now, maxDue)
	failed := []error{book.Err()}
	for _, due := range lists {
		for len(due) > 0 {
			err := s.step(ctx, func(t *turn) error {
				// It skips what replicas have ended, so that each turn ends something.
				for first := true; len(due) > 0 && (first || len(t.Taken()) == 0 && !t.long()); first = false {
					if err := t.FetchEnding(due[:min(maxEnds, len(due))]); err != nil {
						return err
					}
					for n := 0; len(due) > 0 && n < maxEnds && (n == 0 || !t.long()); n++ {
						if e, ok := t.Ended(due[0].ID, s.o.Disputes.Court, s.o.Disputes.Rules, t.now); ok {
							if err := t.end(ctx, e); err != nil {
								failed = append(failed, fmt.Errorf("%s: %w", due[0].ID, err))
							}
						}
						due = due[1:]
					}
				}
				return nil
			})
			if err != nil {
				return errors.Join(append(failed, err)...)
			}
		}
	}
	return errors.Join(failed...)
}

// end adds an entry that ends something. It first signs the resolution of a dispute: no resolved one may lack it.
func (t *turn) end(ctx context.Context, e dispute.Entry) error {
	if e.Resolved == nil {
		return t.Add(e)
	}
	id := e.Resolved.DisputeID
	next, err := t.Next(e)
	if err != nil {
		return err
	}
	state, _ := t.Dispute(id)
	state.Status, state.Resolved, state.ResolvedAt, state.Log = dispute.StatusResolved, *e.Resolved, e.At, next.Log
	claims, _ := dispute.ResolutionOf(state)
	token, _, err := t.s.o.Disputes.Resolution.Sign(ctx, claims)
	if err != nil {
		return err
	}
	return t.Take(next, store.Document{ID: resolutionDocument + id, Text: token})
}
