package intercept

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/upstream"
)

// recordTypeHandshake is the first byte of every TLS connection (RFC 8446 section 5.1), and of no HTTP request.
const recordTypeHandshake = 0x16

// tunnels terminates what clients send inside their tunnels and serves it, all tunnels by one http.Server.
//
// TLS is always terminated: what cannot be read ends the tunnel, and nothing is ever passed on unread. Cleartext HTTP is
// served too, because some clients open a tunnel for http: URLs as well. Its requests have the scheme http in their target, so
// that a rule for https never matches them; on port 443 they are refused outright, because there a credential that was meant
// for TLS would go over the network in clear.
type tunnels struct {
	o      *Options
	leaves *leaves
	tls    *tls.Config
	server *http.Server
	conns  *connListener
	lastID atomic.Uint64

	// stopping is done once shutdown has begun: tunnels that do not carry requests yet are cut.
	stopping context.Context
	stop     context.CancelFunc
	// Both grow under mu, and not once closed.
	serving  sync.WaitGroup // the server's accept loop
	starting sync.WaitGroup // tunnels that do not carry requests yet

	mu     sync.Mutex // guards both below
	count  int        // tunnels that are open
	closed bool
}

func newTunnels(o *Options, h http.Handler) *tunnels {
	s := &tunnels{o: o, leaves: newLeaves(o.CA, o.Now), conns: newConnListener()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	// One configuration for all tunnels, which learns from the connection whose tunnel it is in: session ticket keys belong to a
	// configuration, and crypto/tls rotates them.
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		Time:       o.Now,
		// Small records are for clients behind slow networks, and cost a system call each.
		DynamicRecordSizingDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.leaves.certificate(hello.Conn.(*tunnel).route.Target.Host)
		},
	}
	loopback := s.tls.Clone()
	loopback.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	s.tls.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := checkSNI(hello.ServerName, hello.Conn.(*tunnel).route.Target); err != nil {
			return nil, err
		}
		if isLoopback(hello.Conn.LocalAddr()) && slices.Contains(hello.SupportedCurves, tls.X25519) {
			return loopback, nil
		}
		return nil, nil
	}
	s.server = newServer(o, h)
	s.server.Protocols = new(http.Protocols)
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetHTTP2(true)
	s.server.Protocols.SetUnencryptedHTTP2(true) // with prior knowledge (RFC 9113 section 3.3); "Upgrade: h2c" is refused like any other
	s.server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: o.Limits.Streams,
		// net/http keeps the largest frame's buffer for as long as a connection lives, by default up to 1 MiB.
		MaxReadFrameSize: 16 << 10,
		// What an agent may send ahead of an upstream that does not take it. One stream that stands still leaves the others room.
		MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
	}
	s.server.ConnContext = connContext
	return s
}

// isLoopback reports whether what was sent to a has never been outside of this network namespace: the kernel drops what comes from elsewhere
// (RFC 1122 section 3.2.1.3). There, a post-quantum key exchange protects from nobody, and costs either end a tenth of a handshake.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// connContext gives every request of a tunnel the context that Connect returned for it, and the tunnel's route.
func connContext(ctx context.Context, c net.Conn) context.Context {
	var t *tunnel
	var route Route
	strict := c
	c = strictBelow(c)
	if over, ok := c.(*tls.Conn); ok {
		t = over.NetConn().(*tunnel)
		route = t.route
		route.Intercepted = true
	} else {
		t = c.(*tunnel)
		route = t.route
		route.Target.Scheme = "http"
	}
	ctx = context.WithValue(t.ctx, http.ServerContextKey, ctx.Value(http.ServerContextKey))
	return WithRoute(context.WithValue(ctx, strictKey{}, strict), route)
}

// checkSNI holds the name that a TLS client asks for against the tunnel's. Only for an IP address may it be absent, where
// RFC 6066 section 3 has no name to send.
func checkSNI(name string, pinned upstream.Target) error {
	if name == "" {
		if _, isIP := pinned.IP(); isIP {
			return nil
		}
		return refusal.New("target_mismatch", "the TLS handshake in the tunnel to %s names no host (SNI)", pinned.Host)
	}
	if host, port, err := upstream.ParseAuthority(name); err != nil || port != 0 || host != pinned.Host {
		return refusal.New("target_mismatch", "the TLS handshake names the host %.260q, but the tunnel is to %s", name, pinned.Host)
	}
	return nil
}

// start serves, unless a shutdown has come before.
func (s *tunnels) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.serving.Go(func() {
		if err := s.server.Serve(strictListener{Listener: s.conns, limit: s.o.Limits.HeaderBytes, priorKnowledge: true}); !errors.Is(err, http.ErrServerClosed) {
			s.o.Log.Error("the tunnels' server ended", zap.Error(err))
		}
	})
}

// refuse begins a shutdown: no tunnel is opened from now on, and those that carry no requests yet are cut.
func (s *tunnels) refuse() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
}

// shutdown ends what refuse began. It is bounded by ctx; what is still open then is cut.
func (s *tunnels) shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	s.serving.Wait()
	started := make(chan struct{})
	go func() { s.starting.Wait(); close(started) }() // ends as soon as Options.Connect heeds its context
	select {
	case <-started:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return err
}

// tunnel is one CONNECT or redirected connection, and the client's connection from when it was allowed. Closing it is safe at any time.
type tunnel struct {
	*headConn // nil until the connection has been taken over
	tunnels   *tunnels
	route     Route
	ctx       context.Context // done once the tunnel is closed
	cancel    context.CancelFunc
	served    bool // handed over to the server, which closes it from then on
	once      sync.Once
}

