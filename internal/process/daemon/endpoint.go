package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/descriptor"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Listen opens an endpoint with one address. A unix socket has mode 0600, or 0666 if the configuration admits other
// users; the listener checks the user of each connection. A TCP endpoint speaks TLS as id, with clients that have a
// certificate; its connections are bounded, because strangers can make them.
func Listen(e config.Endpoint, id *identity.Identity, log *zap.Logger) (net.Listener, error) {
	if e.Unix == "" {
		if id == nil {
			return nil, errors.New("a TCP endpoint needs tls")
		}
		return listenTLS(e.TCP, id.Config(), log)
	}
	if err := removeStaleSocket(e.Unix); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", e.Unix)
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o600)
	if len(e.UIDs) > 0 {
		mode = 0o666
	}
	if err := os.Chmod(e.Unix, mode); err != nil {
		l.Close()
		return nil, err
	}
	return &peerListener{Listener: l, allowed: append([]uint32{0, uint32(os.Geteuid())}, e.UIDs...),
		log: flood.Logger(log)}, nil
}

// ListenOpen is [Listen] at a TCP address that also admits callers without a certificate.
func ListenOpen(e config.Endpoint, id *identity.Identity, log *zap.Logger) (net.Listener, error) {
	return listenTLS(e.TCP, id.OpenConfig(), log)
}

func listenTLS(address string, c *tls.Config, log *zap.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(newBoundedListener(l, endpointLimits, log), c), nil
}

// removeStaleSocket removes a socket on which no process listens, and nothing else.
func removeStaleSocket(path string) error {
	stale, err := isStale(path)
	if stale && err == nil {
		err = os.Remove(path)
	}
	return err
}

// isStale reports whether a process has left a socket behind at path. It fails for anything else there.
func isStale(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.Mode().Type() != os.ModeSocket:
		return false, fmt.Errorf("%s exists but is not a socket: move it away, or name another socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
	case errors.Is(err, unix.ECONNREFUSED):
		return true, nil
	case !errors.Is(err, unix.EAGAIN): // the queue of waiting connections is full
		return false, fmt.Errorf("%s exists but cannot be reached (%w): remove it, or name another socket", path, err)
	}
	return false, fmt.Errorf("another process listens on %s: end it, or name another socket", path)
}

// peerListener closes connections from processes whose user is not allowed (SO_PEERCRED).
type peerListener struct {
	net.Listener
	allowed []uint32
	log     *zap.Logger
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := peerOfConn(c)
		if err == nil && slices.Contains(l.allowed, peer.Uid) {
			return c, nil
		}
		l.log.Warn("connection refused: the peer's user is not allowed", zap.Uint32("uid", peer.Uid), zap.Error(err))
		c.Close()
	}
}

// peerOfConn returns the process that made a connection (SO_PEERCRED). Its pid is 0 if it is outside this process's pid
// namespace.
func peerOfConn(c net.Conn) (peer unix.Ucred, err error) {
	return peer, control(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			peer = *cred
		}
		return err
	})
}

// DescriptorOf takes the descriptor that came with a request, or returns nil. The caller closes it.
func DescriptorOf(r *http.Request) *os.File { return descriptor.Of(r.Context().Value(connKey{})) }

// control calls ask with the descriptor of a connection over a unix socket.
func control(c net.Conn, ask func(fd int) error) error {
	u, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("not a unix connection")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var asked error
	return cmp.Or(raw.Control(func(fd uintptr) { asked = ask(int(fd)) }), asked)
}

// InOwnNetwork reports whether the sender of a request is in this process's network namespace: no isolated agent is. It
// returns false over TCP.
func InOwnNetwork(r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	var network uint64
	if control(c, func(fd int) (err error) { // an accepted unix socket belongs to its client's network
		network, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	}) != nil {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	own, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err == nil && network == own
}

type connKey struct{}

// PeerOf returns the process that sent a request. Over TCP it returns the zero value.
func PeerOf(r *http.Request) unix.Ucred {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	peer, err := peerOfConn(c)
	if err != nil {
		return unix.Ucred{}
	}
	return peer
}

// Client returns an HTTP client for another process, and the base of its URLs. Over TCP it speaks TLS as id.
func Client(p config.Peer, id *identity.Identity) (*http.Client, string) {
	return ClientSending(p, id, nil)
}

// ClientSending is Client for a client that sends a descriptor with the first bytes of each connection to a unix
// socket. A nil file sends none.
func ClientSending(p config.Peer, id *identity.Identity, file *os.File) (*http.Client, string) {
	d := net.Dialer{Timeout: 30 * time.Second}
	dial := d.DialContext
	if p.Unix != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := d.DialContext(ctx, "unix", p.Unix)
			if err == nil {
				err = checkServer(c, p.UID)
			}
			if err != nil {
				return nil, err
			}
			return descriptor.Send(c, file), nil
		}
	}
	base := func() *http.Transport {
		return &http.Transport{
			DialContext: dial, MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
			ResponseHeaderTimeout: 90 * time.Second, // longer than any long poll
		}
	}
	if p.Unix != "" {
		return &http.Client{Transport: base(), CheckRedirect: wire.Stay}, "http://mediator" // the name is not resolved
	}
	host, _, _ := net.SplitHostPort(p.TCP)
	return &http.Client{Transport: id.Transport(cmp.Or(p.Name, host), base), CheckRedirect: wire.Stay}, "https://" + p.TCP
}

// checkServer closes a connection to a socket of another user: in a folder that several users may write, each of them
// can take the place of a process that has ended.
func checkServer(c net.Conn, uid *uint32) error {
	if uid == nil {
		return nil
	}
	peer, err := peerOfConn(c)
	if err == nil && peer.Uid != *uid {
		err = fmt.Errorf("user %d answers there, not user %d", peer.Uid, *uid)
	}
	if err != nil {
		c.Close()
	}
	return err
}

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
		Handler: leaving(ctx, handling(h)), ReadHeaderTimeout: cmp.Or(b.Header, 30*time.Second), IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		ReadTimeout:    b.Request, WriteTimeout: b.Request,
		ErrorLog: stdlog.New(logs.Handshakes{To: flood.Logger(log)}, "", 0),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endingKey{}, ctx)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
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
		problem.Write(w, refusal.New("not_ready", "the service is not ready: it waits for its manifest or its trust bundle"))
		return
	}
	(*h).ServeHTTP(w, r)
}
