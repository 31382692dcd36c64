package intercept

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Options are the parts of a Proxy. CA, Handler, Connect, Refuse and Now are required: no default lets anything
// through.
type Options struct {
	CA *CA
	// Handler judges and answers every plain absolute-form request and every request inside a tunnel. It gets a Route
	// in the context and an absolute URL, and no Proxy-Authorization or Proxy-Connection.
	Handler http.Handler
	// Connect decides a CONNECT to t; r has its headers, and a Route in its context. An error refuses it. The returned
	// context, derived from r's, is the base of every request inside the tunnel; its end closes the tunnel.
	Connect func(r *http.Request, t upstream.Target) (context.Context, error)
	// Refuse answers a request that does not reach Handler: a refused CONNECT, a target that does not agree, a request
	// to the proxy as to a server, a panic (an error without a code). If w has a method SetReason(string), it sets the
	// status line's reason phrase.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Refused, if set, reports a tunnel that ended before its first request, such as by a failed TLS handshake. ctx
	// has its route. Clients that send nothing are not reported.
	Refused func(ctx context.Context, err error)
	// Probe, if set, gets the original destination and the client of each redirected connection. True ends it: it only
	// tested the redirection.
	Probe func(original netip.AddrPort, from net.Addr) bool
	// Agent, if set, names the agent's pod at the other end of a connection to a shared listener. Its error refuses the
	// request.
	Agent func(net.Conn) (string, error)
	// Original returns the destination of a redirected connection; nil asks the kernel (SO_ORIGINAL_DST).
	Original func(net.Conn) (to netip.AddrPort, redirected bool)
	// Party names the owner of a tunnel: no party holds more tunnels than it leaves free ([share.Pool]). The default is
	// the listener's session.
	Party  func(Route) string
	Log    *zap.Logger
	Limits Limits
	// Now judges and dates certificates.
	Now func() time.Time
}

// Limits bound what a client can hold. They are generous: shorter timeouts broke users of other proxies.
type Limits struct {
	// HeaderTimeout bounds the first header of a connection, the first byte in a tunnel, and the rest of a refused
	// body; 60 s if 0.
	HeaderTimeout    time.Duration
	HandshakeTimeout time.Duration // of TLS in a tunnel; 15 s if 0
	IdleTimeout      time.Duration // from one request to the next header; 5 min if 0
	WriteTimeout     time.Duration // of a write that the client does not read; 5 min if 0
	AgentCheck       time.Duration // between two checks of the agent of an open connection; 1 min if 0
	HeaderBytes      int           // of a request, each line counting 32 more; 64 KiB if 0
	// Connections bounds the open connections of each shared listener, and of all sessions' listeners together; 4096 if
	// 0, and a sixteenth for one session's. At a full listener a new one replaces one that waits for its client; others
	// wait. It also bounds the requests over HTTP/2 in progress.
	Connections int
	Tunnels     int // open tunnels; further CONNECTs are refused (overloaded); 2048 if 0
	Streams     int // HTTP/2 streams of one tunnel; 250 if 0
}

// Check refuses values that make no sense.
func (l Limits) Check() error {
	if min(l.HeaderTimeout, l.HandshakeTimeout, l.IdleTimeout, l.WriteTimeout, l.AgentCheck) < 0 ||
		min(l.HeaderBytes, l.Connections, l.Tunnels, l.Streams) < 0 {
		return errors.New("a limit of connections is negative")
	}
	return nil
}

// Files is the number of files for the agents' connections.
func (l Limits) Files() uint64 {
	l.setDefaults()
	return 2 * uint64(l.Connections) // the shared listener's and the sessions'
}

func (l *Limits) setDefaults() {
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, time.Minute)
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 15*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 5*time.Minute)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 5*time.Minute)
	l.AgentCheck = cmp.Or(l.AgentCheck, time.Minute)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 64<<10)
	l.Connections = cmp.Or(l.Connections, 4096)
	l.Tunnels = cmp.Or(l.Tunnels, 2048)
	l.Streams = cmp.Or(l.Streams, 250)
}

