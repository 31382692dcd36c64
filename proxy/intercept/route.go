package intercept

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/actionproof/mediator/proxy/upstream"
)

// Route is what the connection layer knows about a request.
type Route struct {
	Target upstream.Target
	// Intercepted marks a request decrypted from TLS inside a tunnel.
	Intercepted bool
	// Session is the listener's session; empty for a shared listener. If set, ProxyAuthorization is ignored.
	Session string
	// Agent names the agent's pod at the other end of a connection over TLS, see [Options.Agent].
	Agent string
	// ProxyAuthorization is the header of the request, or of its tunnel's CONNECT. It is never printed.
	ProxyAuthorization string `json:"-"`
	// Original is the address that a redirected client dialled; otherwise not valid.
	Original netip.AddrPort
}

func (r Route) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s (intercepted %t)", r.Target, r.Intercepted)
}

type routeKey struct{}

// RouteFrom returns the route of a request. Options.Handler and Options.Connect always get one.
func RouteFrom(ctx context.Context) (Route, bool) {
	r, ok := ctx.Value(routeKey{}).(Route)
	return r, ok
}

// WithRoute returns ctx with a route.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}
