package intercept

import (
	"context"
	"net"
	"sync"

	"github.com/actionproof/mediator/internal/share"
)

// limitListener accepts at most so many connections at once. Where it is full and sessions share it, a new connection
// takes the place of one that waits for its client. At the listener of one session further ones wait in the kernel's
// queue, and one is closed if the session has its part of the connections of all sessions.
type limitListener struct {
	net.Listener
	p       *Proxy
	session string          // of all its connections; empty if sessions share the listener
	life    context.Context //nolint:containedctx // of its connections; nil if they do not end with the listener
	slots   chan struct{}   // a connection takes one
	all     *share.Pool     // and of these, which sessions share; nil if they share the listener
	waiting *waiting        // nil if all is not
	closed  chan struct{}
	once    sync.Once
}

func newLimitListener(l net.Listener, p *Proxy) *limitListener {
	return &limitListener{
		Listener: l, p: p, slots: make(chan struct{}, p.o.Limits.Connections), waiting: newWaiting(), closed: make(chan struct{}),
	}
}

// shareOfSession is the part of Limits.Connections that the listener of one session can have.
const shareOfSession = 16

// newSessionListener makes a listener of one session. The listeners of all sessions have Limits.Connections together,
// of which no session has more than it leaves free.
func newSessionListener(ctx context.Context, l net.Listener, p *Proxy, session string) *limitListener {
	own := make(chan struct{}, max(1, p.o.Limits.Connections/shareOfSession))
	return &limitListener{
		Listener: l, p: p, session: session, life: ctx, slots: own, all: &p.ofSessions, closed: make(chan struct{}),
	}
}

// Accept returns a *conn.
func (l *limitListener) Accept() (net.Conn, error) {
	if l.all == nil {
		return l.acceptShared()
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	for err == nil && !l.all.Take(l.session, 1, int64(l.p.o.Limits.Connections)) {
		_ = accepted.Close()
		accepted, err = l.Listener.Accept()
	}
	if err != nil {
		<-l.slots
		return nil, err
	}
	free := func() { l.all.Give(l.session, 1); <-l.slots }
	c := newConn(l.p, accepted, free)
	c.session = l.session
	stop := context.AfterFunc(l.life, func() { _ = c.socket.Close() })
	c.socket.release = func() { stop(); free() }
	return c, nil
}

// acceptShared makes room for a connection once there is one.
func (l *limitListener) acceptShared() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := newConn(l.p, accepted, nil)
	c.waiting = l.waiting
	c.socket.release = func() { l.waiting.remove(c, true); <-l.slots }
	for {
		select {
		case l.slots <- struct{}{}:
			return c, nil
		default:
		}
		if other := l.waiting.longest(); other != nil {
			_ = other.socket.Close()
			continue
		}
		select {
		case l.slots <- struct{}{}:
			return c, nil
		case <-l.waiting.came:
		case <-l.closed:
			_ = accepted.Close()
			return nil, net.ErrClosed
		}
	}
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// tunnelListener hands the tunnels that can carry requests to the http.Server.
type tunnelListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newTunnelListener() *tunnelListener {
	return &tunnelListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// deliver reports whether the server has taken c.
func (l *tunnelListener) deliver(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

func (l *tunnelListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *tunnelListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *tunnelListener) Addr() net.Addr { return tunnelAddr{} }

type tunnelAddr struct{}

func (tunnelAddr) Network() string { return "tunnel" }
func (tunnelAddr) String() string  { return "tunnel" }
