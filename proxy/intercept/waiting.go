package intercept

import (
	"container/list"
	"sync"
)

// waiting lists the connections that wait for their client: before the first request, idle, or with a handled request
// whose body or answer is still on its way. A full listener closes one for each new connection, so silent clients keep
// no one out. Connections at work have bounds of their own.
type waiting struct {
	came chan struct{} // has a token once a connection begins to wait

	mu sync.Mutex            // guards all below, and the connections' places
	of map[string]*list.List // by party, longest waiting first
}

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

// remove unlists c, for good if it is closed.
func (w *waiting) remove(c *conn, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(c)
	c.place.closed = c.place.closed || closed
}

// drop unlists c. The caller holds w.mu.
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

// longest removes and returns the longest-waiting connection of the party with the most; nil if none waits.
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

type place struct {
	party  string
	in     *list.Element // nil while it does not wait
	closed bool
}

func (c *conn) waits(yes bool) {
	if yes {
		c.waiting.add(c)
	} else {
		c.waiting.remove(c, false)
	}
}
