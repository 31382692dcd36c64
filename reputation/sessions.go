package reputation

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
)

// sessions caches the measurements of sessions, so that only new receipts are read.
type sessions struct {
	bound int // receipts of usual size

	mu     sync.Mutex // guards all below
	total  int        // receipts
	byKey  map[sessionKey]*list.Element
	recent *list.List // of *reading, most recent first
}

type sessionKey struct{ owner, session string }

type reading struct {
	key  sessionKey
	held lock
	// generation is the owner's when reading started. Later the same receipts may be untrusted.
	generation uint64
	measured   *autonomy.Session
	last       reusable[Scored]

	weight int // share of the total; guarded by sessions.mu
}

func newSessions(bound int) *sessions {
	return &sessions{bound: bound, byKey: make(map[sessionKey]*list.Element), recent: list.New()}
}

func (s *sessions) take(ctx context.Context, key sessionKey) (r *reading, release func(), err error) {
	s.mu.Lock()
	e, ok := s.byKey[key]
	if ok {
		s.recent.MoveToFront(e)
	} else {
		e = s.recent.PushFront(&reading{key: key, held: make(lock, 1)})
		s.byKey[key] = e
		s.grow(e.Value.(*reading), 1)
	}
	s.mu.Unlock()
	r = e.Value.(*reading)
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

// grow drops the least recently used readings above the bound. Their holders can still use them.
func (s *sessions) grow(r *reading, weight int) {
	if s.byKey[r.key] == nil || s.byKey[r.key].Value.(*reading) != r {
		return // it was dropped
	}
	s.total, r.weight = s.total+weight-r.weight, weight
	for s.total > s.bound && s.recent.Len() > 1 {
		oldest := s.recent.Remove(s.recent.Back()).(*reading)
		delete(s.byKey, oldest.key)
		s.total -= oldest.weight
	}
}

func (s *sessions) receipts() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.total)
}

func (s *sessions) weigh(r *reading, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(r, weight)
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
