package reputation

import (
	"context"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

// Arbitrate takes an arbiter's decision of a general dispute. The one that makes a majority resolves it. Repeating the
// same token is allowed.
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
	case s.arbiters == nil:
		return refusal.New("not_configured", "the node has no arbiters")
	}
	d, hash := s.o.Disputes, evidence.HashToken(token)
	var ids []string
	for _, root := range d.Court.Roots() {
		ids = append(ids, root.KeyID)
	}
	err := s.step(ctx, func(book *dispute.Book, now time.Time) error {
		if state, _ := book.Dispute(id); state.Has(hash) {
			return nil
		}
		decision, err := evidence.Open(s.arbiters, dispute.DecisionKind, token, evidence.Expected{
			Issuers: ids, Audiences: []string{d.Audience}, KeyIDs: ids, MaxAge: dispute.DecisionLifetime,
		})
		if err != nil {
			return err
		}
		e, err := book.Vote(id, d.Court, decision, now)
		if err != nil {
			return err
		}
		return s.proceed(ctx, book, e, store.Step{})
	})
	if err != nil {
		return err
	}
	// If this fails, Settle does it.
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		e, ok := book.Decided(id, d.Court, d.Rules, now)
		if !ok {
			return nil
		}
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return e, nil })
	})
}
