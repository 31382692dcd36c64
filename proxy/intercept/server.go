package intercept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Options are what a Proxy works with. CA, Handler, Connect, Refuse and Now are required: there is no default that lets
// anything through.
type Options struct {
	// CA signs the certificates of intercepted tunnels.
	CA *CA
	// Handler is the choke point. Every plain absolute-form request and every request inside a tunnel goes to it, with its Route
	// in the context, an absolute URL, and Proxy-Authorization and Proxy-Connection removed. The proxy itself forwards nothing.
	Handler http.Handler
	// Connect decides a CONNECT to t; r still has its headers, and a Route in its context. The context that it returns, which
	// should come from r's, is the base of every request inside the tunnel; once it is done the tunnel is closed. A tunnel
	// outlives the CONNECT, so r's context is not cancelled when Connect returns. An error refuses the CONNECT.
	Connect func(r *http.Request, t upstream.Target) (context.Context, error)
	// Refuse answers a request that will not reach Handler: a refused CONNECT, a target that does not agree, a request to the
	// proxy itself as to a server, a panic (an error without a code).
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Refused, if set, is told of a tunnel that ended before it could carry a request, where no answer could be written: a TLS
	// handshake for another host than the CONNECT's, or one that failed. A client that opens a tunnel, sends nothing and goes
	// is not reported.
	Refused func(ctx context.Context, t upstream.Target, err error)
	// Probe, if set, is told where a redirected connection was made to, and by whom. True ends the connection: it was made to see
	// whether connections are redirected at all.
	Probe func(original netip.AddrPort, from net.Addr) bool
	// Original returns where a redirected connection was made to; nil asks the kernel (SO_ORIGINAL_DST).
	Original func(net.Conn) (netip.AddrPort, error)
	// Log is optional.
	Log *zap.Logger
	// Limits may be left zero, field by field.
	Limits Limits
	// Now judges and stamps certificates.
	Now func() time.Time
}

// Limits bound what a client can hold. They are generous: shorter timeouts broke users of other proxies.
type Limits struct {
	HeaderTimeout    time.Duration // for the first header of a connection, the first byte in a tunnel, and the rest of a refused body; 60 s if 0
	HandshakeTimeout time.Duration // for the TLS handshake in a tunnel; 15 s if 0
	IdleTimeout      time.Duration // for a connection from one request to the next header; 5 min if 0
	WriteTimeout     time.Duration // for a client that takes nothing of what is written to it; 5 min if 0
	HeaderBytes      int           // of a request's header, with 32 more for each line; 64 KiB if 0
	Connections      int           // open at once; further ones wait to be accepted; 4096 if 0
	Tunnels          int           // open at once; further CONNECTs are refused (too_many_tunnels); 2048 if 0
	Streams          int           // HTTP/2 streams of one tunnel at once; 250 if 0
}

// Check says what makes no sense.
func (l Limits) Check() error {
	if min(l.HeaderTimeout, l.HandshakeTimeout, l.IdleTimeout, l.WriteTimeout) < 0 || min(l.HeaderBytes, l.Connections, l.Tunnels, l.Streams) < 0 {
		return errors.New("a limit of connections is negative")
	}
	return nil
}

// Files is how many files the agents' connections take.
func (l Limits) Files() uint64 {
	l.setDefaults()
	return uint64(l.Connections)
}

func (l *Limits) setDefaults() {
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, time.Minute)
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 15*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 5*time.Minute)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 5*time.Minute)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 64<<10)
	l.Connections = cmp.Or(l.Connections, 4096)
	l.Tunnels = cmp.Or(l.Tunnels, 2048)
	l.Streams = cmp.Or(l.Streams, 250)
}

// Proxy is the connection layer: it takes connections from agents, terminates TLS inside their tunnels, and gives every request
// to one Handler.
type Proxy struct {
	o       Options
	server  *http.Server
	connect *goproxy.ProxyHttpServer
	tunnels *tunnels
	serving sync.Once
}

// New checks o and makes a proxy.
func New(o Options) (*Proxy, error) {
	if o.CA == nil || o.Handler == nil || o.Connect == nil || o.Refuse == nil || o.Now == nil {
		return nil, errors.New("intercept: Options needs CA, Handler, Connect, Refuse and Now")
	}
	if err := o.Limits.Check(); err != nil {
		return nil, fmt.Errorf("intercept: %w", err)
	}
	o.Limits.setDefaults()
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Refused == nil {
		o.Refused = func(context.Context, upstream.Target, error) {}
	}
	if o.Original == nil {
		o.Original = originalDestination
	}
	p := &Proxy{o: o}
	p.tunnels = newTunnels(&p.o, recovering(&p.o, refusing(&p.o, p.serveTunnel)))
	p.connect = p.newConnectDispatch()
	p.server = newServer(&p.o, recovering(&p.o, refusing(&p.o, p.serve)))
	p.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, strictKey{}, c) }
	// HTTP/1.1 alone: a CONNECT over HTTP/2 is a stream, not a connection that could be handed over.
	p.server.Protocols = new(http.Protocols)
	p.server.Protocols.SetHTTP1(true)
	return p, nil
}

