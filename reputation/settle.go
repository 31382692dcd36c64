package reputation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

const settleEvery = 5 * time.Second

func (s *Service) settleAlways(ctx context.Context) {
	if s.o.Disputes == nil {
		return
	}
	for range every.Tick(ctx, settleEvery) {
		if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("some disputes were not settled", zap.Error(err))
		}
	}
}

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
	d := s.o.Disputes
	// In the turn, what a replica has ended is skipped.
	decide := func(t *turn, id string) error {
		if state, _ := t.Dispute(id); state.Status == dispute.StatusResolved {
			return nil
		}
		e, ok := t.Decided(id, d.Court, d.Rules, t.now)
		switch {
		case ok:
			return t.end(ctx, e)
		case t.Late(id, t.now):
			return t.end(ctx, t.Expire(id, t.now))
		}
		return nil // the arbiters do not agree yet
	}
	finalise := func(t *turn, id string) error {
		if signal, _ := t.Signal(id); signal.Final {
			return nil
		}
		return t.Add(t.Finalise(id, t.now))
	}
	stand := func(t *turn, id string) error {
		if state, _ := t.Dispute(id); !state.Appealable {
			return nil
		}
		return t.Add(t.Stand(id, t.now))
	}
	var failed []error
	for _, kind := range []struct {
		what string
		due  func(*dispute.Book, time.Time, int) []dispute.Waiting
		end  func(*turn, string) error
	}{
		{"dispute", (*dispute.Book).Undecided, decide}, {"signal", (*dispute.Book).Closing, finalise},
		{"end of the dispute", (*dispute.Book).Unappealed, stand},
	} {
		book, err := s.openBook(ctx)
		if err != nil {
			return err
		}
		due := kind.due(book, now, maxDue)
		if err := book.Err(); err != nil {
			return err
		}
		for len(due) > 0 {
			err := s.step(ctx, func(t *turn) error {
				// It skips what replicas have ended, so that each turn ends something.
				for first := true; len(due) > 0 && (first || len(t.Taken()) == 0 && !t.long()); first = false {
					if err := t.fetch(due[:min(maxEnds, len(due))]); err != nil {
						return err
					}
					for n := 0; len(due) > 0 && n < maxEnds && (n == 0 || !t.long()); n++ {
						if err := kind.end(t, due[0].ID); err != nil {
							failed = append(failed, fmt.Errorf("the %s %s: %w", kind.what, due[0].ID, err))
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

// fetch reads the rows that the ends of signals or disputes need.
func (t *turn) fetch(due []dispute.Waiting) error {
	var ids, parties []string
	for _, one := range due {
		ids = append(ids, dispute.RowsOf(one.ID, one.ID)...)
	}
	if err := t.Fetch(ids...); err != nil {
		return err
	}
	for _, one := range due {
		if s, ok := t.Signal(one.ID); ok && !s.Final {
			parties = append(parties, s.Agent)
		}
		if d, ok := t.Dispute(one.ID); ok {
			parties = append(parties, d.Challenger, d.Target)
		}
	}
	return t.Fetch(dispute.RowsOf("", "", parties...)...)
}

// end adds the end of a dispute. It signs the resolution first, so that no resolved dispute lacks one.
func (t *turn) end(ctx context.Context, e dispute.Entry) error {
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
