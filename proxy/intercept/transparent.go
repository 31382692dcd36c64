package intercept

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/resolver"
	"github.com/actionproof/mediator/proxy/upstream"
)

// The kernel leads an agent's connection to an upstream here (mediator run, mediator guard). It becomes a tunnel as if
// by a CONNECT to the dialled port and the host that its TLS handshake names. Each cleartext request names its own
// host. Nothing is ever sent to the dialled address; the mediator resolves the name itself.

// ServeTransparent takes redirected connections from l until Shutdown, then returns nil.
func (p *Proxy) ServeTransparent(l net.Listener) error {
	all := newLimitListener(context.Background(), l, p, "")
	all.transparent = true
	return p.serve(all)
}

// redirected makes one redirected connection a tunnel, unless original is not valid. A panic ends only this connection.
func (p *Proxy) redirected(c *conn, original netip.AddrPort) {
	route := Route{Original: original, Session: c.session}
	defer func() {
		if v := recover(); v != nil {
			p.o.Log.Error("panic in a redirected connection", zap.Any("panic", v),
				zap.ByteString("stack", debug.Stack()))
			_ = c.socket.Close()
			route.Target = cmp.Or(c.route.Target, route.Target) // by its name, if it was told
			p.o.Refused(WithRoute(context.Background(), route), errors.New("intercept: panic"))
		}
		if c.life != nil { // entered
			c.settle()
		}
	}()
	if c.session == "" && p.o.Probe != nil && p.o.Probe(original, c.RemoteAddr()) {
		_ = c.Close()
		return
	}
	var err error
	if original.IsValid() {
		route.Target = upstream.Target{Scheme: "https", Host: original.Addr().String(), Port: original.Port()}
		err = c.enter(context.Background(), route)
	} else {
		err = refusal.New("not_a_proxy_request",
			"the kernel did not redirect this connection to the transparent listener, so its destination is unknown")
	}
	if err != nil {
		p.o.Refused(WithRoute(context.Background(), route), err)
		_ = c.Close()
		return
	}
	c.tunnel()
}

func connectRequest(route Route) *http.Request {
	authority := route.Target.Address()
	r := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: authority}, Host: authority, RequestURI: authority,
		Header: make(http.Header),
	}
	return r.WithContext(WithRoute(context.Background(), route))
}

// named returns the target of a redirected connection: the host that authority names, at the dialled port. Without a
// name it is the dialled address, unless the run's resolver made that, for several names can share it. A name that
// is an address must be the dialled one.
func (r Route) named(scheme, authority string) (upstream.Target, error) {
	t := upstream.Target{Scheme: scheme, Host: r.Original.Addr().String(), Port: r.Original.Port()}
	byName := resolver.Gave(r.Original.Addr())
	switch {
	case authority == "" && byName:
		return t, refusal.New("target_mismatch",
			"the connection to %s names no host (by SNI or a Host header), and several hosts can share that address",
			r.Original)
	case authority == "":
		return t, nil
	}
	named, err := upstream.ParseOrigin(scheme, authority)
	if err != nil {
		return t, err
	}
	if scheme == "https" && !strings.Contains(authority, ":") { // SNI has no port
		named.Port = t.Port
	}
	if _, isIP := named.IP(); named.Port != t.Port || isIP && named != t {
		return t, refusal.New("target_mismatch",
			"the connection was made to %s, but names %s", r.Original, named.Address())
	}
	if byName && resolver.Address(named.Host) != r.Original.Addr() {
		return named, refusal.New("target_mismatch",
			"the connection names %s, but was made to the address of another host", named.Address())
	}
	return named, nil
}

func (p *Proxy) redirectedRequest(r *http.Request, route Route) (*http.Request, Route, error) {
	if route.Original.Port() == 443 {
		return r, route, withoutTLS(route)
	}
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

// originalDestination asks the kernel for the address that a redirected client dialled (SO_ORIGINAL_DST). It reports
// false for a connection that was not redirected.
func originalDestination(conn net.Conn) (to netip.AddrPort, redirected bool) {
	inner, ok := conn.(syscall.Conn)
	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if !ok || err != nil {
		return netip.AddrPort{}, false
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, false
	}
	var sysErr error
	err = raw.Control(func(fd uintptr) {
		if own.Addr().Unmap().Is4() {
			// The kernel writes a struct sockaddr_in of 16 bytes: family, port and address in network order. This call
			// takes up to 20 bytes.
			var sockaddr *unix.IPv6Mreq
			if sockaddr, sysErr = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST); sysErr == nil {
				b := sockaddr.Multiaddr
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
			}
			return
		}
		// A struct sockaddr_in6 of 28 bytes. This call takes up to 32.
		var info *unix.IPv6MTUInfo
		if info, sysErr = unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST); sysErr == nil {
			port := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, info.Addr.Port))
			to = netip.AddrPortFrom(netip.AddrFrom16(info.Addr.Addr), port)
		}
	})
	if err != nil || sysErr != nil || to == netip.AddrPortFrom(own.Addr().Unmap(), own.Port()) {
		return netip.AddrPort{}, false
	}
	return to, true
}

// query refuses a DNS query over TCP. The resolver of a run sends those to which it has no answer. It returns nil for
// anything else.
func (c *conn) query() error {
	if c.route.Original.Port() != 53 {
		return nil
	}
	size, err := c.socket.peek(2)
	if err != nil {
		return nil
	}
	query, err := c.socket.peek(2 + min(int(binary.BigEndian.Uint16(size)), maxQuery))
	if err != nil {
		return nil
	}
	name, of := resolver.Asked(query[2:])
	return refusal.New("upstream_unresolvable",
		"the DNS query for %.260q, type %s, has no answer: only queries for host names are answered, and only over UDP",
		name, of)
}

// maxQuery is longer than any query with a name (RFC 1035 section 4.2).
const maxQuery = 512

// maxMethod is longer than any method in a rule.
const maxMethod = 24

// checkMethod refuses input that does not begin with a method and a space. It leaves the input unread.
func (c *conn) checkMethod() error {
	_ = c.socket.SetReadDeadline(c.p.o.Now().Add(c.p.o.Limits.HandshakeTimeout))
	for i := 0; ; i++ {
		begun, err := c.socket.peek(i + 1)
		if err != nil {
			return refusal.New("not_http", "the connection to %s ended before a request", c.route.Original)
		}
		switch b := begun[i]; {
		case b == ' ' && i > 0:
			return c.socket.SetReadDeadline(time.Time{})
		case b < 'A' || b > 'Z' || i >= maxMethod:
			if err := c.query(); err != nil {
				return err
			}
			return refusal.New("not_http", "the client sent neither TLS nor HTTP to %s", c.route.Original)
		}
	}
}
