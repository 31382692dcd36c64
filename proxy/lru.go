package proxy

import "container/list"

// lru keeps the values that were used last, at most capacity of them. It is not safe for concurrent use.
type lru[V any] struct {
	capacity int
	byKey    map[string]*list.Element // of *lruEntry[V]
	recent   *list.List               // most recently used first
}

type lruEntry[V any] struct {
	key   string
	value V
}

func newLRU[V any](capacity int) *lru[V] {
	return &lru[V]{capacity: capacity, byKey: make(map[string]*list.Element), recent: list.New()}
}

// get returns the value of key, which thereby is the most recently used.
func (l *lru[V]) get(key string) (value V, ok bool) {
	e, ok := l.byKey[key]
	if !ok {
		return value, false
	}
	l.recent.MoveToFront(e)
	return e.Value.(*lruEntry[V]).value, true
}

// put keeps value in place of what key had, and drops what was not used for longest where there is no room.
func (l *lru[V]) put(key string, value V) {
	if old, ok := l.byKey[key]; ok {
		l.recent.Remove(old)
	}
	l.byKey[key] = l.recent.PushFront(&lruEntry[V]{key, value})
	for l.recent.Len() > l.capacity {
		oldest := l.recent.Remove(l.recent.Back()).(*lruEntry[V])
		delete(l.byKey, oldest.key)
	}
}

func (l *lru[V]) len() int { return l.recent.Len() }
