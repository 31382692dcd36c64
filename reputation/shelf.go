package reputation

import (
	"context"
	"sync"

	"github.com/actionproof/mediator/internal/lru"
)

// shelf keeps what was read last, up to a weight. One caller at a time has a value.
type shelf[K comparable, V any] struct {
	mu    sync.Mutex // guards byKey
	byKey *lru.Cache[K, *shelved[V]]
}

type shelved[V any] struct {
	value V
	held  lock
}

func newShelf[K comparable, V any](most int) *shelf[K, V] {
	return &shelf[K, V]{byKey: lru.New[K, *shelved[V]](most)}
}

// take returns the value of a key, which is zero at first, locked until release is called. It is not ok if ctx ends.
func (s *shelf[K, V]) take(ctx context.Context, key K) (v *V, release func(), ok bool) {
	s.mu.Lock()
	one, known := s.byKey.Get(key)
	if !known {
		one = &shelved[V]{held: make(lock, 1)}
		s.byKey.Put(key, one)
	}
	s.mu.Unlock()
	release, ok = one.held.take(ctx)
	return &one.value, release, ok
}

// weigh sets the weight of a value, unless it was dropped. The caller who holds a dropped one can still use it.
func (s *shelf[K, V]) weigh(key K, v *V, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.byKey.Get(key); ok && &one.value == v {
		s.byKey.Weigh(key, weight)
	}
}

func (s *shelf[K, V]) total() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.byKey.Total())
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
