package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

// minToken is the shortest token of a TCP endpoint, in bytes.
const minToken = 32

// endpoint is an endpointConfig whose paths are absolute and whose token has been read.
type endpoint struct {
	unix  string
	uids  []uint32
	tcp   string
	token string
}

// endpoint checks an endpointConfig. file makes a path absolute.
func (c endpointConfig) endpoint(key string, f *findings, file func(string) string) endpoint {
	e := endpoint{unix: file(c.Unix), uids: c.UIDs, tcp: c.TCP}
	switch {
	case (c.Unix == "") == (c.TCP == ""):
		f.add(key, "needs either unix or tcp")
	case c.Unix != "" && c.TokenFile != "":
		f.add(key+".tokenFile", "has no meaning with unix, where the kernel says who connects")
	case c.TCP != "" && c.TokenFile == "":
		f.add(key+".tokenFile", "is required for tcp, which a token has to guard")
	case c.TCP != "" && len(c.UIDs) > 0:
		f.add(key+".uids", "has no meaning with tcp: whoever has the token may connect")
	case c.TCP != "":
		if checkAddress(key+".tcp", c.TCP, f); portIn(c.TCP) == 0 {
			f.add(key+".tcp", "%q has no port that others could know", c.TCP)
		}
		token, err := readSecret(file(c.TokenFile), minToken)
		if err != nil {
			f.add(key+".tokenFile", "%v", err)
		}
		e.token = token
	}
	return e
}

// answers checks an endpointConfig that says where another process answers: whom it admits is for its own configuration to say.
func (c endpointConfig) answers(key string, f *findings, file func(string) string) endpoint {
	if len(c.UIDs) > 0 {
		f.add(key+".uids", "has no meaning here: name this process's user in the configuration of the one that answers")
		c.UIDs = nil
	}
	return c.endpoint(key, f, file)
}

// checkAddress adds a finding for what is no host:port to listen on or to connect to.
func checkAddress(key, address string, f *findings) {
	if _, port, err := net.SplitHostPort(address); err != nil || port != "0" && portIn(address) == 0 {
		f.add(key, "%q is not a host and a port, as 127.0.0.1:8181 is", address)
	}
}

// portIn returns the port of a host:port, or 0.
func portIn(address string) uint16 {
	_, s, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// listen opens the endpoint. A unix socket is made with mode 0600 (0666 where other users are named, whom the peer check then
// tells apart), and each connection's peer is asked for its uid.
func (e endpoint) listen(log *zap.Logger) (net.Listener, error) {
	if e.unix == "" {
		return net.Listen("tcp", e.tcp)
	}
	if err := removeStaleSocket(e.unix); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", e.unix)
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o600)
	if len(e.uids) > 0 {
		mode = 0o666
	}
	if err := os.Chmod(e.unix, mode); err != nil {
		l.Close()
		return nil, err
	}
	return &peerListener{Listener: l, allowed: append([]uint32{0, uint32(os.Geteuid())}, e.uids...), log: log}, nil
}

// removeStaleSocket removes a socket that nobody listens on any more. It never takes one away from a running process.
func removeStaleSocket(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return fmt.Errorf("another process listens on %s", path)
	}
	return os.Remove(path)
}

// peerListener drops connections of processes whose user is not allowed (SO_PEERCRED).
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
		peer, err := peerOf(c)
		if err == nil && slices.Contains(l.allowed, peer.Uid) {
			return c, nil
		}
		l.log.Warn("connection refused: the peer's user is not allowed", zap.Uint32("uid", peer.Uid), zap.Error(err))
		c.Close()
	}
}

// peerOf returns the process that made a connection, as the kernel names it (SO_PEERCRED). The pid is 0 for one that this process's
// namespace does not see.
func peerOf(c net.Conn) (unix.Ucred, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return unix.Ucred{}, errors.New("not a unix connection")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return unix.Ucred{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return unix.Ucred{}, err
	}
	if credErr != nil {
		return unix.Ucred{}, credErr
	}
	return *cred, nil
}

type connKey struct{}

// peerOfRequest returns the process that a request came from; the zero one over TCP.
func peerOfRequest(r *http.Request) unix.Ucred {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	peer, err := peerOf(c)
	if err != nil {
		return unix.Ucred{}
	}
	return peer
}

// strangerTimeout bounds what is still read of a request without the endpoint's token.
const strangerTimeout = time.Second

// guard demands the endpoint's token, where it has one.
func (e endpoint) guard(next http.Handler) http.Handler {
	if e.token == "" {
		return next
	}
	want := sha256.Sum256([]byte("Bearer " + e.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			// net/http waits for the rest of a body before it goes on, and for the next request after that: nobody waits for a stranger.
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(strangerTimeout))
			problem.Write(w, refusal.New("endpoint_token", "this endpoint needs its bearer token"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// client returns an HTTP client for the endpoint and the base of its URLs.
func (e endpoint) client() (*http.Client, string) {
	t := &http.Transport{
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		ResponseHeaderTimeout: 90 * time.Second, // longer than any long poll
	}
	base := "http://" + e.tcp
	if e.unix != "" {
		base = "http://mediator" // the name is not resolved
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", e.unix)
		}
	}
	var rt http.RoundTripper = t
	if e.token != "" {
		rt = bearer{token: e.token, next: t}
	}
	return &http.Client{Transport: rt}, base
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// bounds are what those who connect to a listener may take of the process. Zero bounds nothing.
type bounds struct {
	connections int           // open at once; further ones wait to be accepted
	request     time.Duration // from the first byte of a request to the last of its answer
}

// public bounds a port that anybody can reach, of a process on which others rest: what it has of descriptors and memory is not for
// whoever connects and says nothing.
var public = bounds{connections: 512, request: 20 * time.Second}

// serveHTTP serves h on l until ctx ends, then waits at most grace for what is in flight.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, b bounds, grace time.Duration, log *zap.Logger) error {
	if b.connections > 0 {
		l = netutil.LimitListener(l, b.connections)
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ReadTimeout: b.request, WriteTimeout: b.request,
		ErrorLog:    zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := s.Shutdown(wait); err != nil {
		s.Close()
	}
	<-done
	return nil
}

// parseEndpoint reads an endpoint from a command line: unix:PATH.
func parseEndpoint(s string) (endpoint, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && path != "" {
		return endpoint{unix: path}, nil
	}
	return endpoint{}, usagef("%q is not an endpoint: write unix:PATH", s)
}
