// Package proxytest gives tests a proxy and upstreams on loopback, and clients of every kind.
package proxytest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
)

// CodeHeader carries a refusal's code.
const CodeHeader = "X-Code"

// WantAnswer demands a refusal of [Refuse] with this code, or another answer if code is empty.
func WantAnswer(t testing.TB, resp *http.Response, err error, code string) {
	t.Helper()
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("response body: %v", err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get(CodeHeader); got != code {
		t.Fatalf("got status %d with the code %q and body %q, want the code %q", resp.StatusCode, got, body, code)
	}
}

// Refuse answers with the code of err.
func Refuse(w http.ResponseWriter, _ *http.Request, err error) {
	w.Header().Set(CodeHeader, check.CodeOf(err))
	w.WriteHeader(http.StatusForbidden)
}

// Names resolves these names.
type Names map[string][]netip.Addr

// LookupNetIP implements [upstream.Resolver].
func (n Names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addrs, ok := n[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.9.8.7:53", IsNotFound: true}
}

// Loopback is the upstreams' address.
var Loopback = netip.MustParseAddr("127.0.0.1")

// Rig is a proxy on loopback.
type Rig struct {
	T      testing.TB
	Proxy  *intercept.Proxy
	CA     *intercept.CA
	Addr   string
	served chan error
	memory bool // connections are in memory
	l      net.Listener

	mu     sync.Mutex
	routes []intercept.Route // seen by the handler
	Ended  chan error        // tunnels that ended before a request

	original atomic.Pointer[netip.AddrPort] // destination of redirected connections
}

// New starts a proxy whose handler is [Echo]; change may alter its options. The upstreams close with the test.
func New(t testing.TB, change func(*intercept.Options), upstreams ...*httptest.Server) *Rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { leaktest.None(t, before) })
	for _, u := range upstreams {
		t.Cleanup(u.Close)
	}
	return (&Rig{T: t}).start(change)
}

// NewInBubble is [New] for a synctest bubble: [Rig.Dial] connects in memory.
func NewInBubble(t testing.TB, change func(*intercept.Options)) *Rig {
	t.Helper()
	return (&Rig{T: t, memory: true}).start(change)
}

func (r *Rig) start(change func(*intercept.Options)) *Rig {
	t := r.T
	t.Helper()
	ca, err := intercept.NewCA(intercept.CAOptions{Now: time.Now})
	check.Must(t, err)
	r.CA, r.Ended, r.served = ca, make(chan error, 100), make(chan error, 1)
	o := intercept.Options{
		CA:      ca,
		Handler: http.HandlerFunc(Echo),
		Connect: func(r *http.Request, _ upstream.Target) (context.Context, error) { return r.Context(), nil },
		Refuse:  Refuse,
		Refused: func(_ context.Context, err error) { r.Ended <- err },
		Original: func(net.Conn) (netip.AddrPort, bool) {
			if to := r.original.Load(); to != nil {
				return *to, true
			}
			return netip.AddrPort{}, false
		},
		Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	o.Handler = r.record(o.Handler)
	r.Proxy, err = intercept.New(o)
	check.Must(t, err)
	r.l = r.listen()
	r.Addr = r.l.Addr().String()
	go func() { r.served <- r.Proxy.Serve(r.l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = r.Proxy.Shutdown(ctx) // a test may leave connections open
		if err := <-r.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

func (r *Rig) listen() net.Listener {
	if r.memory {
		return newMemory()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(r.T, err)
	return l
}

func (r *Rig) dial(l net.Listener) net.Conn {
	r.T.Helper()
	var c net.Conn
	var err error
	patience := 3 * time.Minute // bounds a broken test only
	if m, ok := l.(*memory); ok {
		c, patience = m.dial(), 20*time.Second // by the bubble's clock
	} else {
		c, err = net.Dial("tcp", l.Addr().String())
	}
	check.Must(r.T, err)
	r.T.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// NewTransport reaches each upstream by its address and by its [HostOf].
func NewTransport(t testing.TB, upstreams ...*httptest.Server) *upstream.Transport {
	t.Helper()
	known := Names{"nowhere.example.com": {}}
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	list := []upstream.Host{{Name: "127.0.0.1", Networks: local}}
	roots := x509.NewCertPool()
	for i, u := range upstreams {
		if c := u.Certificate(); c != nil {
			roots.AddCert(c)
		}
		known[HostOf(i)] = []netip.Addr{Loopback}
		list = append(list, upstream.Host{Name: HostOf(i), Networks: local})
	}
	transport := upstream.NewTransport(upstream.Options{
		Dialer: upstream.Dialer{Resolver: known, Hosts: list}, RootCAs: roots,
	})
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// HostOf names the upstreams in order: a.example.com, b.example.com, …
func HostOf(i int) string { return string(rune('a'+i)) + ".example.com" }

// PortOf returns an upstream's port.
func PortOf(u *httptest.Server) uint16 {
	_, p, _ := net.SplitHostPort(u.Listener.Addr().String())
	n, _ := strconv.ParseUint(p, 10, 16)
	return uint16(n)
}

// At returns an upstream's authority by name.
func At(i int, u *httptest.Server) string { return fmt.Sprintf("%s:%d", HostOf(i), PortOf(u)) }

func (r *Rig) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		route, _ := intercept.RouteFrom(req.Context())
		r.mu.Lock()
		r.routes = append(r.routes, route)
		r.mu.Unlock()
		next.ServeHTTP(w, req)
	})
}

// Seen returns the routes of the handled requests.
func (r *Rig) Seen() []intercept.Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]intercept.Route(nil), r.routes...)
}

// Roots trust the proxy's CA.
func (r *Rig) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CA.CertificatePEM())
	return pool
}

