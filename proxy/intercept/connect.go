package intercept

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/elazarl/goproxy"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/upstream"
)

// From a CONNECT to the handler:
//
//	serveConnect   decides the CONNECT and gives it to goproxy
//	newDispatch    goproxy takes the connection from net/http and calls tunnel
//	tunnel         prepares the tunnel for requests and gives it back to net/http
//	begin          answers the CONNECT and looks at the first byte
//	handshake      terminates TLS with a certificate for the tunnel's host
//	serveTunnelled checks each request inside and gives it to the handler
//
// Nothing passes unread: TLS is always terminated, and a tunnel with anything unreadable ends. Cleartext HTTP is
// served, because some clients open a tunnel for http: URLs. No rule for https matches it. On port 443 it is refused: a
// credential meant for TLS would cross the network in clear.

func (p *Proxy) serveConnect(w http.ResponseWriter, r *http.Request) {
	c := connOf(r.Context())
	if err := c.enterConnect(r); err != nil {
		refuseConnect(w, r, p, err)
		return
	}
	defer c.settle()
	if err := c.decide(r); err != nil {
		refuseConnect(w, r, p, err)
		return
	}
	p.dispatch.ServeHTTP(w, r)
	if !w.(*response).begun {
		refuseConnect(w, r, p, errors.New("intercept: goproxy did not take the connection of a CONNECT"))
	}
}

func (c *conn) enterConnect(r *http.Request) error {
	if r.ProtoMajor != 1 {
		return refusal.New("request_malformed", "CONNECT needs HTTP/1.1")
	}
	if r.ContentLength != 0 {
		return refusal.New("request_malformed", "the CONNECT has a body")
	}
	target, err := upstream.ParseConnect(r.RequestURI)
	if err != nil {
		return err
	}
	route, err := c.p.routeOf(r, target)
	if err != nil {
		return err
	}
	return c.enter(r.Context(), route)
}

// decide asks Options.Connect, whose context ends if a shutdown begins or the client leaves.
func (c *conn) decide(r *http.Request) error {
	stopGone := context.AfterFunc(r.Context(), c.end)
	defer stopGone()
	stopDown := context.AfterFunc(c.p.stopping, c.end)
	defer stopDown()
	base, err := c.p.o.Connect(r.WithContext(WithRoute(c.life, c.route)), c.route.Target)
	gone, down := !stopGone(), !stopDown()
	switch {
	case err != nil:
		return err
	case base == nil:
		return errors.New("intercept: Options.Connect returned neither a context nor an error")
	case gone:
		return refusal.New("client_gone", "the client went away before its CONNECT was decided")
	case down:
		return refusal.New("shutting_down", "the mediator is shutting down")
	}
	requests, cancel := context.WithCancel(base)
	context.AfterFunc(c.life, cancel)
	context.AfterFunc(requests, func() { _ = c.socket.Close() }) // base's owner can end the tunnel
	c.requests = requests
	return nil
}

// settle ends the start of a tunnel: it carries requests now, or never will.
func (c *conn) settle() {
	if !c.served {
		c.leave()
	}
	c.p.starting.Done()
}

// newDispatch lets goproxy take the connection of a decided CONNECT from net/http. Nothing leads to goproxy's own ways
// to an upstream, and its dialers fail.
func (p *Proxy) newDispatch() *goproxy.ProxyHttpServer {
	g := goproxy.NewProxyHttpServer()
	g.Tr = &http.Transport{DialContext: noDial, DialTLSContext: noDial, DisableKeepAlives: true}
	g.ConnectDial = func(network, addr string) (net.Conn, error) { return noDial(context.Background(), network, addr) }
	g.ConnectDialWithReq = func(r *http.Request, network, addr string) (net.Conn, error) {
		return noDial(r.Context(), network, addr)
	}
	g.Logger = goproxyLog{p.o.Log.Named("goproxy").WithOptions(zap.AddCallerSkip(2)).Sugar()}
	g.Verbose = p.o.Log.Core().Enabled(zap.DebugLevel)
	g.NonproxyHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.o.Refuse(w, r, errors.New("intercept: a plain request reached the CONNECT dispatch"))
	})
	decided := goproxy.ReqConditionFunc(func(r *http.Request, _ *goproxy.ProxyCtx) bool {
		c := connOf(r.Context())
		return c != nil && c.requests != nil
	})
	g.OnRequest(decided).HijackConnect(func(r *http.Request, _ net.Conn, _ *goproxy.ProxyCtx) {
		connOf(r.Context()).tunnel()
	})
	// Without this goproxy would tunnel an undecided CONNECT blindly.
	g.OnRequest().HandleConnect(goproxy.AlwaysReject)
	return g
}

func noDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("intercept: goproxy must not dial")
}

type goproxyLog struct{ log *zap.SugaredLogger }

func (l goproxyLog) Printf(format string, args ...any) { l.log.Debugf(format, args...) }

func (c *conn) tunnel() {
	c.waits(true)
	stop := context.AfterFunc(c.p.stopping, func() { _ = c.socket.Close() })
	defer func() {
		if !c.served {
			_ = c.socket.Close()
		}
	}()
	err := c.begin()
	switch {
	case !stop() || errors.Is(err, errSilent): // nothing to report
	case err != nil:
		c.p.o.Refused(WithRoute(c.life, c.route), err)
	default:
		c.served = c.p.tunnels.deliver(c.http2())
	}
}

var errSilent = errors.New("the client sent nothing")

// recordTypeHandshake begins every TLS connection (RFC 8446 section 5.1) and no HTTP request.
const recordTypeHandshake = 0x16

// begin answers the CONNECT, if there was one, and waits for the first byte: TLS or cleartext.
func (c *conn) begin() error {
	o, redirected := &c.p.o, c.route.Original.IsValid()
	if !redirected {
		if _, err := c.socket.Write([]byte("HTTP/1.1 200 Connection Established\r\n\r\n")); err != nil {
			return errSilent
		}
	}
	patience := o.Limits.HeaderTimeout
	if redirected {
		patience = o.Limits.HandshakeTimeout
	}
	if greetings[c.route.Original.Port()] != "" {
		patience = min(patience, greetingPatience)
	}
	_ = c.socket.SetReadDeadline(o.Now().Add(patience))
	first, err := c.socket.peek(1)
	switch {
	case redirected && errors.Is(err, os.ErrDeadlineExceeded):
		err := refusal.New("not_http",
			"the client sent nothing to %s within %s; perhaps it waits for the server to speak first, but only HTTPS and HTTP "+
				"can pass", c.route.Original, patience)
		if c.greet(c.socket, err) {
			return errSilent
		}
		return err
	case err != nil:
		return errSilent
	}
	_ = c.socket.SetReadDeadline(time.Time{})
	if first[0] == recordTypeHandshake {
		return c.handshake()
	}
	if redirected {
		if err := c.checkMethod(); err != nil {
			return err
		}
		c.requests = c.life // decided for each request, see redirectedRequest
	}
	c.route.Target.Scheme = "http"
	c.http1 = newHTTP1Reader(c.socket, o.Limits.HeaderBytes)
	return nil
}

func (c *conn) handshake() error {
	ctx, cancel := context.WithCancelCause(c.life)
	defer cancel(nil)
	c.timer = time.AfterFunc(c.p.o.Limits.HandshakeTimeout, func() { cancel(context.DeadlineExceeded) })
	defer c.timer.Stop()
	over := tls.Server(c.socket, c.tls)
	if err := over.HandshakeContext(ctx); err != nil {
		c.p.o.Log.Debug("TLS handshake in a tunnel failed", zap.Stringer("target", c.route.Target), zap.Error(err))
		if c.refused == nil && c.denied == nil && ctx.Err() == nil && wire.HungUp(err) && c.trusts() {
			return errSilent // a spare connection that its client did not need
		}
		// Once ctx is done, its cause is the reason.
		return cmp.Or(c.refused, c.denied, handshakeRefusal(cmp.Or(context.Cause(ctx), err), c.route.Target))
	}
	c.trusted()
	if c.denied != nil && c.greet(over, c.denied) {
		return c.denied // recorded before
	}
	c.route.Intercepted = true
	c.Conn = over
	c.http1 = newHTTP1Reader(over, c.p.o.Limits.HeaderBytes)
	return nil
}

