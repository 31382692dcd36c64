package intercept

import (
	"context"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/upstream"
)

// request takes a request: inside a tunnel, or to the proxy itself.
func (p *Proxy) request(w http.ResponseWriter, r *http.Request) {
	route, tunnelled := RouteFrom(r.Context())
	if denied := connOf(r.Context()).denied; denied != nil {
		w.Header().Set("Connection", "close") // over HTTP/2 too, gracefully
		p.o.Refuse(w, r, denied)
		return
	}
	switch {
	case r.Method == refusedMethod && r.ProtoMajor == 1:
		p.refuseHead(w, r)
	case tunnelled:
		p.serveTunnelled(w, r, route)
	case r.Method == http.MethodConnect:
		p.serveConnect(w, r)
	// "OPTIONS *", "GET mailto:a@b"
	case r.ProtoMajor != 1 || r.URL.Host == "" && r.RequestURI != "" && r.RequestURI[0] != '/':
		p.o.Refuse(w, r, refusal.New("request_malformed", "the request target is neither an absolute URL nor a path"))
	case r.URL.Host == "" && r.URL.Scheme == "":
		p.o.Refuse(w, r, refusal.New("not_a_proxy_request",
			"this port is a proxy; set it as HTTP_PROXY and HTTPS_PROXY"))
	default:
		p.servePlain(w, r)
	}
}

// servePlain gives an absolute-form request to the Handler. goproxy's own way removes Accept-Encoding, forwards by
// itself, and does not flush.
func (p *Proxy) servePlain(w http.ResponseWriter, r *http.Request) {
	t, err := parseRequest(r)
	var route Route
	if err == nil {
		route, err = p.routeOf(r, t)
	}
	if err != nil {
		p.o.Refuse(w, r, err)
		return
	}
	p.handle(w, r.WithContext(WithRoute(r.Context(), route)), t)
}

func (p *Proxy) routeOf(r *http.Request, t upstream.Target) (route Route, err error) {
	c := connOf(r.Context())
	route = Route{Target: t, Session: c.session}
	if route.Session == "" {
		route.ProxyAuthorization = r.Header.Get("Proxy-Authorization")
	}
	route.Agent, err = c.agent()
	return route, err
}

// agent names the agent's pod at the other end, see [Options.Agent]. Each request asks again: a connection, and a
// tunnel in it, can outlive the pod's certificate.
func (c *conn) agent() (string, error) {
	if c.session != "" || c.p.o.Agent == nil {
		return "", nil
	}
	return c.p.o.Agent(c.socket.Conn)
}

// watch asks for the agent until the connection ends: a single request, such as for a WebSocket, can outlive the pod's
// certificate too.
func (c *conn) watch(life context.Context) {
	for range every.Tick(life, c.p.o.Limits.AgentCheck) {
		if _, err := c.agent(); err != nil {
			c.p.o.Log.Warn("the connection of an agent's pod is closed", zap.Error(err))
			_ = c.socket.Close()
			return
		}
	}
}

// handle gives every request to the Handler in one form.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request, t upstream.Target) {
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "Host"} {
		delete(r.Header, name) // the first two are for the proxy alone (RFC 9110 section 11.7)
	}
	authority := t.Authority()
	r.URL.Scheme, r.URL.Host, r.Host = t.Scheme, authority, authority
	if r.URL.Path == "" {
		r.URL.Path = "/" // an absolute-form target may have no path (RFC 9112 section 3.2.2)
	}
	p.o.Handler.ServeHTTP(w, r)
}

// parseRequest reads an absolute-form target (RFC 9112 section 3.2.2), which replaces the Host header. It takes https
// too: some clients send it in place of a CONNECT. Every refusal is request_malformed.
func parseRequest(r *http.Request) (upstream.Target, error) {
	if r.URL == nil || r.URL.Opaque != "" || r.URL.User != nil || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return upstream.Target{}, refusal.New("request_malformed",
			"the request target is not a plain http or https URL")
	}
	return upstream.ParseOrigin(r.URL.Scheme, r.URL.Host)
}

// checkTunnelled refuses a request that must not be in a tunnel, or not in this one.
func checkTunnelled(r *http.Request, route Route) error {
	switch {
	case !wire.IsMethod(r.Method): // HTTP/2 allows any text
		return refusal.New("request_malformed", "the method is not in capitals")
	case !route.Intercepted && route.Target.Port == 443:
		return withoutTLS(route)
	case r.Method == http.MethodConnect:
		return refusal.New("request_malformed", "a CONNECT inside a tunnel is refused")
	case r.RequestURI == "*" || r.URL == nil || r.URL.Host == "" && !strings.HasPrefix(r.URL.Path, "/"):
		return refusal.New("request_malformed", "the request target is neither an absolute URL nor a path")
	}
	return agree(r, route.Target)
}

func withoutTLS(route Route) error {
	return refusal.New("not_http", "the tunnel to %s carries HTTP without TLS", route.Target.Address())
}

// agree checks that the Host header or :authority, and an absolute URL, name the tunnel's host. Any difference, or no
// name at all, is target_mismatch.
func agree(r *http.Request, pinned upstream.Target) error {
	if r.URL == nil || r.URL.Opaque != "" || r.URL.User != nil {
		return refusal.New("target_mismatch", "the request target does not fit the tunnel to %s", pinned)
	}
	if r.URL.Scheme != "" || r.URL.Host != "" {
		if t, err := upstream.ParseOrigin(r.URL.Scheme, r.URL.Host); err != nil || t != pinned {
			return refusal.New("target_mismatch", "the request target does not name the tunnel's origin, %s", pinned)
		}
	}
	// net/http keeps a Host header beside :authority: a second name that a server might read.
	for _, name := range append([]string{r.Host}, r.Header["Host"]...) {
		if t, err := upstream.ParseOrigin(pinned.Scheme, name); err != nil || t != pinned {
			return refusal.New("target_mismatch",
				"the request's Host or :authority does not name the tunnel's origin, %s", pinned)
		}
	}
	return nil
}
