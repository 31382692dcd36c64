package intercept

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Redirected connections are those that a client made to an upstream and the kernel led here instead (mediator guard). Each
// becomes what a CONNECT would have made it: a tunnel to the port that the client dialled, and to the host that it names in its
// TLS handshake. Cleartext requests name theirs one by one. Nothing is ever sent to the address that the client dialled: the
// mediator resolves the name itself.

// ServeTransparent takes redirected connections from l until Shutdown, then returns nil. Limits.Connections is for each listener.
func (p *Proxy) ServeTransparent(l net.Listener) error {
	p.serving.Do(p.tunnels.start)
	l = newLimitListener(l, &p.o)
	defer context.AfterFunc(p.tunnels.stopping, func() { _ = l.Close() })()
	defer l.Close()
	for wait := time.Duration(0); ; {
		conn, err := l.Accept()
		switch {
		case p.tunnels.stopping.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("intercept: %w", err)
		case err != nil: // such as too many open files
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			p.o.Log.Warn("a redirected connection could not be accepted", zap.Error(err), zap.Duration("wait", wait))
			select {
			case <-time.After(wait):
			case <-p.tunnels.stopping.Done():
			}
		default:
			wait = 0
			go p.tunnels.redirected(conn)
		}
	}
}

// redirected brings one redirected connection to where the server can take it.
func (s *tunnels) redirected(conn net.Conn) {
	original, err := s.o.Original(conn)
	if err == nil && s.o.Probe != nil && s.o.Probe(original, conn.RemoteAddr()) {
		_ = conn.Close()
		return
	}
	var target upstream.Target
	if err == nil {
		target = upstream.Target{Scheme: "https", Host: original.Addr().String(), Port: original.Port()}
	}
	ctx := WithRoute(context.Background(), Route{Target: target, Original: original, RemoteAddr: conn.RemoteAddr().String()})
	var t *tunnel
	if err == nil {
		t, err = s.open(ctx)
	}
	if err != nil {
		s.o.Refused(ctx, target, err)
		_ = conn.Close()
		return
	}
	defer t.settle()
	t.headConn = &headConn{Conn: conn}
	switch err := s.adopt(t); {
	case err == nil:
		s.run(t)
	case s.stopping.Err() == nil && !errors.Is(err, errSilent):
		s.o.Refused(t.ctx, t.route.Target, err)
	}
}