// open reserves a place for a tunnel of the route in ctx; settle ends what open began.
func (s *tunnels) open(ctx context.Context) (*tunnel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, refusal.New("shutting_down", "the mediator is shutting down")
	}
	if s.count >= s.o.Limits.Tunnels {
		return nil, refusal.New("too_many_tunnels", "%d tunnels are open already", s.count)
	}
	s.count++
	s.starting.Add(1)
	t := &tunnel{tunnels: s}
	t.route, _ = RouteFrom(ctx)
	t.route.Tunnel = TunnelID(s.lastID.Add(1))
	// Not cancelled with the CONNECT, which net/http counts as done when its connection has been taken over.
	t.ctx, t.cancel = context.WithCancel(WithRoute(context.WithoutCancel(ctx), t.route))
	return t, nil
}

// decide asks Options.Connect. Until it answers, a client that goes away and a shutdown cancel its context.
func (s *tunnels) decide(t *tunnel, r *http.Request) error {
	stopGone := context.AfterFunc(r.Context(), t.cancel)
	stopDown := context.AfterFunc(s.stopping, t.cancel)
	base, err := s.o.Connect(r.WithContext(t.ctx), t.route.Target)
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
	deciding := t.cancel
	ctx, cancel := context.WithCancel(base)
	t.ctx, t.cancel = ctx, func() { cancel(); deciding() }
	return nil
}

// settle is called when a tunnel carries requests or never will.
func (t *tunnel) settle() {
	if !t.served {
		_ = t.Close()
	}
	t.tunnels.starting.Done()
}

// Close ends the tunnel and gives its place back. Only the first call does anything.
func (t *tunnel) Close() (err error) {
	t.once.Do(func() {
		t.tunnels.mu.Lock()
		t.tunnels.count--
		t.tunnels.mu.Unlock()
		t.cancel()
		if t.headConn != nil {
			err = t.headConn.Close()
		}
	})
	return err
}

// run answers the CONNECT on the connection that goproxy took over, and brings the tunnel to where the server can take it.
func (s *tunnels) run(t *tunnel) {
	context.AfterFunc(t.ctx, func() { _ = t.Close() }) // whoever made the context that Connect returned can end the tunnel
	conn, err := s.establish(t)
	switch {
	case err != nil && s.stopping.Err() == nil:
		s.o.Refused(t.ctx, t.route.Target, err)
	case conn != nil:
		t.served = s.conns.deliver(conn)
	}
}

// establish returns the connection to serve: TLS or cleartext. Nil without an error is a client that sent nothing.
func (s *tunnels) establish(t *tunnel) (net.Conn, error) {
	first, ok := s.firstByte(t)
	if !ok {
		return nil, nil
	}
	if first != recordTypeHandshake {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(t.ctx, s.o.Limits.HandshakeTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	conn := tls.Server(t, s.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		s.o.Log.Debug("TLS handshake in a tunnel failed", zap.Stringer("target", t.route.Target), zap.Error(err))
		return nil, handshakeRefusal(err, t.route.Target)
	}
	return conn, nil
}

// firstByte tells the client that the tunnel is open, if it asked for one, and waits for what it begins with.
func (s *tunnels) firstByte(t *tunnel) (first byte, ok bool) {
	ctx, cancel := context.WithTimeout(t.ctx, s.o.Limits.HeaderTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	open := context.AfterFunc(ctx, func() { _ = t.Close() })
	if !t.route.Original.IsValid() {
		if _, err := t.Write([]byte("HTTP/1.1 200 Connection Established\r\n\r\n")); err != nil {
			return 0, false
		}
	}
	first, err := t.peek()
	return first, open() && err == nil
}

// handshakeRefusal says what failed without quoting what the client sent.
func handshakeRefusal(err error, target upstream.Target) error {
	var refused *refusal.Refusal
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return refusal.New("tls_handshake_failed", "the TLS handshake in the tunnel to %s took too long", target.Host)
	case errors.As(err, &op) && op.Op == "remote error": // an alert, one of a fixed set of texts
		return refusal.New("tls_handshake_failed", "the client ended the TLS handshake in the tunnel to %s (%s); does it trust the mediator's CA?", target.Host, op.Err)
	}
	return refusal.New("tls_handshake_failed", "the TLS handshake in the tunnel to %s failed", target.Host)
}

// serveTunnel takes a request inside a tunnel.
func (p *Proxy) serveTunnel(w http.ResponseWriter, r *http.Request) {
	route, _ := RouteFrom(r.Context())
	var err error
	if route.Original.IsValid() && !route.Intercepted {
		r, route, err = p.redirectedRequest(r, route)
	}
	if err == nil {
		err = checkInner(r, route)
	}
	if err != nil {
		// Whoever sends one such request in a tunnel is not served another: in HTTP/2 this ends the connection gracefully.
		w.Header().Set("Connection", "close")
		p.o.Refuse(w, r, err)
		return
	}
	p.handle(w, r, route.Target)
}

func checkInner(r *http.Request, route Route) error {
	switch {
	case !wire.IsMethod(r.Method): // of HTTP/2, where it can be any text
		return refusal.New("request_malformed", "the method is not in capitals")
	case !route.Intercepted && route.Target.Port == 443:
		return refusal.New("cleartext_refused", "the tunnel to %s carries HTTP without TLS", route.Target.Address())
	case r.Method == http.MethodConnect:
		return refusal.New("connect_malformed", "a CONNECT inside a tunnel is not taken")
	case r.RequestURI == "*" || r.URL == nil || r.URL.Host == "" && !strings.HasPrefix(r.URL.Path, "/"):
		return refusal.New("target_invalid", "the request target is neither absolute nor a path")
	}
	return agree(r, route.Target)
}
