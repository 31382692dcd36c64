package reputation

import (
	"context"
	"errors"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
)

type sessionKey struct{ owner, session string }

// reading is what was measured of a session, so that only new receipts are read.
type reading struct {
	key sessionKey
	// generation is the owner's when reading started. Later the same receipts may be untrusted.
	generation uint64
	measured   *autonomy.Session
	last       reusable
}

var errBusy = refusal.New("overloaded", "the session is being read")

// catchUp verifies a session's new receipts. It keeps what it has read if ctx ends.
func (s *Service) catchUp(ctx context.Context, r *reading) error {
	b := s.believed.Load()
	owner, err := b.owner(r.key.owner)
	if err != nil {
		return err
	}
	if r.generation != owner.generation {
		r.generation, r.measured, r.last = owner.generation, autonomy.NewSession(b.hosts), reusable{}
	}
	release, ok := s.reads.Take(ctx)
	if !ok {
		return errBusy
	}
	defer release()
	for more := true; more; {
		if ctx.Err() != nil {
			return errBusy
		}
		if more, err = s.readOn(ctx, owner, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) readOn(ctx context.Context, owner *Owner, r *reading) (more bool, err error) {
	next := r.measured.Len() + 1
	receipts, err := s.o.Store.Receipts(ctx, r.key.owner, r.key.session, next, store.MaxReceipts)
	if err != nil || len(receipts) == 0 {
		return false, err
	}
	chain, err := s.chain(ctx, owner, r.key.owner, r.key.session, next)
	if errors.Is(err, store.ErrMoved) {
		return false, errBusy
	} else if err != nil {
		return false, err
	}
	for _, one := range receipts {
		o, err := chain.Add(one.Token)
		if err != nil {
			return false, err
		}
		c := o.Claims()
		r.measured.Add(o.Hash(), &c)
	}
	s.sessions.Weigh(r.key, r, r.measured.Weight()+1)
	return len(receipts) == store.MaxReceipts, nil
}
