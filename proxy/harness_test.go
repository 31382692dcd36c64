package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	"testing"
	"time"

	"go.uber.org/goleak"
)

// codeHeader carries the code of a refusal in these tests.
const codeHeader = "X-Code"

func codeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return "internal"
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want the code %s", code)
	}
	if got := codeOf(err); got != code {
		t.Fatalf("got the code %s (%v), want %s", got, err, code)
	}
}

func wantAnswer(t testing.TB, resp *http.Response, err error, code string) {
	t.Helper()
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("response body: %v", err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get(codeHeader); got != code {
		t.Fatalf("got status %d with the code %q and body %q, want the code %q", resp.StatusCode, got, body, code)
	}
}

func testRefuse(w http.ResponseWriter, _ *http.Request, err error) {
	w.Header().Set(codeHeader, codeOf(err))
	w.WriteHeader(http.StatusForbidden)
}

// names is a resolver that knows what it is told.
type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addrs, ok := n[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.9.8.7:53", IsNotFound: true}
}

var loopback = netip.MustParseAddr("127.0.0.1")

// rig is a proxy on loopback in front of TLS upstreams on loopback, with a choke point that forwards everything.
type rig struct {
	T         testing.TB
	Proxy     *Proxy
	CA        *CA
	Addr      string
	Transport *Transport
	served    chan error

	mu     sync.Mutex
	routes []Route // seen by the choke point
	Ended  chan error
}

// newRig starts a proxy; change may alter its options, where Handler has already been set to the forwarding one. Each upstream can
// be reached by its address and as *.example.com at its port.
func newRig(t testing.TB, change func(*Options), upstreams ...*httptest.Server) *rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	for _, u := range upstreams {
		t.Cleanup(u.Close)
	}
	ca, err := NewCA(CAOptions{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, CA: ca, Ended: make(chan error, 100), served: make(chan error, 1)}
	r.Transport = newTestTransport(t, upstreams...)
	o := Options{
		CA:      ca,
		Handler: r.record(forwarding(r.Transport)),
		Connect: func(r *http.Request, _ Target) (context.Context, error) { return r.Context(), nil },
		Refuse:  testRefuse,
		Refused: func(_ context.Context, _ Target, err error) { r.Ended <- err },
		Now:     time.Now,
	}
	if change != nil {
		change(&o)
	}
	if r.Proxy, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Addr = l.Addr().String()
	go func() { r.served <- r.Proxy.Serve(l) }()
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

func newTestTransport(t testing.TB, upstreams ...*httptest.Server) *Transport {
	t.Helper()
	known := names{"nowhere.example.com": {}}
	var list []Upstream
	roots := x509.NewCertPool()
	for i, u := range upstreams {
		if c := u.Certificate(); c != nil {
			roots.AddCert(c)
		}
		known[hostOf(i)] = []netip.Addr{loopback}
	}
	list = append(list, Upstream{Host: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	list = append(list, Upstream{Host: "*.example.com", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, ServerName: "example.com"})
	transport, err := NewTransport(UpstreamOptions{
		Dialer:  Dialer{Resolver: known, Upstreams: list},
		RootCAs: roots,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// hostOf names the upstreams in their order: a.example.com, b.example.com, …
func hostOf(i int) string { return string(rune('a'+i)) + ".example.com" }

func portOf(u *httptest.Server) uint16 {
	_, p, _ := net.SplitHostPort(u.Listener.Addr().String())
	n, _ := strconv.ParseUint(p, 10, 16)
	return uint16(n)
}

// at returns the authority of an upstream by its name.
func at(i int, u *httptest.Server) string { return fmt.Sprintf("%s:%d", hostOf(i), portOf(u)) }

// forwarding is the smallest choke point.
func forwarding(transport http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, ok := RouteFrom(r.Context())
		if !ok {
			panic("no route")
		}
		resp, err := transport.RoundTrip(forwardRequest(r.Context(), r, route.Target, r.Body))
		if err != nil {
			testRefuse(w, r, err)
			return
		}
		defer resp.Body.Close()
		if _, err := relayResponse(w, resp); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

func (r *rig) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		route, _ := RouteFrom(req.Context())
		r.mu.Lock()
		r.routes = append(r.routes, route)
		r.mu.Unlock()
		next.ServeHTTP(w, req)
	})
}

func (r *rig) Seen() []Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Route(nil), r.routes...)
}

func (r *rig) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CA.CertificatePEM())
	return pool
}

// protocol is what a client speaks in its tunnels.
type protocol string

const (
	http1 protocol = "http/1.1"
	http2 protocol = "h2"
)

// client returns a client that uses the proxy and trusts its CA.
func (r *rig) Client(p protocol) *http.Client {
	tr := &http.Transport{
		Proxy:               http.ProxyURL(&url.URL{Scheme: "http", Host: r.Addr}),
		TLSClientConfig:     &tls.Config{RootCAs: r.Roots()},
		ForceAttemptHTTP2:   p == http2,
		MaxIdleConnsPerHost: 100,
		DisableCompression:  true,
	}
	r.T.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// dial opens a connection to the proxy itself.
func (r *rig) Dial() net.Conn {
	r.T.Helper()
	c, err := net.Dial("tcp", r.Addr)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // a bound for a broken test, not a measure
	return c
}

// connect opens a tunnel and returns what is inside of it.
func (r *rig) Connect(authority string) net.Conn {
	r.T.Helper()
	c := r.Dial()
	resp := roundTripRaw(r.T, c, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n")
	if resp.StatusCode != http.StatusOK {
		r.T.Fatalf("CONNECT %s: %s, code %s", authority, resp.Status, resp.Header.Get(codeHeader))
	}
	return c
}

// tunnel opens a tunnel with TLS inside; name is the SNI.
func (r *rig) Tunnel(authority, name string, p protocol) (*tls.Conn, error) {
	r.T.Helper()
	c := tls.Client(r.Connect(authority), &tls.Config{RootCAs: r.Roots(), ServerName: name, NextProtos: []string{string(p)}})
	return c, c.Handshake()
}

func (r *rig) MustTunnel(authority string) *tls.Conn {
	r.T.Helper()
	host, _, _ := net.SplitHostPort(authority)
	c, err := r.Tunnel(authority, host, http1)
	if err != nil {
		r.T.Fatal(err)
	}
	return c
}

// roundTripRaw writes text as it is and reads one response. The connection must have nothing buffered, which holds while each
// response is read whole before the next request.
func roundTripRaw(t testing.TB, c net.Conn, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	return readRaw(t, bufio.NewReader(oneByte{c}), method)
}

func readRaw(t testing.TB, r *bufio.Reader, method string) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no response to %s: %v", method, err)
	}
	return resp
}

// oneByte keeps a bufio.Reader from taking more than the response.
type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:min(1, len(p))]) }
