package endpoint

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/flood"
)

const (
	// patience is the age of a request at which its connection can be closed for another one, if requests are bounded.
	patience = 5 * time.Second
	// arrival is the time that a new connection has for its first header before it can be closed for another address.
	arrival = time.Second
)

// boundedListener bounds the open connections, of each address and together. Silent connections must not keep others
// out: a new connection replaces the oldest one without a request, or else the oldest whose request takes longer than
// patience.
//
// An address that opens many connections must not cut those of others. So no connection is closed for another address
// before its arrival is over. With a bound for each address, an address replaces no connection of an address with
// fewer, and only an address without a connection waits for a place.
type boundedListener struct {
	net.Listener
	limits Limits
	log    *zap.Logger

	mu      sync.Mutex // guards all below, and the connections' handling
	changed *sync.Cond
	open    []*boundedConn // oldest first
	of      map[netip.Addr]int
	closed  bool
}

func newBoundedListener(l net.Listener, limits Limits, log *zap.Logger) *boundedListener {
	b := &boundedListener{Listener: l, limits: limits, log: flood.Logger(log), of: make(map[netip.Addr]int)}
	b.changed = sync.NewCond(&b.mu)
	return b
}

type boundedConn struct {
	net.Conn
	l        *boundedListener
	from     netip.Addr
	since    time.Time // when it got its place
	handling time.Time // when its request began; zero while it has none
}

// Accept returns the next connection that gets a place. It closes a connection that gets none and may not wait.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &boundedConn{Conn: accepted, l: l, from: addressOf(accepted)}
		if l.admit(c) {
			return c, nil
		}
		accepted.Close()
	}
}

// addressOf returns the address that a connection counts for: for IPv6 the /64 network, which is one client's.
func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.WithZone("").Prefix(64)
		return network.Addr()
	}
	return addr
}

// admit gives a connection a place, and waits for one if it may. It reports whether the connection got one.
func (l *boundedListener) admit(c *boundedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		counted := l.limits.PerAddress > 0
		ofAddress := counted && l.of[c.from] >= l.limits.PerAddress
		if !ofAddress && len(l.open) < l.limits.Connections {
			c.since = time.Now()
			l.open = append(l.open, c)
			l.of[c.from]++
			return true
		}
		if victim := l.victim(c.from, ofAddress); victim != nil {
			l.log.Warn("a connection was closed for another one: as many as may be were open",
				zap.Stringer("address", victim.from), zap.Bool("request", !victim.handling.IsZero()))
			l.remove(victim)
			victim.cut()
			continue
		}
		if counted && l.of[c.from] > 0 {
			l.log.Warn("a connection was refused: no place is free, and its address has others",
				zap.Stringer("address", c.from), zap.Int("others", l.of[c.from]))
			return false
		}
		later := time.AfterFunc(arrival, l.wake) // by then another connection may be one to close
		l.changed.Wait()
		later.Stop()
	}
	return false
}

func (l *boundedListener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// victim returns the connection to close for a new one from this address, or nil. If only is set, it has that address;
// else it has the address with most connections. The caller holds mu.
func (l *boundedListener) victim(from netip.Addr, only bool) *boundedConn {
	now := time.Now()
	var found *boundedConn
	for _, c := range l.open {
		switch {
		case c.from != from && (only || now.Sub(c.since) < arrival):
		case c.from != from && l.limits.PerAddress > 0 && l.of[c.from] < l.of[from]:
		case !c.handling.IsZero() && (l.limits.Request == 0 || now.Sub(c.handling) < patience):
		case found == nil || c.before(found):
			found = c
		}
	}
	return found
}

// before reports whether c is to be closed before o, which is older.
func (c *boundedConn) before(o *boundedConn) bool {
	if silent := c.handling.IsZero(); silent != o.handling.IsZero() {
		return silent
	}
	return c.l.of[c.from] > c.l.of[o.from]
}

// cut closes a connection at once. TLS would first write to it, and wait for a client that takes nothing.
func (c *boundedConn) cut() {
	under := c.Conn
	if over, ok := under.(*tls.Conn); ok {
		under = over.NetConn()
	}
	under.Close()
}

// remove gives a connection's place back, once. The caller holds mu.
func (l *boundedListener) remove(c *boundedConn) {
	i := slices.Index(l.open, c)
	if i < 0 {
		return
	}
	l.open = slices.Delete(l.open, i, i+1)
	if l.of[c.from]--; l.of[c.from] == 0 {
		delete(l.of, c.from)
	}
	l.changed.Broadcast()
}

// Close ends the listener, and Accept.
func (l *boundedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// Close closes the connection and gives its place back.
func (c *boundedConn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

func (c *boundedConn) setHandling(t time.Time) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.handling = t
	if t.IsZero() {
		c.l.changed.Broadcast()
	}
}

// handling tells the bounded listeners which connections have a request.
func handling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := boundedOf(r.Context()); c != nil {
			c.setHandling(time.Now())
			defer c.setHandling(time.Time{})
		}
		next.ServeHTTP(w, r)
	})
}

// bodyTime bounds the time for a request's body at an endpoint's TCP address.
const bodyTime = time.Minute

// inTime gives each request's body its time.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := http.NewResponseController(w); r.ContentLength != 0 &&
			c.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
			r.Body = &timedBody{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody ends the deadline with the body: an answer may take longer.
type timedBody struct {
	io.ReadCloser
	of *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.of.SetReadDeadline(time.Time{})
	}
	return n, err
}

func boundedOf(ctx context.Context) *boundedConn {
	c := ctx.Value(connKey{})
	if over, ok := c.(*tls.Conn); ok { // the connection of an endpoint; that of a public port is below TLS
		c = over.NetConn()
	}
	bounded, _ := c.(*boundedConn)
	return bounded
}
