package endpoint

import (
	"cmp"
	"context"
	stdlog "log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

// Limits limit the clients of a listener. Zero is no limit.
type Limits struct {
	Connections int           // open at once; a further one replaces one that waits for its client, or waits
	PerAddress  int           // of them from one address; a further one replaces one of these, or is closed
	Header      time.Duration // from the connection or a request's first byte to the end of the header; 30 s if 0
	Request     time.Duration // from the first byte of a request to the last of its answer
}

// PublicLimits bounds a port that everyone can reach: silent clients must not exhaust the process or keep others out.
var PublicLimits = Limits{Connections: 512, PerAddress: 128, Header: 10 * time.Second, Request: 20 * time.Second}

// endpointLimits bounds a TCP endpoint. A sidecar can have a connection for each call in flight, and a request may wait
// for an event: one that is taken over, with requests that never end, must not keep others out.
var endpointLimits = Limits{Connections: 4096, PerAddress: 1024}

// linger bounds how long an endpoint at a TCP address still answers when its process ends. A replica takes its place:
// a caller that sends on a kept connection while that is closed would fail, and may not repeat its request.
const linger = 5 * time.Second

// leaving closes a connection after its next answer once ctx has ended.
func leaving(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// awaitLeft waits until no connection is open, at most linger.
func awaitLeft(open *atomic.Int64) {
	end := time.After(linger)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for open.Load() > 0 {
		select {
		case <-end:
			return
		case <-look.C:
		}
	}
}

// Serve serves h on l until ctx ends. Then it waits at most grace for open requests, at an endpoint's TCP address after
// its callers have left.
func Serve(ctx context.Context, l net.Listener, h http.Handler, b Limits, grace time.Duration, log *zap.Logger) error {
	if b.Connections > 0 {
		l = newBoundedListener(l, b, log)
	} else if l.Addr().Network() == "tcp" {
		h = inTime(h)
	}
	s := &http.Server{
		Handler: leaving(ctx, handling(h)), ReadHeaderTimeout: cmp.Or(b.Header, 30*time.Second),
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ReadTimeout: b.Request, WriteTimeout: b.Request,
		ErrorLog: stdlog.New(logs.Handshakes{To: flood.Logger(log)}, "", 0),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endingKey{}, ctx)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	var open atomic.Int64
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if l.Addr().Network() == "tcp" && b == (Limits{}) {
		awaitLeft(&open)
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := s.Shutdown(wait); err != nil {
		s.Close()
	}
	<-done
	return nil
}

type endingKey struct{}

// UntilEnding returns a context that ends with that of a request, or when its server begins to end: a request that
// waits must not hold that up.
func UntilEnding(ctx context.Context) (context.Context, context.CancelFunc) {
	server, ok := ctx.Value(endingKey{}).(context.Context)
	ctx, cancel := context.WithCancel(ctx)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(server, cancel)
	return ctx, func() { stop(); cancel() }
}

// LateHandler answers not_ready until it gets its handler. A process publishes its keys before they are certified, and
// can work only afterwards.
type LateHandler struct{ h atomic.Pointer[http.Handler] }

// Set sets the handler.
func (l *LateHandler) Set(h http.Handler) { l.h.Store(&h) }

// Ready reports whether the handler is set.
func (l *LateHandler) Ready() bool { return l.h.Load() != nil }

// ServeHTTP passes the request to the handler.
func (l *LateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := l.h.Load()
	if h == nil {
		problem.Write(w, refusal.New("not_ready",
			"the service is not ready: it waits for its manifest or its trust bundle"))
		return
	}
	(*h).ServeHTTP(w, r)
}
