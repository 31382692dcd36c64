package reputation

import (
	"context"
	"errors"
	"sync"

	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
)

// sessions caches the measurements of sessions, so that only new receipts are read.
type sessions struct {
	mu    sync.Mutex                       // guards byKey
	byKey *lru.Cache[sessionKey, *reading] // weighed in receipts of usual size
}

type sessionKey struct{ owner, session string }

type reading struct {
	key  sessionKey
	held lock
	// generation is the owner's when reading started. Later the same receipts may be untrusted.
	generation uint64
	measured   *autonomy.Session
	last       reusable[Scored]
}

func newSessions(bound int) *sessions { return &sessions{byKey: lru.New[sessionKey, *reading](bound)} }

func (s *sessions) take(ctx context.Context, key sessionKey) (r *reading, release func(), err error) {
	s.mu.Lock()
	r, ok := s.byKey.Get(key)
	if !ok {
		r = &reading{key: key, held: make(lock, 1)}
		s.byKey.Put(key, r)
	}
	s.mu.Unlock()
	release, ok = r.held.take(ctx)
	if !ok {
		return nil, nil, errBusy
	}
	return r, release, nil
}

// lock is taken by as many as its capacity. Waiting for it can be cancelled.
type lock chan struct{}

func (l lock) take(ctx context.Context) (release func(), ok bool) {
	select {
	case l <- struct{}{}:
		return func() { <-l }, true
	case <-ctx.Done():
		return nil, false
	}
}

var errBusy = refusal.New("overloaded", "the session is being read")

func (s *sessions) receipts() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.byKey.Total())
}

// weigh sets the weight of a reading, unless it was dropped. Those who hold a dropped one can still use it.
func (s *sessions) weigh(r *reading, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if got, ok := s.byKey.Get(r.key); ok && got == r {
		s.byKey.Weigh(r.key, weight)
	}
}

// catchUp verifies a session's new receipts. It keeps what it has read if ctx ends.
func (s *Service) catchUp(ctx context.Context, r *reading) error {
	b := s.believed.Load()
	owner, err := b.owner(r.key.owner)
	if err != nil {
		return err
	}
	if r.generation != owner.generation {
		r.generation, r.measured, r.last = owner.generation, autonomy.NewSession(b.hosts), reusable[Scored]{}
	}
	release, ok := s.reads.take(ctx)
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
	s.sessions.weigh(r, r.measured.Weight()+1)
	return len(receipts) == store.MaxReceipts, nil
}
