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
	var failed []error
	done := make(map[string]bool)
	once := func(what, id string, settle func(context.Context, string) error) bool {
		name := what + " " + id
		if done[name] {
			return false
		}
		done[name] = true
		if err := settle(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("the %s: %w", name, err))
		}
		return true
	}
	for {
		due, err := s.settleable(ctx)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, id := range due.general {
			once("dispute", id, s.decide)
		}
		for _, id := range due.closing {
			once("signal", id, s.finalise)
		}
		for _, id := range due.standing {
			once("end of the dispute", id, s.stand)
		}
		if !slices.ContainsFunc(due.trials, func(id string) bool { return once("dispute", id, s.try) }) {
			return errors.Join(failed...)
		}
	}
}

// settleable holds the ids of the signals and disputes that are due.
type settleable struct {
	general  []string // disputes that arbiters have decided, or past their deadline
	closing  []string // signals
	standing []string // disputes that can no longer be appealed
	trials   []string // disputes to judge
}

func (s *Service) settleable(ctx context.Context) (due settleable, err error) {
	now, err := s.docket.clock.now(ctx)
	if err != nil {
		return due, err
	}
	book, release, err := s.openBook(ctx)
	if err != nil {
		return due, err
	}
	defer release()
	late := func(id string) bool { return book.Late(id, now) }
	var open []dispute.State
	for _, id := range book.Unresolved() {
		d, _ := book.Dispute(id)
		_, decided := book.Decided(id, s.o.Disputes.Court, s.o.Disputes.Rules, now)
		switch {
		case d.Type != dispute.TypeGeneral:
			open = append(open, d)
		case decided || late(id):
			due.general = append(due.general, id)
		}
	}
	due.closing, due.standing, due.trials = book.Closing(now), book.Unappealed(now), s.docket.trials.due(open, late, now)
	return due, nil
}

func (s *Service) finalise(ctx context.Context, id string) error {
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		if signal, _ := book.Signal(id); signal.Final {
			return nil
		}
		e, err := book.Finalise(id, now)
		if err != nil {
			return err
		}
		return s.proceed(ctx, book, e, store.Step{Closed: id})
	})
}

func (s *Service) stand(ctx context.Context, id string) error {
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		if !slices.Contains(book.Unappealed(now), id) {
			return nil
		}
		e, err := book.Stand(id, now)
		if err != nil {
			return err
		}
		return s.proceed(ctx, book, e, store.Step{Stands: id})
	})
}

// decide ends a general dispute as a majority of its arbiters has decided, or because it is late.
func (s *Service) decide(ctx context.Context, id string) error {
	d := s.o.Disputes
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		return s.end(ctx, book, id, func() (dispute.Entry, error) {
			if e, ok := book.Decided(id, d.Court, d.Rules, now); ok {
				return e, nil
			}
			return book.Expire(id, now)
		})
	})
}

// end signs the resolution first, so that no resolved dispute lacks one.
func (s *Service) end(ctx context.Context, book *dispute.Book, id string, by func() (dispute.Entry, error)) error {
	state, ok := book.Dispute(id)
	if !ok || state.Status == dispute.StatusResolved {
		return nil
	}
	e, err := by()
	if err != nil {
		return err
	}
	next, err := book.Next(e)
	if err != nil {
		return err
	}
	state.Status, state.Resolved, state.ResolvedAt, state.Log = dispute.StatusResolved, *e.Resolved, e.At, next.Log
	claims, _ := dispute.ResolutionOf(state)
	token, _, err := s.o.Disputes.Resolution.Sign(ctx, claims)
	if err != nil {
		return err
	}
	return s.advance(ctx, book, next, store.Step{Resolved: &store.Resolved{
		ID: id, Token: token, Appealable: e.Resolved.AppealUntil > 0,
	}})
}
