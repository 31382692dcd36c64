package proxy

import "container/list"

// lru keeps the values that were used last, at most capacity of them. It is not safe for concurrent use.
type lru[K comparable, V any] struct {
	capacity int
	byKey    map[K]*list.Element // of *lruEntry[K, V]
	recent   *list.List          // most recently used first
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](capacity int) *lru[K, V] {
	return &lru[K, V]{capacity: capacity, byKey: make(map[K]*list.Element), recent: list.New()}
}

// get returns the value of key, which thereby is the most recently used.
func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e, ok := l.byKey[key]
	if !ok {
		return value, false
	}
	l.recent.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true
}

// put keeps value in place of what key had, and drops what was not used for longest where there is no room.
func (l *lru[K, V]) put(key K, value V) {
	if old, ok := l.byKey[key]; ok {
		l.recent.Remove(old)
	}
	l.byKey[key] = l.recent.PushFront(&lruEntry[K, V]{key, value})
	for l.recent.Len() > l.capacity {
		oldest := l.recent.Remove(l.recent.Back()).(*lruEntry[K, V])
		delete(l.byKey, oldest.key)
	}
}

func (l *lru[K, V]) len() int { return l.recent.Len() }
