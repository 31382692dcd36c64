// Package kept remembers what providers keep because of a session's calls to models.
package kept

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
)

const (
	maxKept   = 4096 // ids of one session; the oldest is forgotten first
	maxKeptID = 512  // bytes of an id
)

// Set has the ids of answers, their items, and files. The zero value is empty. It is safe for concurrent use. A nil Set
// stays empty.
type Set struct {
	mu    sync.Mutex // guards all below
	ids   map[keptID]struct{}
	order []keptID // a ring
	next  int

	reading map[int]func(context.Context)
	begun   int
}

type keptID [16]byte // a hash, because an id may hold a text

// keptBy names an id at a host: another host must not vouch for it.
func keptBy(host, id string) keptID {
	sum := sha256.Sum256([]byte(host + "\x00" + id))
	return keptID(sum[:16])
}

// Add notes that a host keeps something under an id.
func (k *Set) Add(host, id string) {
	if k == nil || id == "" || len(id) > maxKeptID {
		return
	}
	by := keptBy(host, id)
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, found := k.ids[by]; found {
		return
	}
	if k.ids == nil {
		k.ids = make(map[keptID]struct{})
	}
	k.ids[by] = struct{}{}
	if len(k.order) < maxKept {
		k.order = append(k.order, by)
		return
	}
	delete(k.ids, k.order[k.next])
	k.order[k.next] = by
	k.next = (k.next + 1) % maxKept
}

// Has reports whether the set remembers that a host keeps something under an id.
func (k *Set) Has(host, id string) bool {
	if k == nil || id == "" || len(id) > maxKeptID {
		return false
	}
	by := keptBy(host, id)
	k.mu.Lock()
	defer k.mu.Unlock()
	_, found := k.ids[by]
	return found
}

// Reading registers an answer that is being read, until end is called. catchUp waits until all is read that the client
// may have.
func (k *Set) Reading(catchUp func(context.Context)) (end func()) {
	if k == nil {
		return func() {}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reading == nil {
		k.reading = make(map[int]func(context.Context))
	}
	k.begun++
	n := k.begun
	k.reading[n] = catchUp
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.reading, n)
	}
}

// Settle waits until the set has what the client may have read: it may point to an answer before its reader is done.
func (k *Set) Settle(ctx context.Context) {
	k.mu.Lock()
	all := slices.Collect(maps.Values(k.reading))
	k.mu.Unlock()
	for _, catchUp := range all {
		catchUp(ctx)
	}
}
