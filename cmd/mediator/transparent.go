package main

import (
	"context"
	"net"
	"net/netip"

	"github.com/actionproof/mediator/proxy/upstream"
)

func (c serveConfig) checkTransparent(f *findings) {
	if c.Transparent == nil {
		return
	}
	if at, err := netip.ParseAddrPort(c.Transparent.Listen); err != nil || !at.Addr().Is4() {
		f.add("transparent.listen", "%q is not an IPv4 address with a port", c.Transparent.Listen)
	}
	if !c.Session.Standing {
		f.add("transparent", "needs session.standing: a redirected connection has no proxy credentials")
	}
}

// listenTransparent opens the transparent listener; nil where there is none.
func (s *sidecar) listenTransparent() (net.Listener, error) {
	if s.T.Transparent == nil {
		return nil, nil
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // whose sockets do not tell the original destination; clients fall back to TCP
	return lc.Listen(context.Background(), "tcp4", s.T.Transparent.Listen)
}

// destination checks where redirected connections were made to.
func (s *sidecar) destination(t *upstream.Transport) func(context.Context, upstream.Target, netip.Addr) error {
	if s.T.Transparent == nil || s.T.Transparent.AnyAddress {
		return nil
	}
	return t.CheckDestination
}

// addresses returns those of listeners on TCP; nil ones are left out.
func addresses(listeners ...net.Listener) []net.Addr {
	var out []net.Addr
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			out = append(out, addr)
		}
	}
	return out
}
