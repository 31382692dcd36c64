package reputation

import (
	"context"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/store"
)

// Caller is the agent that makes a request, as its sidecar names it.
type Caller struct {
	Owner, Agent, Session, EventID string
	// ModelCalls counts the session's model calls that the sidecar saw end with a whole answer.
	ModelCalls int64
}

// Caller verifies a caller token for one request and uses it up, once among all replicas.
func (s *Service) Caller(ctx context.Context, token, method, path string, body []byte) (Caller, error) {
	if token == "" {
		return Caller{}, refusal.New("caller_invalid", "the request has no header %s", interaction.CallerHeader)
	}
	c, err := evidence.UnverifiedClaims(interaction.CallerKind, token)
	if err != nil {
		return Caller{}, err
	}
	owner, err := s.believed.Load().owner(c.Owner)
	if err != nil {
		return Caller{}, err
	}
	o, err := evidence.Open(owner.Live, interaction.CallerKind, token, owner.Callers)
	if err != nil {
		return Caller{}, evidence.Stale(err)
	}
	c = o.Claims()
	if err := c.Calls(method, path, body); err != nil {
		return Caller{}, err
	}
	if err := s.admit(owner.rates.calls, 1, "requests of agents"); err != nil {
		return Caller{}, err
	}
	// Ids are unique only within an owner.
	err = s.o.Store.Use(ctx, c.Owner+" "+c.ID, time.Unix(c.Expires, 0))
	if errors.Is(err, store.ErrUsed) {
		return Caller{}, refusal.New("caller_invalid", "the caller token %.80q was used before", c.ID)
	}
	return Caller{Owner: c.Owner, Agent: c.Agent, Session: c.Session, EventID: c.EventID, ModelCalls: c.ModelCalls}, err
}
