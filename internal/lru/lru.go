// Package lru keeps a bounded number of values.
package lru

import "container/list"

// Cache keeps the most recently used values, at most capacity. It is not safe for concurrent use.
type Cache[K comparable, V any] struct {
	capacity int
	byKey    map[K]*list.Element // of *entry[K, V]
	recent   *list.List          // most recently used first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New makes an empty cache.
func New[K comparable, V any](capacity int) *Cache[K, V] {
	return &Cache[K, V]{capacity: capacity, byKey: make(map[K]*list.Element), recent: list.New()}
}

// Get returns key's value and makes it the most recently used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// Put sets key's value and drops the least recently used one if there is no room.
func (c *Cache[K, V]) Put(key K, value V) {
	if old, ok := c.byKey[key]; ok {
		c.recent.Remove(old)
	}
	c.byKey[key] = c.recent.PushFront(&entry[K, V]{key, value})
	for c.recent.Len() > c.capacity {
		oldest := c.recent.Remove(c.recent.Back()).(*entry[K, V])
		delete(c.byKey, oldest.key)
	}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return c.recent.Len() }