// Protocol is the protocol inside a tunnel.
type Protocol string

const (
	HTTP1 Protocol = "http/1.1"
	HTTP2 Protocol = "h2"
)

// Client returns a client that uses the proxy and trusts its CA.
func (r *Rig) Client(p Protocol) *http.Client {
	tr := &http.Transport{
		Proxy:               http.ProxyURL(&url.URL{Scheme: "http", Host: r.Addr}),
		TLSClientConfig:     &tls.Config{RootCAs: r.Roots()},
		ForceAttemptHTTP2:   p == HTTP2,
		MaxIdleConnsPerHost: 100,
		DisableCompression:  true,
	}
	r.T.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Dial connects to the proxy.
func (r *Rig) Dial() net.Conn {
	r.T.Helper()
	return r.dial(r.l)
}

// Connect opens a tunnel and returns its inside.
func (r *Rig) Connect(authority string) net.Conn {
	r.T.Helper()
	c := r.Dial()
	resp := RoundTripRaw(r.T, c, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n")
	if resp.StatusCode != http.StatusOK {
		r.T.Fatalf("CONNECT %s: %s, code %s", authority, resp.Status, resp.Header.Get(CodeHeader))
	}
	return c
}

// Tunnel opens a tunnel with TLS inside; name is the SNI.
func (r *Rig) Tunnel(authority, name string, p Protocol) (*tls.Conn, error) {
	r.T.Helper()
	c := tls.Client(r.Connect(authority),
		&tls.Config{RootCAs: r.Roots(), ServerName: name, NextProtos: []string{string(p)}})
	return c, c.Handshake()
}

// MustTunnel opens a tunnel with TLS and HTTP/1.1 inside.
func (r *Rig) MustTunnel(authority string) *tls.Conn {
	r.T.Helper()
	host, _, _ := net.SplitHostPort(authority)
	c, err := r.Tunnel(authority, host, HTTP1)
	if err != nil {
		r.T.Fatal(err)
	}
	return c
}

// RoundTripRaw writes text and reads one response. Nothing may be buffered: read each response whole before the next.
func RoundTripRaw(t testing.TB, c net.Conn, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	return ReadRaw(t, bufio.NewReader(oneByte{c}), method)
}

// ReadRaw reads one response.
func ReadRaw(t testing.TB, r *bufio.Reader, method string) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no response to %s: %v", method, err)
	}
	return resp
}

// oneByte keeps a bufio.Reader from reading ahead.
type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:min(1, len(p))]) }

// Redirect returns a dialler of redirected connections whose destination was original.
func (r *Rig) Redirect(original string) func() net.Conn {
	r.T.Helper()
	to := netip.MustParseAddrPort(original)
	r.original.Store(&to)
	return r.ServeTransparent()
}

// ServeTransparent serves a transparent listener and returns a dialler to it.
func (r *Rig) ServeTransparent() func() net.Conn {
	r.T.Helper()
	l := r.listen()
	served := make(chan error, 1)
	go func() { served <- r.Proxy.ServeTransparent(l) }()
	r.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = r.Proxy.Shutdown(ctx)
		if err := <-served; err != nil {
			r.T.Errorf("ServeTransparent: %v", err)
		}
	})
	return func() net.Conn {
		r.T.Helper()
		return r.dial(l)
	}
}

// Redirected returns a client over dial.
func (r *Rig) Redirected(dial func() net.Conn, protocols ...string) *http.Client {
	tr := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
		TLSClientConfig: &tls.Config{RootCAs: r.Roots(), NextProtos: protocols},
		Protocols:       new(http.Protocols),
	}
	for _, p := range protocols {
		if p == "h2" {
			tr.Protocols.SetHTTP2(true)
		} else {
			tr.Protocols.SetHTTP1(true)
		}
	}
	r.T.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
