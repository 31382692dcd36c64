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

	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Options are what a Proxy works with. CA, Handler, Connect, Refuse and Now are required: there is no default that lets
// anything through.
type Options struct {
	// CA signs the certificates of intercepted tunnels.
	CA *CA
	// Handler judges and answers. Every plain absolute-form request and every request inside a tunnel goes to it, with its
	// Route in the context, an absolute URL, and Proxy-Authorization and Proxy-Connection removed. The proxy itself
	// forwards nothing.
	Handler http.Handler
	// Connect decides a CONNECT to t; r still has its headers, and a Route in its context. The context that it returns,
	// which should come from r's, is the base of every request inside the tunnel; once it is done the tunnel is closed. A
	// tunnel outlives the CONNECT, so r's context is not cancelled when Connect returns. An error refuses the CONNECT.
	Connect func(r *http.Request, t upstream.Target) (context.Context, error)
	// Refuse answers a request that will not reach Handler: a refused CONNECT, a target that does not agree, a request to
	// the proxy itself as to a server, a panic (an error without a code). Where w has a method SetReason(string), it sets the reason
	// phrase of the status line.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Refused, if set, is told of a tunnel that ended before it could carry a request, where no answer could be written: a
	// TLS handshake for another host than the CONNECT's, or one that failed. A client that opens a tunnel, sends nothing
	// and goes is not reported.
	Refused func(ctx context.Context, t upstream.Target, err error)
	// Probe, if set, is told where a redirected connection was made to, and by whom. True ends the connection: it was made
	// to see whether connections are redirected at all.
	Probe func(original netip.AddrPort, from net.Addr) bool
	// Original returns where a redirected connection was made to; nil asks the kernel (SO_ORIGINAL_DST).
	Original func(net.Conn) (netip.AddrPort, error)
	// Party names for whom a tunnel counts: no party holds more tunnels than it leaves free ([share.Pool]). By default that is
	// the session of the listener.
	Party func(Route) string
	// Log is optional.
	Log *zap.Logger
	// Limits may be left zero, field by field.
	Limits Limits
	// Now judges and stamps certificates.
	Now func() time.Time
}

// Limits bound what a client can hold. They are generous: shorter timeouts broke users of other proxies.
type Limits struct {
	// HeaderTimeout is for the first header of a connection, the first byte in a tunnel, and the rest of a refused body;
	// 60 s if 0.
	HeaderTimeout    time.Duration
	HandshakeTimeout time.Duration // for the TLS handshake in a tunnel; 15 s if 0
	IdleTimeout      time.Duration // for a connection from one request to the next header; 5 min if 0
	WriteTimeout     time.Duration // for a client that takes nothing of what is written to it; 5 min if 0
	HeaderBytes      int           // of a request's header, with 32 more for each line; 64 KiB if 0
	// Connections are those open at once, at each listener and at those of all sessions together; 4096 if 0. At a full
	// listener that sessions share, a new one takes the place of one that waits for its client; others wait.
	Connections int
	Tunnels     int // open at once; further CONNECTs are refused (overloaded); 2048 if 0
	Streams     int // HTTP/2 streams of one tunnel at once; 250 if 0
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
	return 2 * uint64(l.Connections) // at the shared listener, and at those of sessions
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

// Proxy takes connections from agents, terminates TLS inside their tunnels, and gives every request to one Handler.
type Proxy struct {
	o        Options
	server   *http.Server // of the connections to the proxy, and of what is inside the tunnels
	dispatch http.Handler // goproxy, see newDispatch
	tunnels  *tunnelListener
	tls      *tls.Config // of all tunnels
	begin    sync.Once   // serving tunnels
	// ofSessions holds the connections to the listeners that sessions have of their own.
	ofSessions share.Pool

	// stopping is done once Shutdown has begun: tunnels that do not carry requests yet are cut, and other protocols.
	stopping context.Context
	stop     context.CancelFunc
	// Both grow under mu, and not once closed.
	serving  sync.WaitGroup // accepting tunnels
	starting sync.WaitGroup // what net/http does not wait for: tunnels that carry no requests yet, and other protocols

	mu         sync.Mutex // guards all below
	open       share.Pool // tunnels
	lastTunnel TunnelID
	closed     bool
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
	if o.Party == nil {
		o.Party = func(r Route) string { return r.Session }
	}
	if o.Original == nil {
		o.Original = originalDestination
	}
	p := &Proxy{o: o, tunnels: newTunnelListener()}
	p.stopping, p.stop = context.WithCancel(context.Background())
	p.dispatch = p.newDispatch()
	p.tls = p.newTLS()
	p.server = p.newServer()
	return p, nil
}

func (p *Proxy) newServer() *http.Server {
	errorLog, err := zap.NewStdLogAt(p.o.Log, zap.DebugLevel)
	if err != nil {
		errorLog = zap.NewStdLog(zap.NewNop())
	}
	s := &http.Server{
		Handler:                      recovering(&p.o, p.serve),
		ConnContext:                  p.context,
		ConnState:                    changed,
		ReadHeaderTimeout:            p.o.Limits.HeaderTimeout,
		IdleTimeout:                  p.o.Limits.IdleTimeout,
		MaxHeaderBytes:               p.o.Limits.HeaderBytes,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is a request like any other
		ErrorLog:                     errorLog,
		// No ReadTimeout or WriteTimeout: uploads and event streams may take any time. They end with their client.
		Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: p.o.Limits.Streams,
			// net/http keeps the largest frame's buffer for as long as a connection lives, by default up to 1 MiB.
			MaxReadFrameSize: 16 << 10,
			// What an agent may send ahead of an upstream that does not take it. One stream that stands still leaves the others
			// room.
			MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
		},
	}
	// HTTP/2 is for tunnels alone: over TLS, or with prior knowledge (RFC 9113 section 3.3). To the proxy itself it cannot
	// be spoken, because a CONNECT over HTTP/2 is a stream and no connection that could be handed over: http1Reader
	// refuses the preface there.
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// Serve takes connections from l until Shutdown, then returns nil at once, while Shutdown goes on. It may be called for
// several listeners; Limits.Connections is for each.
func (p *Proxy) Serve(l net.Listener) error {
	p.begin.Do(p.serveTunnels)
	if err := p.server.Serve(newLimitListener(l, p)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("intercept: %w", err)
	}
	return nil
}

// ServeSession takes connections from l as Serve does, until ctx ends too. All of them belong to one session, which the
// Route of each request names. When ctx ends, l and its connections are closed.
func (p *Proxy) ServeSession(ctx context.Context, l net.Listener, session string) error {
	p.begin.Do(p.serveTunnels)
	own := newSessionListener(ctx, l, p, session)
	defer context.AfterFunc(ctx, func() { _ = own.Close() })()
	err := p.server.Serve(own)
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("intercept: %w", err)
}

// serveTunnels serves what is inside the tunnels, unless a shutdown has come before.
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

// Shutdown stops accepting, closes idle connections and tunnels and those that have switched to another protocol, and
// waits for running requests. When ctx is done it cuts those that are left and returns ctx's error.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true // before the listeners close, so that a client that finds them gone gets no tunnel
	p.mu.Unlock()
	p.stop()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	p.serving.Wait()
	started := make(chan struct{})
	go func() { p.starting.Wait(); close(started) }() // ends as soon as Options.Connect heeds its context
	select {
	case <-started:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return err
}
