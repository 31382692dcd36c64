package intercept

import (
	"container/list"
	"sync"
)

// waiting are the connections of a listener that wait for their client: those that no request came over yet, idle ones,
// and tunnels that carry no requests yet. A full listener closes one of them for each new connection, so that clients
// that say nothing keep nobody out. What is under way has bounds of its own.
type waiting struct {
	came chan struct{} // has a token once a connection has begun to wait

	mu sync.Mutex            // guards all below, and the connections' place in it
	of map[string]*list.List // by party, the longest waiting first
}

func newWaiting() *waiting {
	return &waiting{came: make(chan struct{}, 1), of: make(map[string]*list.List)}
}

// add notes that c waits from now on. It does nothing once c is closed.
func (w *waiting) add(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(c)
	if c.place.closed {
		return
	}
	line := w.of[c.party]
	if line == nil {
		line = list.New()
		w.of[c.party] = line
	}
	c.place.party, c.place.in = c.party, line.PushBack(c)
	select {
	case w.came <- struct{}{}:
	default:
	}
}

// remove notes that c does not wait any more, and if it is closed, that it never will.
func (w *waiting) remove(c *conn, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(c)
	c.place.closed = c.place.closed || closed
}

// drop takes c out of its line. The caller holds w.mu.
func (w *waiting) drop(c *conn) {
	if c.place.in == nil {
		return
	}
	line := w.of[c.place.party]
	line.Remove(c.place.in)
	if line.Len() == 0 {
		delete(w.of, c.place.party)
	}
	c.place.in = nil
}

// longest returns the connection to close for a new one: of the party with most of them, the one that has waited
// longest. It returns nil if none waits.
func (w *waiting) longest() *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	var most *list.List
	for _, line := range w.of {
		if most == nil || line.Len() > most.Len() {
			most = line
		}
	}
	if most == nil {
		return nil
	}
	c := most.Front().Value.(*conn)
	w.drop(c)
	return c
}

// place is where a connection waits.
type place struct {
	party  string
	in     *list.Element // nil while it does not wait
	closed bool
}

// waits notes whether the connection waits for its client.
func (c *conn) waits(yes bool) {
	switch {
	case c.waiting == nil: // of a session's own listener
	case yes:
		c.waiting.add(c)
	default:
		c.waiting.remove(c, false)
	}
}
