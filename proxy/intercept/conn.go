package intercept

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// conn is one connection of an agent from accept to end. net/http serves it as a connection to the proxy, and after a
// CONNECT, or if the kernel redirected it here, as the inside of a tunnel.
type conn struct {
	net.Conn // socket, or TLS over it
	p        *Proxy
	socket   *socket
	http1    http1Reader // judges HTTP/1 before net/http reads it
	bodyOf   int32       // last request whose body came after its head, as in http1.unfinished
	ended    atomic.Bool // all further input is discarded, see changed
	ahead    atomic.Bool // the current request began to arrive before the previous answer ended
	session  string      // of the listener; empty if sessions share it
	tls      *tls.Config // of its tunnel
	// deadline of a handled request's body, which a transport may still be reading
	bodyBy  atomic.Pointer[time.Time]
	waiting *waiting // of its listener
	place   place    // in waiting

	// The rest is about a tunnel, and zero before there is one.
	route    Route
	life     context.Context    // ends with the connection
	end      context.CancelFunc // ends life
	requests context.Context    // base of the tunnel's requests, from Options.Connect
	timer    *time.Timer        // ends the TLS handshake
	refused  error              // refusal of the TLS handshake's name
	denied   error              // refusal of a redirected tunnel, answered to each request
	served   bool               // net/http has it, and closes it
	party    string             // the tunnel counts for it
	counted  bool               // as a tunnel of party; guarded by p.mu
}

type socket struct {
	net.Conn
	conn    *conn
	unread  []byte // already received, returned first
	release func() // frees the place at the listener
	once    sync.Once

	mu      sync.Mutex
	writeBy time.Time // deadline set for writes
}

func newConn(p *Proxy, accepted net.Conn, release func()) *conn {
	s := &socket{Conn: accepted, release: release}
	s.conn = &conn{Conn: s, p: p, socket: s}
	s.conn.http1 = newHTTP1Reader(s, p.o.Limits.HeaderBytes)
	return s.conn
}

func (c *conn) Read(b []byte) (int, error) {
	if c.ended.Load() {
		_, err := io.Copy(io.Discard, c.Conn)
		return 0, cmp.Or(err, io.EOF)
	}
	return c.http1.Read(b)
}

// Write counts the writes, to detect a request that comes before the end of an answer.
func (c *conn) Write(b []byte) (int, error) {
	c.http1.writes.Add(1)
	return c.Conn.Write(b)
}

// SetReadDeadline sets net/http's deadline. When net/http clears it, the body's own deadline stays.
func (c *conn) SetReadDeadline(t time.Time) error {
	if by := c.bodyBy.Load(); t.IsZero() && by != nil {
		t = *by
	}
	return c.Conn.SetReadDeadline(t)
}

// lingering is the time a client has to read its answer before a connection with unread input is closed.
const lingering = 500 * time.Millisecond

// changed follows net/http's changes of state. It ends an idle connection whose last body is incomplete: net/http would
// take the rest for a request that http1Reader has not judged.
func changed(served net.Conn, to http.ConnState) {
	switch to {
	case http.StateClosed:
		connUnder(served).reportECH()
	case http.StateHijacked:
	default:
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
		default:
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

// reportECH reports a client that ended its connection because the mediator did not decrypt the ClientHello in which it
// hid a name (ech_required, RFC 9849 section 6.1.6). It says so only after the handshake. The connection is closed.
func (c *conn) reportECH() {
	over, ok := c.Conn.(*tls.Conn)
	if !ok {
		return
	}
	_, err := over.Read(make([]byte, 1)) // returns at once, with the error of the last read
	var op *net.OpError
	const echRequired = tls.AlertError(121)
	if errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == echRequired.Error() {
		c.p.o.Refused(WithRoute(context.WithoutCancel(c.life), c.route), refusal.New("tls_handshake_failed",
			"the client left after the TLS handshake: it uses ECH to hide another host's name behind %s, "+
				"which cannot work here", c.route.Target.Host))
	}
}

// CloseWrite lets net/http close its side while the client reads the last answer.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

type connKey struct{}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// CameAhead reports whether a request began to arrive before the previous answer on its connection ended (HTTP/1.1
// pipelining).
func CameAhead(ctx context.Context) bool {
	c := connOf(ctx)
	return c != nil && c.ahead.Load()
}

// SessionOf returns the session of the listener that received a request, which may have no [Route]; empty for a shared
// listener.
func SessionOf(ctx context.Context) string {
	if c := connOf(ctx); c != nil {
		return c.session
	}
	return ""
}

func connUnder(served net.Conn) *conn {
	if over, ok := served.(*tls.Conn); ok { // HTTP/2
		return over.NetConn().(*socket).conn
	}
	return served.(*conn)
}

// context adds the connection to each request's context, and in a tunnel the tunnel's context and route.
func (p *Proxy) context(ctx context.Context, served net.Conn) context.Context {
	c := connUnder(served)
	if c.requests != nil {
		ctx = WithRoute(context.WithValue(c.requests, http.ServerContextKey, ctx.Value(http.ServerContextKey)), c.route)
	}
	return context.WithValue(ctx, connKey{}, c)
}

// hijacked takes the connection back from net/http, which may have read the ClientHello with the CONNECT.
func (c *conn) hijacked(read *bufio.Reader) {
	ahead, _ := read.Peek(read.Buffered()) // never blocks
	c.socket.unread = slices.Concat(ahead, c.http1.buf)
	c.http1 = http1Reader{}
}

// enter makes the connection a tunnel until leave. It ignores ctx's end: net/http cancels a CONNECT's context once the
// connection is hijacked.
func (c *conn) enter(ctx context.Context, route Route) error {
	p := c.p
	c.party = p.o.Party(route)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return refusal.New("shutting_down", "the mediator is shutting down")
	}
	if !p.open.Take(c.party, 1, int64(p.o.Limits.Tunnels)) {
		return refusal.New("overloaded", "the session has used up its share of the %d tunnels that may be open at once",
			p.o.Limits.Tunnels)
	}
	p.starting.Add(1)
	c.counted = true
	c.route = route
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return nil
}

// leave frees the tunnel's place and ends its context, once.
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

// Read returns unread first. Only one goroutine reads at a time.
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

// Write limits the time of each write: a response may take any time, but its client must read. An earlier deadline
// stays, as crypto/tls sets for its last alert.
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

func (s *socket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeBy = t
	return s.Conn.SetWriteDeadline(t)
}

// Close closes the connection and frees its places, once. It is safe at any time.
func (s *socket) Close() (err error) {
	s.once.Do(func() {
		s.conn.leave()
		err = s.Conn.Close()
		s.release()
	})
	return err
}

func (s *socket) CloseWrite() error { return closeWrite(s.Conn) }

// closeWrite closes the write side if it can. Otherwise net/http closes the connection right after.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