func newServer(o *Options, h http.Handler) *http.Server {
	errorLog, err := zap.NewStdLogAt(o.Log, zap.DebugLevel)
	if err != nil {
		errorLog = zap.NewStdLog(zap.NewNop())
	}
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            o.Limits.HeaderTimeout,
		IdleTimeout:                  o.Limits.IdleTimeout,
		MaxHeaderBytes:               o.Limits.HeaderBytes,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is a request like any other
		ErrorLog:                     errorLog,
		// No ReadTimeout or WriteTimeout: uploads and event streams may take any time. They end with their client.
	}
}

// Serve takes connections from l until Shutdown, then returns nil at once, while Shutdown goes on. It may be called for several
// listeners; Limits.Connections is for each.
func (p *Proxy) Serve(l net.Listener) error {
	p.serving.Do(p.tunnels.start)
	if err := p.server.Serve(strictListener{Listener: newLimitListener(l, &p.o), limit: p.o.Limits.HeaderBytes}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("intercept: %w", err)
	}
	return nil
}

// Shutdown stops accepting, closes idle connections and tunnels, and waits for running requests. When ctx is done it cuts those
// that are left and returns ctx's error.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.tunnels.refuse() // before the listeners close, so that whoever finds them gone gets no tunnel
	inner := make(chan error, 1)
	go func() { inner <- p.tunnels.shutdown(ctx) }()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	return errors.Join(err, <-inner)
}

// serve takes a request on the proxy's own port.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.serveConnect(w, r)
	case r.ProtoMajor != 1 || r.URL.Host == "" && r.RequestURI != "" && r.RequestURI[0] != '/':
		// "PRI * HTTP/2.0", "OPTIONS *", "GET mailto:a@b"
		p.o.Refuse(w, r, refusal.New("target_invalid", "the request target is neither absolute nor a path"))
	case r.URL.Host == "" && r.URL.Scheme == "":
		p.o.Refuse(w, r, refusal.New("not_a_proxy_request", "this port is a proxy; send it requests by way of HTTP_PROXY and HTTPS_PROXY"))
	default:
		p.servePlain(w, r)
	}
}

// servePlain takes an absolute-form request to the Handler. It does not go through goproxy, whose plain path removes
// Accept-Encoding, forwards on its own, and copies the response without flushing.
func (p *Proxy) servePlain(w http.ResponseWriter, r *http.Request) {
	t, err := parseRequest(r)
	if err != nil {
		p.o.Refuse(w, r, err)
		return
	}
	ctx := WithRoute(r.Context(), Route{Target: t, ProxyAuthorization: r.Header.Get("Proxy-Authorization"), RemoteAddr: r.RemoteAddr})
	p.handle(w, r.WithContext(ctx), t)
}

// handle gives a request to the Handler in one form, however it came.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request, t upstream.Target) {
	stripProxyHeaders(r.Header)
	delete(r.Header, "Host")
	authority := t.Authority()
	r.URL.Scheme, r.URL.Host, r.Host = t.Scheme, authority, authority
	if r.URL.Path == "" {
		r.URL.Path = "/" // an absolute-form target may end with its authority (RFC 9112 section 3.2.2)
	}
	p.o.Handler.ServeHTTP(w, r)
}

// stripProxyHeaders removes what a client says to its proxy, which no upstream may see (RFC 9110 section 11.7).
func stripProxyHeaders(h http.Header) {
	h.Del("Proxy-Authorization")
	h.Del("Proxy-Connection")
}

// serveConnect decides a CONNECT and hands its connection over.
func (p *Proxy) serveConnect(w http.ResponseWriter, r *http.Request) {
	t, err := p.openTunnel(r)
	if err != nil {
		p.refuseConnect(w, r, err)
		return
	}
	defer t.settle()
	if err := p.tunnels.decide(t, r); err != nil {
		p.refuseConnect(w, r, err)
		return
	}
	p.connect.ServeHTTP(hijackable{w}, r.WithContext(context.WithValue(r.Context(), pendingKey{}, t)))
}

func (p *Proxy) openTunnel(r *http.Request) (*tunnel, error) {
	if r.ProtoMajor != 1 {
		return nil, refusal.New("connect_malformed", "CONNECT is taken over HTTP/1.1 only")
	}
	if r.ContentLength != 0 {
		return nil, refusal.New("connect_malformed", "the CONNECT has a body")
	}
	target, err := upstream.ParseConnect(r.RequestURI)
	if err != nil {
		return nil, err
	}
	return p.tunnels.open(WithRoute(r.Context(), Route{Target: target, ProxyAuthorization: r.Header.Get("Proxy-Authorization"), RemoteAddr: r.RemoteAddr}))
}

func (p *Proxy) refuseConnect(w http.ResponseWriter, r *http.Request, err error) {
	// What the client sent along, believing in the tunnel, must not be read as its next request.
	w.Header().Set("Connection", "close")
	p.o.Refuse(w, r, err)
}
