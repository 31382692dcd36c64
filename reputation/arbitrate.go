package reputation

import (
	"cmp"
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Arbitrate takes an arbiter's decision, also again. The one that makes a majority resolves the general dispute.
func (s *Service) Arbitrate(ctx context.Context, id, token string) (answer Dispute, err error) {
	defer s.refuses(Spoken{}, &err)
	switch {
	case s.o.Disputes == nil:
		return answer, errOff
	case len(s.o.Disputes.Court.First) == 0:
		return answer, refusal.New("not_configured", "the node has no arbiters")
	}
	d, hash := s.o.Disputes, evidence.HashToken(token)
	book, err := s.openBook(ctx)
	if err != nil {
		return answer, err
	}
	if state, _ := book.Dispute(id); state.Has(hash) {
		return s.Dispute(ctx, id)
	}
	decision, err := opens(s, d.Court.Roots(), dispute.DecisionKind, token)
	if err := cmp.Or(book.Err(), err); err != nil {
		return answer, err
	}
	err = s.step(ctx, func(t *turn) error {
		if state, _ := t.Dispute(id); !state.Has(hash) {
			vote, err := t.Vote(id, d.Court, decision, t.now)
			if err == nil {
				err = t.Add(vote)
			}
			if err != nil {
				return err
			}
		}
		if e, ok := t.Decided(id, d.Court, d.Rules, t.now); ok {
			return t.end(ctx, e) // if this fails, the vote stays, and Settle does it
		}
		return nil
	}, dispute.RowsOf("", id)...)
	if err != nil {
		return answer, err
	}
	return s.Dispute(ctx, id)
}