// client names the client that trusts the CA: the session of a listener, or an address.
func (c *conn) client() string {
	if c.session != "" {
		return c.session
	}
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host
}

// trusted remembers that the client has completed a handshake.
func (c *conn) trusted() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.trusting.Put(c.client(), struct{}{})
}

// trusts reports whether the client has completed a handshake before.
func (c *conn) trusts() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	_, ok := c.p.trusting.Get(c.client())
	return ok
}

// newTLS makes one configuration for all tunnels of a CA. crypto/tls rotates its session ticket keys.
func (p *Proxy) newTLS(ca *CA) *tls.Config {
	certificates := newLeaves(ca, p.o.Now)
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		Time:       p.o.Now,
		// Small records help clients on slow networks, and cost a system call each.
		DynamicRecordSizingDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c := hello.Conn.(*socket).conn
			c.refused = c.checkName(hello.ServerName)
			return nil, c.refused
		},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return certificates.certificate(hello.Conn.(*socket).conn.route.Target.Host)
		},
	}
}

// checkName compares the client's name (SNI) with the CONNECT's. A redirected connection goes to that name, and is
// decided here. A refusal waits for its first request, so that the agent can read it.
func (c *conn) checkName(name string) (err error) {
	if !c.route.Original.IsValid() {
		return checkSNI(name, c.route.Target)
	}
	if c.route.Target, err = c.route.named("https", name); err != nil {
		return err
	}
	// The decision does not use up the client's time.
	c.timer.Reset(c.p.o.Limits.HandshakeTimeout)
	defer c.timer.Reset(c.p.o.Limits.HandshakeTimeout)
	if c.denied = c.decide(connectRequest(c.route)); c.denied != nil {
		c.requests = c.life
	}
	return nil
}

// checkSNI refuses another name than the tunnel's. It may be absent for an IP address (RFC 6066 section 3).
func checkSNI(name string, pinned upstream.Target) error {
	if name == "" {
		if _, isIP := pinned.IP(); isIP {
			return nil
		}
		return refusal.New("target_mismatch", "the TLS handshake in the tunnel to %s names no host (SNI)", pinned.Host)
	}
	if host, port, err := upstream.ParseAuthority(name); err != nil || port != 0 || host != pinned.Host {
		return refusal.New("target_mismatch",
			"the TLS handshake names the host %.260q, but the tunnel is to %s", name, pinned.Host)
	}
	return nil
}

// handshakeRefusal gives the reason without quoting the client.
func handshakeRefusal(err error, target upstream.Target) error {
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.Canceled): // by our own Close
		return refusal.New("overloaded",
			"the connection to %s was closed before its TLS handshake, because its session ended or opened "+
				"too many connections", target.Host)
	case errors.Is(err, context.DeadlineExceeded):
		return refusal.New("tls_handshake_failed", "the TLS handshake in the tunnel to %s took too long", target.Host)
	}
	said, byClient := wire.HandshakeFailure(err, wire.Client)
	if byClient {
		said += "; does it trust the mediator's CA?"
	}
	return refusal.New("tls_handshake_failed", "the TLS handshake in the tunnel to %s failed: %s", target.Host, said)
}

// http2 returns the connection for net/http, which recognises HTTP/2 by the type *tls.Conn.
func (c *conn) http2() net.Conn {
	if over, ok := c.Conn.(*tls.Conn); ok && over.ConnectionState().NegotiatedProtocol == "h2" {
		return over
	}
	return c
}

// serveTunnelled checks a request inside a tunnel and gives it to the handler.
func (p *Proxy) serveTunnelled(w http.ResponseWriter, r *http.Request, route Route) {
	_, err := connOf(r.Context()).agent()
	if err == nil && route.Original.IsValid() && !route.Intercepted {
		r, route, err = p.redirectedRequest(r, route)
	}
	if err == nil {
		err = checkTunnelled(r, route)
	}
	if err != nil {
		w.Header().Set("Connection", "close") // over HTTP/2 too, gracefully
		p.o.Refuse(w, r, err)
		return
	}
	p.handle(w, r, route.Target)
}
