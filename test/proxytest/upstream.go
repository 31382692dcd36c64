package proxytest

import (
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// Upstream echoes requests and counts them and their connections.
type Upstream struct {
	*httptest.Server
	Requests, Conns atomic.Int64
}

// NewUpstream starts an upstream with TLS; h is [Echo] if nil.
func NewUpstream(t testing.TB, h http.HandlerFunc, p Protocol) *Upstream {
	t.Helper()
	u := &Upstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.Requests.Add(1)
		if h != nil {
			h(w, r)
			return
		}
		Echo(w, r)
	}))
	u.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			u.Conns.Add(1)
		}
	}
	u.Config.ErrorLog = log.New(io.Discard, "", 0)
	u.EnableHTTP2 = p == HTTP2
	u.StartTLS()
	return u
}

// MustGet demands this body from a GET.
func MustGet(t testing.TB, c *http.Client, url, want string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != want {
		t.Fatalf("GET %s: status %d, code %q, body %q, error %v; want %q", url, resp.StatusCode, resp.Header.Get(CodeHeader),
			body, err, want)
	}
}

// WantBody demands 200 and this body.
func WantBody(t testing.TB, resp *http.Response, want string) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != want || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, code %q, body %q, error %v; want %q", resp.StatusCode, resp.Header.Get(CodeHeader), body, err,
			want)
	}
}

// PoolOf returns the roots of an upstream.
func PoolOf(u *Upstream) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(u.Certificate())
	return pool
}

// Echo answers with the body, method and path.
func Echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(w, r.Body)
	_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI())
}

// Get sends one GET by a transport.
func Get(t testing.TB, transport http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	q, err := http.NewRequest(http.MethodGet, url, nil)
	check.Must(t, err)
	return transport.RoundTrip(q)
}
