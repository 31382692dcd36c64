package intercept

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// conn is one connection of an agent from its accept to its end, with everything that is known of it. net/http serves
// it first as a connection to the proxy. After a CONNECT, or where the kernel led the connection here, net/http serves
// what is inside the tunnel.
type conn struct {
	net.Conn // what is read and written: socket, or TLS over it
	p        *Proxy
	socket   *socket
	http1    http1Reader               // judges HTTP/1 before net/http reads it
	bodyOf   int32                     // the last request whose body did not come with its head, as in http1.unfinished
	ended    atomic.Bool               // nothing that comes is read any more, see changed
	ahead    atomic.Bool               // the request that is handled began to come before the answer to the one before it ended
	session  string                    // of the listener; empty if sessions share it
	bodyBy   atomic.Pointer[time.Time] // until when a body has to come once its request has been handled; a transport may still read that body
	waiting  *waiting                  // of the listener; nil for that of one session
	place    place                     // in waiting

	// All below are of a tunnel, and zero before there is one.
	route    Route
	life     context.Context    // done once the connection is closed
	end      context.CancelFunc // ends life
	requests context.Context    // of the requests in the tunnel: what Options.Connect returned
	timer    *time.Timer        // ends the TLS handshake
	refused  error              // why the name in the TLS handshake was refused
	served   bool               // handed over to net/http, which closes it from then on
	party    string             // for whom the tunnel counts
	counted  bool               // as a tunnel of party; guarded by p.mu
}

// socket is the agent's own connection, below TLS.
type socket struct {
	net.Conn
	conn    *conn
	unread  []byte // read already, and to be read before anything else
	release func() // gives back the place among the listener's connections
	once    sync.Once

	mu      sync.Mutex
	writeBy time.Time // the deadline that was set, of writes
}

// newConn makes the conn of a connection that was accepted, and serves it as a connection to the proxy.
func newConn(p *Proxy, accepted net.Conn, release func()) *conn {
	s := &socket{Conn: accepted, release: release}
	s.conn = &conn{Conn: s, p: p, socket: s}
	s.conn.http1 = newHTTP1Reader(s, p.o.Limits.HeaderBytes, false)
	return s.conn
}

// Read reads HTTP/1 that has been judged, and HTTP/2 as it is.
func (c *conn) Read(b []byte) (int, error) {
	if c.ended.Load() {
		_, err := io.Copy(io.Discard, c.Conn)
		return 0, cmp.Or(err, io.EOF)
	}
	return c.http1.Read(b)
}

// Write counts the writes, so that a request that comes before the end of an answer is noticed.
func (c *conn) Write(b []byte) (int, error) {
	c.http1.writes.Add(1)
	return c.Conn.Write(b)
}

// SetReadDeadline sets the deadline that net/http wants. net/http clears deadlines also where it goes on to read the rest
// of a body: then that of the body stays.
func (c *conn) SetReadDeadline(t time.Time) error {
	if by := c.bodyBy.Load(); t.IsZero() && by != nil {
		t = *by
	}
	return c.Conn.SetReadDeadline(t)
}

// lingering is how long a client has to read its answer where the connection is closed and not all was read from it.
const lingering = 500 * time.Millisecond

// changed is called by net/http when a connection changes its state. A connection that becomes idle ends here where its
// last request's body has not come as a whole: net/http would read the rest as a request, and http1Reader would not
// judge it.
func changed(served net.Conn, to http.ConnState) {
	if to != http.StateHijacked && to != http.StateClosed {
		connUnder(served).waits(to != http.StateActive)
	}
	c, ok := served.(*conn)
	if !ok { // HTTP/2
		return
	}
	switch to {
	case http.StateActive: // a request
		select {
		case began := <-c.http1.came:
			c.ahead.Store(began < c.http1.answered)
		default: // HTTP/2 has no order of requests
		}
		return
	case http.StateIdle:
		c.http1.answered = c.http1.writes.Load()
	default:
		return
	}
	if c.bodyBy.Swap(nil) == nil {
		return
	}
	if c.bodyOf != 0 && c.http1.unfinished.Load() == c.bodyOf {
		_ = c.CloseWrite()
		c.ended.Store(true)
		time.AfterFunc(lingering, func() { _ = c.socket.Close() })
	}
}

// CloseWrite lets net/http close its side so that the client can read the last answer.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

type connKey struct{}

// connOf returns the connection of a request, or nil for one that no Proxy serves.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// CameAhead reports whether a request began to come before the answer to the one before it on its connection ended
// (HTTP/1.1 pipelining): it was read later than it was sent.
func CameAhead(ctx context.Context) bool {
	c := connOf(ctx)
	return c != nil && c.ahead.Load()
}

