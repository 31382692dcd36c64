package intercept

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/actionproof/mediator/internal/share"
)

// limitListener bounds the open connections. A full one closes the connection that has waited longest for its client,
// or else a new one waits. One beyond a session's share of all sessions' connections is closed if none waits.
type limitListener struct {
	net.Listener
	p       *Proxy
	session string          // of all its connections; empty if sessions share it
	tls     *tls.Config     // of its tunnels
	life    context.Context //nolint:containedctx // of its connections
	slots   chan struct{}   // one for each connection
	all     *share.Pool     // shared by all sessions' listeners; nil for a shared listener
	waiting *waiting
	closed  chan struct{}
	once    sync.Once

	transparent bool // all connections should be redirected
}

// shareOfSession is the fraction of Limits.Connections for the listener of one session.
const shareOfSession = 16

// newLimitListener makes a listener of one session, or with an empty session one for all. The listeners of sessions
// share Limits.Connections.
func newLimitListener(life context.Context, l net.Listener, p *Proxy, session string) *limitListener {
	limit := &limitListener{Listener: l, p: p, session: session, tls: p.tls, life: life,
		waiting: &waiting{came: make(chan struct{}, 1), of: make(map[string]*list.List)}, closed: make(chan struct{})}
	slots := p.o.Limits.Connections
	if session != "" {
		slots, limit.all = max(1, slots/shareOfSession), &p.ofSessions
	}
	limit.slots = make(chan struct{}, slots)
	return limit
}

// Accept returns a *conn. A connection that the kernel redirected becomes a tunnel instead, unless the listener is for
// clients that know the proxy.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.accept()
		if err != nil {
			return nil, err
		}
		if l.all == nil && !l.transparent {
			return c, nil
		}
		original, redirected := l.p.o.Original(c.socket.Conn)
		if !redirected && !l.transparent {
			return c, nil
		}
		go l.p.redirected(c, original)
	}
}

func (l *limitListener) accept() (*conn, error) {
	accepted, err := l.Listener.Accept()
	for err == nil && !l.take() {
		if l.closeLongest() {
			continue
		}
		_ = accepted.Close()
		accepted, err = l.Listener.Accept()
	}
	if err != nil {
		return nil, err
	}
	if !l.place() {
		l.give()
		_ = accepted.Close()
		return nil, net.ErrClosed
	}
	c := newConn(l.p, accepted, nil)
	c.session, c.tls, c.waiting = l.session, l.tls, l.waiting
	life, end := context.WithCancel(l.life)
	c.socket.release = func() {
		end()
		l.waiting.remove(c, true)
		l.give()
		<-l.slots
	}
	// After all of the above: the session may have ended before.
	context.AfterFunc(life, func() { _ = c.socket.Close() })
	if l.session == "" && l.p.o.Agent != nil {
		go c.watch(life)
	}
	return c, nil
}

func (l *limitListener) take() bool {
	return l.all == nil || l.all.Take(l.session, 1, int64(l.p.o.Limits.Connections))
}

func (l *limitListener) give() {
	if l.all != nil {
		l.all.Give(l.session, 1)
	}
}

// place waits for one of slots. It fails once the listener is closed.
func (l *limitListener) place() bool {
	for {
		select {
		case l.slots <- struct{}{}:
			return true
		default:
		}
		if l.closeLongest() {
			continue
		}
		select {
		case l.slots <- struct{}{}:
			return true
		case <-l.waiting.came:
		case <-l.closed:
			return false
		}
	}
}

// closeLongest closes the connection that has waited longest for its client. It reports whether one waited.
func (l *limitListener) closeLongest() bool {
	c := l.waiting.longest()
	if c != nil {
		_ = c.socket.Close()
	}
	return c != nil
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