// adopt finds out where a redirected connection goes, and has that decided as a CONNECT would be. A cleartext connection is decided
// request by request, see Proxy.redirectedRequest.
func (s *tunnels) adopt(t *tunnel) error {
	if _, ok := s.firstByte(t); !ok {
		return errSilent
	}
	ctx, cancel := context.WithTimeout(t.ctx, s.o.Limits.HandshakeTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if t.head[0] != recordTypeHandshake {
		return t.peekMethod(ctx)
	}
	name, err := t.peekServerName(ctx)
	if err != nil {
		return handshakeRefusal(err, t.route.Target)
	}
	if t.route.Target, err = t.route.named("https", name); err != nil {
		return err
	}
	return s.decide(t, connectRequest(t.ctx, t.route))
}

// connectRequest is the CONNECT that a redirected connection stands for.
func connectRequest(ctx context.Context, route Route) *http.Request {
	r := &http.Request{Method: http.MethodConnect, Host: route.Target.Address(), RequestURI: route.Target.Address(), RemoteAddr: route.RemoteAddr, Header: make(http.Header)}
	return r.WithContext(WithRoute(ctx, route))
}

// named returns the target of a redirected connection whose client names it by authority: that host at the port that was dialled.
// Without a name it is the address that was dialled, and a name that is an address has to be the one that was dialled.
func (r Route) named(scheme, authority string) (upstream.Target, error) {
	t := upstream.Target{Scheme: scheme, Host: r.Original.Addr().String(), Port: r.Original.Port()}
	if authority == "" {
		return t, nil
	}
	named, err := upstream.ParseOrigin(scheme, authority)
	if err != nil {
		return upstream.Target{}, err
	}
	if scheme == "https" && !strings.Contains(authority, ":") { // SNI, which has no port
		named.Port = t.Port
	}
	if _, isIP := named.IP(); named.Port != t.Port || isIP && named != t {
		return upstream.Target{}, refusal.New("target_mismatch", "the connection was made to %s, but names %s", r.Original, named.Address())
	}
	return named, nil
}

// redirectedRequest decides one cleartext request of a redirected connection, and returns it with its route.
func (p *Proxy) redirectedRequest(r *http.Request, route Route) (*http.Request, Route, error) {
	var err error
	if route.Target, err = route.named("http", r.Host); err != nil {
		return r, route, err
	}
	r = r.WithContext(WithRoute(r.Context(), route))
	ctx, err := p.o.Connect(r, route.Target)
	if err != nil {
		return r, route, err
	}
	return r.WithContext(ctx), route, nil
}

// originalDestination asks the kernel where a redirected connection was made to (SO_ORIGINAL_DST, IPv4).
func originalDestination(conn net.Conn) (netip.AddrPort, error) {
	refuse := func() (netip.AddrPort, error) {
		return netip.AddrPort{}, refusal.New("not_redirected", "a connection to the transparent listener was not redirected by the kernel, so nobody knows where it was meant to go")
	}
	if limited, ok := conn.(*limitedConn); ok {
		conn = limited.Conn
	}
	inner, ok := conn.(syscall.Conn)
	if !ok {
		return refuse()
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return refuse()
	}
	// The kernel writes a struct sockaddr_in (16 bytes): family, port and address in network order. This call takes up to 20.
	var sockaddr *unix.IPv6Mreq
	var sysErr error
	if err := raw.Control(func(fd uintptr) {
		sockaddr, sysErr = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
	}); err != nil || sysErr != nil {
		return refuse()
	}
	b := sockaddr.Multiaddr
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3]))
	if own, err := netip.ParseAddrPort(conn.LocalAddr().String()); err != nil || netip.AddrPortFrom(own.Addr().Unmap(), own.Port()) == to {
		return refuse()
	}
	return to, nil
}

// errSilent is a client that sent nothing.
var errSilent = errors.New("the client sent nothing")

// errPeeked ends the reading of a handshake once the name is known.
var errPeeked = errors.New("peeked")

// peekServerName returns the name that a TLS client asks for (SNI), empty if none, and leaves the ClientHello to be read.
func (t *tunnel) peekServerName(ctx context.Context) (string, error) {
	peek := &peekConn{Conn: t}
	var name string
	err := tls.Server(peek, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name = hello.ServerName
			return nil, errPeeked
		},
	}).HandshakeContext(ctx)
	if !errors.Is(err, errPeeked) {
		return "", err
	}
	t.head = append(peek.read, t.head...)
	return name, nil
}

// peekConn keeps what it reads, and answers nothing.
type peekConn struct {
	net.Conn
	read []byte
}

func (c *peekConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	return n, err
}

func (c *peekConn) Write(b []byte) (int, error) { return len(b), nil }

// maxMethod is longer than any method that a rule names.
const maxMethod = 24

// peekMethod refuses what does not begin with a method and a space, as every request of HTTP/1.1 and the preface of HTTP/2 do, and
// leaves it to be read.
func (t *tunnel) peekMethod(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = t.Close() })()
	for i := 0; ; i++ {
		for i >= len(t.head) {
			b := make([]byte, maxMethod)
			n, err := t.Conn.Read(b)
			if n == 0 && err != nil {
				return refusal.New("not_http", "the connection to %s ended before a request", t.route.Original)
			}
			t.head = append(t.head, b[:n]...)
		}
		switch c := t.head[i]; {
		case c == ' ' && i > 0:
			return nil
		case c < 'A' || c > 'Z' || i >= maxMethod:
			return refusal.New("not_http", "what the client sent to %s is neither TLS nor HTTP", t.route.Original)
		}
	}
}