// SessionOf returns the session of the listener that a request came to, also before the request has a [Route]; empty for a listener that
// sessions share.
func SessionOf(ctx context.Context) string {
	if c := connOf(ctx); c != nil {
		return c.session
	}
	return ""
}

// connUnder returns the conn of a connection that net/http serves.
func connUnder(served net.Conn) *conn {
	if over, ok := served.(*tls.Conn); ok { // HTTP/2
		return over.NetConn().(*socket).conn
	}
	return served.(*conn)
}

// context gives every request the connection that it came over. A request in a tunnel has the tunnel's context and
// route as well.
func (p *Proxy) context(ctx context.Context, served net.Conn) context.Context {
	c := connUnder(served)
	if c.requests != nil {
		ctx = WithRoute(context.WithValue(c.requests, http.ServerContextKey, ctx.Value(http.ServerContextKey)), c.route)
	}
	return context.WithValue(ctx, connKey{}, c)
}

// hijacked takes the connection back from net/http, which has read further than the CONNECT: a client that does not
// wait for the 200 sends its ClientHello along.
func (c *conn) hijacked(read *bufio.Reader) {
	ahead, _ := read.Peek(read.Buffered()) // what is buffered is there at once
	c.socket.unread = slices.Concat(ahead, c.http1.buf)
	c.http1 = http1Reader{}
}

// enter makes the connection a tunnel with this route, until leave. The tunnel keeps the values of ctx and not its end:
// net/http cancels the context of a CONNECT once its connection has been taken over.
func (c *conn) enter(ctx context.Context, route Route) error {
	p := c.p
	c.party = p.o.Party(route)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return refusal.New("shutting_down", "the mediator is shutting down")
	}
	if !p.open.Take(c.party, 1, int64(p.o.Limits.Tunnels)) {
		return refusal.New("overloaded", "the session has its part of the %d open tunnels already", p.o.Limits.Tunnels)
	}
	p.lastTunnel++
	p.starting.Add(1)
	c.counted = true
	c.route = route
	c.route.Tunnel = p.lastTunnel
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return nil
}

// leave gives the tunnel's place back and ends its context. Only the first call does anything.
func (c *conn) leave() {
	c.p.mu.Lock()
	counted := c.counted
	if c.counted = false; counted {
		c.p.open.Give(c.party, 1)
	}
	c.p.mu.Unlock()
	if counted {
		c.end()
	}
}

// Read reads what was read ahead first. It is for one goroutine at a time, as net/http and crypto/tls do.
func (s *socket) Read(b []byte) (int, error) {
	if len(s.unread) == 0 {
		return s.Conn.Read(b)
	}
	n := copy(b, s.unread)
	if s.unread = s.unread[n:]; len(s.unread) == 0 {
		s.unread = nil
	}
	return n, nil
}

// peek reads until at least n bytes are known, and leaves them to be read, with what came with them: most often all of
// a ClientHello.
func (s *socket) peek(n int) ([]byte, error) {
	for len(s.unread) < n {
		b := make([]byte, 2<<10)
		read, err := s.Conn.Read(b)
		if read == 0 && err != nil {
			return nil, err
		}
		s.unread = append(s.unread, b[:read]...)
	}
	return s.unread[:n], nil
}

// Write gives each write its time, unless a deadline is set that is earlier: crypto/tls sets one for its last alert. A
// response may take any time as a whole, but not while its client takes nothing of it.
func (s *socket) Write(b []byte) (int, error) {
	o := &s.conn.p.o
	by := o.Now().Add(o.Limits.WriteTimeout)
	s.mu.Lock()
	if !s.writeBy.IsZero() && s.writeBy.Before(by) {
		by = s.writeBy
	}
	_ = s.Conn.SetWriteDeadline(by)
	s.mu.Unlock()
	return s.Conn.Write(b)
}

// SetWriteDeadline sets the deadline of all writes, until it is set to another.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeBy = t
	return s.Conn.SetWriteDeadline(t)
}

// Close ends the connection and gives its places back. It is safe at any time; only the first call does anything.
func (s *socket) Close() (err error) {
	s.once.Do(func() {
		s.conn.leave()
		err = s.Conn.Close()
		s.release()
	})
	return err
}

// CloseWrite closes the connection for writing.
func (s *socket) CloseWrite() error { return closeWrite(s.Conn) }

// closeWrite closes a connection for writing where it can be. Where not, net/http closes it as a whole right after.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
