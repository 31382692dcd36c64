package intercept

import (
	"context"
	"net"
	"sync"
)

// limitListener accepts at most so many connections at once; further ones wait in the kernel's queue.
type limitListener struct {
	net.Listener
	p       *Proxy
	session string          // of all its connections; empty if sessions share the listener
	life    context.Context //nolint:containedctx // of its connections; nil if they do not end with the listener
	slots   []chan struct{} // a connection takes one of each
	closed  chan struct{}
	once    sync.Once
}

func newLimitListener(l net.Listener, p *Proxy) *limitListener {
	return &limitListener{Listener: l, p: p, slots: []chan struct{}{make(chan struct{}, p.o.Limits.Connections)}, closed: make(chan struct{})}
}

// shareOfSession is the part of Limits.Connections that the listener of one session can have.
const shareOfSession = 16

// newSessionListener makes a listener of one session. The listeners of all sessions have Limits.Connections together.
func newSessionListener(ctx context.Context, l net.Listener, p *Proxy, session string) *limitListener {
	own := make(chan struct{}, max(1, p.o.Limits.Connections/shareOfSession))
	return &limitListener{Listener: l, p: p, session: session, life: ctx, slots: []chan struct{}{own, p.ofSessions}, closed: make(chan struct{})}
}

// Accept returns a *conn.
func (l *limitListener) Accept() (net.Conn, error) {
	if !l.take(l.slots[0]) {
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		free(l.slots[:1])
		return nil, err
	}
	for i, s := range l.slots[1:] { // which others share: a listener that waits for a connection must hold none
		if !l.take(s) {
			_ = accepted.Close()
			free(l.slots[:i+1])
			return nil, net.ErrClosed
		}
	}
	c := newConn(l.p, accepted, func() { free(l.slots) })
	if c.session = l.session; l.life != nil {
		stop := context.AfterFunc(l.life, func() { _ = c.socket.Close() })
		c.socket.release = func() { stop(); free(l.slots) }
	}
	return c, nil
}

// take waits for a slot. It reports false if the listener is closed first.
func (l *limitListener) take(slot chan struct{}) bool {
	select {
	case slot <- struct{}{}:
		return true
	case <-l.closed:
		return false
	}
}

func free(slots []chan struct{}) {
	for _, s := range slots {
		<-s
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
