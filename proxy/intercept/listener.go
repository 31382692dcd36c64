package intercept

import (
	"net"
	"sync"
)

// limitListener accepts at most so many connections at once; further ones wait in the kernel's queue. Unlike netutil's its
// connections can be closed for writing alone, which net/http needs so that a client gets to read a last answer.
type limitListener struct {
	net.Listener
	o      *Options
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newLimitListener(l net.Listener, o *Options) *limitListener {
	return &limitListener{Listener: l, o: o, slots: make(chan struct{}, o.Limits.Connections), closed: make(chan struct{})}
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, o: l.o, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	o       *Options
	release func()
}

// Write gives each write its time. A response may take any time as a whole, but not while its client takes nothing of it.
func (c *limitedConn) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(c.o.Now().Add(c.o.Limits.WriteTimeout))
	return c.Conn.Write(b)
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func (c *limitedConn) CloseWrite() error { return closeWrite(c.Conn) }

// headConn reads head before anything from the connection. Read is for one goroutine at a time, as net/http and crypto/tls do.
type headConn struct {
	net.Conn
	head []byte
}

func (c *headConn) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		if c.head = c.head[n:]; len(c.head) == 0 {
			c.head = nil
		}
		return n, nil
	}
	return c.Conn.Read(b)
}

func (c *headConn) CloseWrite() error { return closeWrite(c.Conn) }

// peek returns the first byte to come and leaves it to be read, with what came with it: most often all of a ClientHello.
func (c *headConn) peek() (byte, error) {
	b := make([]byte, 2<<10)
	for len(c.head) == 0 {
		n, err := c.Conn.Read(b)
		if n == 0 && err != nil {
			return 0, err
		}
		c.head = b[:n]
	}
	return c.head[0], nil
}

// closeWrite closes a connection for writing where it can be. Where not, net/http closes it as a whole right after.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connListener hands connections that are already there to an http.Server.
type connListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newConnListener() *connListener {
	return &connListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// deliver reports whether the server has taken c.
func (l *connListener) deliver(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

func (l *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *connListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *connListener) Addr() net.Addr { return tunnelAddr{} }

type tunnelAddr struct{}

func (tunnelAddr) Network() string { return "tunnel" }
func (tunnelAddr) String() string  { return "tunnel" }
