package trigger

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/refusal"
)

// maxUnsent bounds the refunded posts of one action. Only the sidecar's word supports them, so a lying one gets at most
// this many posts beyond the budget.
const maxUnsent = 8

// Unsent refunds a post that never left because there was no connection to its upstream. The event can then pay for
// another post of the action, but not for the same binding. Only the runtime with the claim may call it, while its
// session is open. Repeating it changes nothing. After maxUnsent posts of an action it is refused (event_closed).
func (s *Service) Unsent(ctx context.Context, eventID, runtime, action, bindingHash string) error {
	err := s.store.unsent(ctx, eventID, runtime, action, bindingHash, s.o.Now())
	if err == nil {
		s.o.Log.Info("a post was not sent; its event can pay for another", zap.String("event", eventID),
			zap.String("action", action))
	}
	return err
}

func (s store) unsent(ctx context.Context, id, runtime, action, binding string, now time.Time) error {
	return s.pay(ctx, id, func(tx db.Tx) error {
		e, err := s.locked(tx, selectFacts, id, now)
		if err != nil {
			return err
		}
		if err := e.payable(); err != nil {
			return err
		}
		if e.ClaimedBy != runtime {
			return refusal.New("event_closed", "another runtime has claimed the event %s", id)
		}
		n, err := tx.Exec(
			`UPDATE uses SET unsent = 1 WHERE event = $1 AND action = $2 AND binding = $3 AND unsent = 0`, id, action,
			binding)
		if n == 0 {
			return err
		}
		all, err := db.ManyIn[int](tx, `SELECT count(*) FROM uses WHERE event = $1 AND action = $2 AND unsent = 1`, id,
			action)
		if err != nil {
			return err
		}
		if all[0] > maxUnsent {
			return refusal.New("event_closed",
				"the event %s was already given back %d unsent posts of the action %.80q, which is the limit", id, maxUnsent,
				action)
		}
		_, err = tx.Exec(uncountUse, id, action)
		return err
	})
}
