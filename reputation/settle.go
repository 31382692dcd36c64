package reputation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
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
		expired, closing, trials, err := s.settleable(ctx)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, id := range expired {
			once("dispute", id, s.expire)
		}
		for _, id := range closing {
			once("signal", id, s.finalise)
		}
		if !slices.ContainsFunc(trials, func(id string) bool { return once("dispute", id, s.try) }) {
			return errors.Join(failed...)
		}
	}
}

// settleable returns the general disputes past their deadline, the signals to close, and the disputes to judge.
func (s *Service) settleable(ctx context.Context) (expired, closing, trials []string, err error) {
	book, now, release, err := s.openBook(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	defer release()
	late := func(id string) bool { return book.Late(id, now) }
	var open []dispute.State
	for _, id := range book.Unresolved() {
		switch d, _ := book.Dispute(id); {
		case d.Type != dispute.TypeGeneral:
			open = append(open, d)
		case late(id):
			expired = append(expired, id)
		}
	}
	return expired, book.Closing(now), s.docket.trials.due(open, late, now), nil
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

func (s *Service) expire(ctx context.Context, id string) error {
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return book.Expire(id, now) })
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
	return s.advance(ctx, book, next, store.Step{Resolved: &store.Resolved{ID: id, Token: token}})
}

// Arbitrate resolves a general dispute by an arbiter's decision. Repeating the same token is allowed.
func (s *Service) Arbitrate(ctx context.Context, id, token string) (Dispute, error) {
	if err := s.arbitrate(ctx, id, token); err != nil {
		return Dispute{}, s.refused(Spoken{}, err)
	}
	return s.Dispute(ctx, id)
}

func (s *Service) arbitrate(ctx context.Context, id, token string) error {
	switch {
	case s.o.Disputes == nil:
		return errOff
	case s.arbiter == nil:
		return refusal.New("not_configured", "the node has no arbiter")
	}
	root, hash := s.o.Disputes.Arbiter, evidence.HashToken(token)
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		if state, _ := book.Dispute(id); state.Resolved.Decision == hash {
			return nil
		}
		decision, err := evidence.Open(s.arbiter, dispute.DecisionKind, token, evidence.Expected{
			Issuers: []string{root.KeyID}, Audiences: []string{s.o.Disputes.Audience}, KeyIDs: []string{root.KeyID},
			MaxAge: dispute.DecisionLifetime,
		})
		if err != nil {
			return err
		}
		e, err := book.Arbitrate(id, decision, root.Public, now)
		if err != nil {
			return err
		}
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return e, nil })
	})
}
