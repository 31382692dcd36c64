package intercept

import (
	"context"
	"net"
	"sync"

	"github.com/actionproof/mediator/internal/share"
)

// limitListener bounds the open connections. A full shared listener closes the connection that has waited longest for
// its client. At a full listener of one session, new connections wait in the kernel. One beyond the session's share of
// all sessions' connections is closed.
type limitListener struct {
	net.Listener
	p       *Proxy
	session string          // of all its connections; empty if sessions share it
	life    context.Context //nolint:containedctx // of its connections, or nil
	slots   chan struct{}   // one for each connection
	all     *share.Pool     // shared by all sessions' listeners; nil for a shared listener
	waiting *waiting        // nil if all is not
	closed  chan struct{}
	once    sync.Once
}

func newLimitListener(l net.Listener, p *Proxy) *limitListener {
	return &limitListener{
		Listener: l, p: p, slots: make(chan struct{}, p.o.Limits.Connections), waiting: newWaiting(),
		closed: make(chan struct{}),
	}
}

// shareOfSession is the fraction of Limits.Connections for the listener of one session.
const shareOfSession = 16

// newSessionListener makes a listener of one session. All such listeners share Limits.Connections.
func newSessionListener(ctx context.Context, l net.Listener, p *Proxy, session string) *limitListener {
	own := make(chan struct{}, max(1, p.o.Limits.Connections/shareOfSession))
	return &limitListener{
		Listener: l, p: p, session: session, life: ctx, slots: own, all: &p.ofSessions, closed: make(chan struct{}),
	}
}

// Accept returns a *conn. A session's connection that the kernel redirected becomes a tunnel instead.
func (l *limitListener) Accept() (net.Conn, error) {
	if l.all == nil {
		return l.acceptShared()
	}
	for {
		c, err := l.acceptOfSession()
		if err != nil {
			return nil, err
		}
		original, redirected := l.p.o.Original(c.socket.Conn)
		if !redirected {
			return c, nil
		}
		go l.p.redirected(c, original)
	}
}

func (l *limitListener) acceptOfSession() (*conn, error) {
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

type tunnelListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newTunnelListener() *tunnelListener {
	return &tunnelListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

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

func (l *tunnelListener) Addr() net.Addr { return &net.UnixAddr{Net: "tunnel", Name: "tunnel"} }