// Proxy takes connections from agents, terminates TLS in their tunnels, and gives every request to one Handler.
type Proxy struct {
	o        Options
	server   *http.Server // of plain connections and of the tunnels' insides
	dispatch http.Handler // goproxy, see newDispatch
	tunnels  *tunnelListener
	tls      *tls.Config // of tunnels
	begin    sync.Once   // begins to serve tunnels
	// ofSessions counts the connections to sessions' own listeners.
	ofSessions share.Pool
	// streams counts the requests over HTTP/2 in progress: each holds its header until its client takes the answer.
	streams share.Pool

	// stopping ends when Shutdown begins: other protocols, and tunnels without requests, are cut.
	stopping context.Context
	stop     context.CancelFunc
	// Both grow under mu, and no more once closed.
	serving  sync.WaitGroup // accepting tunnels
	starting sync.WaitGroup // starting tunnels and other protocols, for which net/http does not wait

	mu     sync.Mutex // guards all below
	open   share.Pool // tunnels
	closed bool
	// trusting are sessions, or else addresses of clients, that have completed a handshake.
	trusting *lru.Cache[string, struct{}]
}

const maxTrusting = 4096

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
		o.Refused = func(context.Context, error) {}
	}
	if o.Party == nil {
		o.Party = func(r Route) string { return r.Session }
	}
	if o.Original == nil {
		o.Original = originalDestination
	}
	p := &Proxy{o: o, trusting: lru.New[string, struct{}](maxTrusting),
		tunnels: &tunnelListener{conns: make(chan net.Conn), closed: make(chan struct{})}}
	p.stopping, p.stop = context.WithCancel(context.Background())
	p.dispatch = p.newDispatch()
	p.tls = p.newTLS(o.CA)
	p.server = p.newServer()
	return p, nil
}

func (p *Proxy) newServer() *http.Server {
	errorLog, err := zap.NewStdLogAt(p.o.Log, zap.DebugLevel)
	if err != nil {
		errorLog = zap.NewStdLog(zap.NewNop())
	}
	s := &http.Server{
		Handler:                      recovering(&p.o, p.request),
		ConnContext:                  p.context,
		ConnState:                    changed,
		ReadHeaderTimeout:            p.o.Limits.HeaderTimeout,
		IdleTimeout:                  p.o.Limits.IdleTimeout,
		MaxHeaderBytes:               p.o.Limits.HeaderBytes,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is a request like any other
		ErrorLog:                     errorLog,
		// No ReadTimeout or WriteTimeout: uploads and event streams may take any time, and end with their client.
		Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: p.o.Limits.Streams,
			MaxReadFrameSize:     16 << 10, // net/http keeps a buffer of the largest frame per connection
			// What an agent may send ahead of a slow upstream. One stalled stream leaves room for others.
			MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
		},
	}
	// HTTP/2 is for TLS in tunnels only. http1Reader refuses it elsewhere.
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	return s
}

// Serve takes connections from l until Shutdown begins, and then returns nil at once.
func (p *Proxy) Serve(l net.Listener) error {
	return p.serve(newLimitListener(context.Background(), l, p, ""))
}

func (p *Proxy) serve(l *limitListener) error {
	p.begin.Do(p.serveTunnels)
	if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("intercept: %w", err)
	}
	return nil
}

// ServeSession is like Serve for connections that all belong to one session, which each request's Route names. ca, if
// set, signs the certificates of its tunnels. When ctx ends, l and its connections are closed.
func (p *Proxy) ServeSession(ctx context.Context, l net.Listener, session string, ca *CA) error {
	own := newLimitListener(ctx, l, p, session)
	if ca != nil {
		own.tls = p.newTLS(ca)
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(closed); _ = own.Close() })
	err := p.serve(own)
	if !stop() {
		<-closed // Serve may return while the socket is still open
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *Proxy) serveTunnels() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.serving.Go(func() {
		if err := p.server.Serve(p.tunnels); !errors.Is(err, http.ErrServerClosed) {
			p.o.Log.Error("the tunnels' server ended", zap.Error(err))
		}
	})
}

// Shutdown stops accepting, closes idle connections, tunnels and other protocols, and waits for running requests. When
// ctx ends it cuts the rest and returns ctx's error.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true // before the listeners close, so that no client gets a tunnel afterwards
	p.mu.Unlock()
	p.stop()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	p.serving.Wait()
	started := make(chan struct{})
	go func() { p.starting.Wait(); close(started) }() // ends soon: Options.Connect heeds its context
	select {
	case <-started:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return err
}
