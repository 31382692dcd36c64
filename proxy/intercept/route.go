package intercept

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/actionproof/mediator/proxy/upstream"
)

// TunnelID numbers the tunnels of one process from 1; 0 is no tunnel.
type TunnelID uint64

// Route is what the connection layer knows about a request: where it goes and how it came.
type Route struct {
	Target upstream.Target
	// Intercepted is true for a request that was decrypted from TLS inside a tunnel.
	Intercepted bool
	// Session is the session of the listener that the connection came to; empty for a listener that sessions share. Where
	// it is set, ProxyAuthorization says nothing.
	Session string
	// ProxyAuthorization is the header of this name: the CONNECT's for every request inside its tunnel, the request's own
	// otherwise. It is a secret; a Route does not print it.
	ProxyAuthorization string `json:"-"`
	RemoteAddr         string
	Tunnel             TunnelID
	// Original is where a redirected connection was made to; not valid for what came as to a proxy.
	Original netip.AddrPort
}

// Format prints where a request goes and never its credentials, whatever the verb.
func (r Route) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s from %s (tunnel %d, intercepted %t)", r.Target, r.RemoteAddr, r.Tunnel, r.Intercepted)
}

type routeKey struct{}

// RouteFrom returns the route of a request. Every request that reaches Options.Handler or Options.Connect has one.
func RouteFrom(ctx context.Context) (Route, bool) {
	r, ok := ctx.Value(routeKey{}).(Route)
	return r, ok
}

// WithRoute returns a context with a route, as a request of a Proxy has it.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}
