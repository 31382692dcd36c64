// Package lru keeps a bounded number of values.
package lru

import "container/list"

// Cache keeps the most recently used values, whose weights are at most capacity together. It is not safe for concurrent
// use.
type Cache[K comparable, V any] struct {
	capacity, total int
	byKey           map[K]*list.Element // of *entry[K, V]
	recent          *list.List          // most recently used first
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int
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

// Put sets key's value, with the weight 1.
func (c *Cache[K, V]) Put(key K, value V) {
	if old, ok := c.byKey[key]; ok {
		c.drop(old)
	}
	c.byKey[key] = c.recent.PushFront(&entry[K, V]{key, value, 0})
	c.Weigh(key, 1)
}

// Weigh sets the weight of key's value, if there is one, and drops the least recently used values while there is no
// room. It keeps the last one, however heavy.
func (c *Cache[K, V]) Weigh(key K, weight int) {
	if e, ok := c.byKey[key]; ok {
		of := e.Value.(*entry[K, V])
		c.total, of.weight = c.total+weight-of.weight, weight
	}
	for c.total > c.capacity && c.recent.Len() > 1 {
		c.drop(c.recent.Back())
	}
}

func (c *Cache[K, V]) drop(e *list.Element) {
	of := c.recent.Remove(e).(*entry[K, V])
	delete(c.byKey, of.key)
	c.total -= of.weight
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return c.recent.Len() }

// Total returns the weight of all values.
func (c *Cache[K, V]) Total() int { return c.total }
