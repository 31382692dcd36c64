package vaulttest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
)

// Fault is what goes wrong between a client and Vault. Its zero value is nothing.
type Fault struct {
	Refuse    bool          // the port is closed
	Expired   bool          // the certificate has expired
	Delay     time.Duration // before each answer
	Status    int           // answered in place of Vault
	Reset     bool          // the connection is reset when an answer is due
	HalfClose bool          // the connection is closed in one direction when an answer is due
	Clock     time.Duration // added to each time that Vault tells
}

// Proxy is a TLS server between a client and Vault, with a certificate of Vault's CA.
type Proxy struct {
	Address string // https://127.0.0.1:PORT

	server *Server
	vault  *http.Transport
	front  *httptest.Server // nil while the port is closed
}

// NewProxy starts a proxy in front of s, without a fault.
func (s *Server) NewProxy(t testing.TB) *Proxy {
	t.Helper()
	raw, err := os.ReadFile(s.CAFile)
	check.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	address, err := freeport.Address()
	check.Must(t, err)
	p := &Proxy{Address: "https://" + address, server: s, vault: &http.Transport{MaxIdleConnsPerHost: 64,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	p.Set(t, Fault{})
	t.Cleanup(p.Close)
	return p
}

// Close ends the proxy and every connection.
func (p *Proxy) Close() {
	if p.front != nil {
		p.front.CloseClientConnections()
		p.front.Close()
	}
	p.front = nil
	p.vault.CloseIdleConnections()
}

// Set changes what goes wrong from now on, and ends every connection.
func (p *Proxy) Set(t testing.TB, f Fault) {
	t.Helper()
	p.Close()
	if f.Refuse {
		return
	}
	until := time.Now().Add(time.Hour)
	if f.Expired {
		until = time.Now().Add(-time.Second)
	}
	cert, err := p.server.ca.certificate(until)
	check.Must(t, err)
	l, err := net.Listen("tcp", p.Address[len("https://"):])
	check.Must(t, err)
	handler, err := p.handler(f)
	check.Must(t, err)
	p.front = &httptest.Server{Listener: l, TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
		Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, c)
			}}}
	p.front.StartTLS()
}

type connKey struct{}

// handler answers as the fault says.
func (p *Proxy) handler(f Fault) (http.Handler, error) {
	to, err := url.Parse(p.server.Address)
	if err != nil {
		return nil, err
	}
	conn := func(r *http.Request) *net.TCPConn {
		return r.Context().Value(connKey{}).(*tls.Conn).NetConn().(*net.TCPConn)
	}
	reset := func(r *http.Request) {
		_ = conn(r).SetLinger(0)
		_ = conn(r).Close()
	}
	vault := httputil.NewSingleHostReverseProxy(to)
	vault.Transport = p.vault
	vault.ModifyResponse = func(r *http.Response) error { return shift(r, f.Clock) }
	vault.ErrorHandler = func(_ http.ResponseWriter, r *http.Request, _ error) { reset(r) } // as Vault's closed port does
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return
		}
		switch {
		case f.Reset:
			reset(r)
		case f.HalfClose:
			_ = conn(r).CloseWrite()
			_, _ = io.Copy(io.Discard, r.Body) // a server of HTTP/1.1 sees only then that its client has gone
			<-r.Context().Done()
		case f.Status != 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(f.Status)
			fmt.Fprint(w, `{"errors":["a fault of the test"]}`)
		default:
			vault.ServeHTTP(w, r)
		}
	}), nil
}

var times = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"`)

// shift adds clock to every time in an answer.
func shift(r *http.Response, clock time.Duration) error {
	if clock == 0 {
		return nil
	}
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		r.Header.Set("Date", date.Add(clock).Format(http.TimeFormat))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	body = times.ReplaceAllFunc(body, func(told []byte) []byte {
		at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(told))
		if err != nil {
			return told
		}
		return []byte(at.Add(clock).Format(`"` + time.RFC3339Nano + `"`))
	})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
