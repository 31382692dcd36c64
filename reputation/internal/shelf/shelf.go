// Package shelf keeps values in memory, up to a weight, and gives each to one caller at a time.
package shelf

import (
	"context"
	"sync"

	"github.com/actionproof/mediator/internal/lru"
)

// Shelf keeps what was read last, up to a weight. One caller at a time has a value.
type Shelf[K comparable, V any] struct {
	mu    sync.Mutex // guards byKey
	byKey *lru.Cache[K, *shelved[V]]
}

type shelved[V any] struct {
	value V
	held  Lock
}

// New returns an empty shelf for values of a weight of most in all.
func New[K comparable, V any](most int) *Shelf[K, V] {
	return &Shelf[K, V]{byKey: lru.New[K, *shelved[V]](most)}
}

// Take returns the value of a key, which is zero at first, locked until release is called. It is not ok if ctx ends.
func (s *Shelf[K, V]) Take(ctx context.Context, key K) (v *V, release func(), ok bool) {
	s.mu.Lock()
	one, known := s.byKey.Get(key)
	if !known {
		one = &shelved[V]{held: make(Lock, 1)}
		s.byKey.Put(key, one)
	}
	s.mu.Unlock()
	release, ok = one.held.Take(ctx)
	return &one.value, release, ok
}

// Weigh sets the weight of a value, unless it was dropped. The caller who holds a dropped one can still use it.
func (s *Shelf[K, V]) Weigh(key K, v *V, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.byKey.Get(key); ok && &one.value == v {
		s.byKey.Weigh(key, weight)
	}
}

// Total returns the weight of all values.
func (s *Shelf[K, V]) Total() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.byKey.Total())
}

// Lock is taken by as many as its capacity. Waiting for it can be cancelled.
type Lock chan struct{}

// Take returns false if ctx ends first.
func (l Lock) Take(ctx context.Context) (release func(), ok bool) {
	select {
	case l <- struct{}{}:
		return func() { <-l }, true
	case <-ctx.Done():
		return nil, false
	}
}
