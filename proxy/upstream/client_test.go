package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/proxytest"
	"github.com/actionproof/mediator/test/tlstest"
)

// clientOf makes a client whose certificate names it.
func clientOf(t *testing.T, ca *tlstest.Authority, name string, edit func(*x509.Certificate)) upstream.Client {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Certify(t, func(c *x509.Certificate) {
		c.Subject.CommonName = name
		if edit != nil {
			edit(c)
		}
	}))
	must(t, err)
	return upstream.Client{Name: strings.TrimSuffix(name, "-renewed"), Certificate: &pair}
}

// asking is an upstream that names the connection and the client of each request that it reads.
func asking(t *testing.T, p protocol, version uint16, auth tls.ClientAuthType, ca *tlstest.Authority) (
	up *httptest.Server, reads *atomic.Int32) {
	t.Helper()
	reads = new(atomic.Int32)
	up = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		w.Header().Set("X-Connection", r.RemoteAddr)
		for _, c := range r.TLS.PeerCertificates {
			w.Header().Set("X-Client", c.Subject.CommonName)
		}
	}))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	up.EnableHTTP2, up.Config.ErrorLog = p == http2, log.New(io.Discard, "", 0)
	up.TLS = &tls.Config{ClientAuth: auth, ClientCAs: roots, MinVersion: version, MaxVersion: version}
	up.StartTLS()
	t.Cleanup(up.Close)
	return up, reads
}

func sendAs(t *testing.T, via http.RoundTripper, up *httptest.Server, method string, c upstream.Client) (
	connection, client string, way upstream.Via, err error) {
	t.Helper()
	ctx := upstream.WithClient(upstream.WithParty(t.Context(), "party", context.Background()), c)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		way = upstream.ViaOf(got.Conn)
	}})
	q, err := http.NewRequestWithContext(ctx, method, "https://"+at(0, up), http.NoBody)
	must(t, err)
	resp, err := via.RoundTrip(q)
	if err != nil {
		return "", "", way, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	must(t, resp.Body.Close())
	return resp.Header.Get("X-Connection"), resp.Header.Get("X-Client"), way, nil
}

// The upstream sees the call's own client on each connection: no pool, no resumed session and no proxy's tunnel lends a
// certificate to another call.
func TestClients(t *testing.T) {
	ca := tlstest.New(t)
	none := upstream.Client{}
	a, b, renewed := clientOf(t, ca, "a", nil), clientOf(t, ca, "b", nil), clientOf(t, ca, "a-renewed", nil)
	for _, p := range []protocol{http1, http2} {
		for version, method := range map[uint16]string{tls.VersionTLS12: "GET", tls.VersionTLS13: "GET", 0: "POST"} {
			up, _ := asking(t, p, version, tls.VerifyClientCertIfGiven, ca)
			proxied := through(t, up, proxytest.Above(t, nil, func(c net.Conn, _ *http.Request) {
				proxytest.Tunnel(t, c, up.Listener.Addr().String())
			}))
			for _, via := range []*upstream.Transport{newTestTransport(t, up), proxied} {
				seen := make(map[string]string) // clients, by connection
				for range 2 {
					for _, tt := range []struct {
						client upstream.Client
						want   string
					}{{none, ""}, {a, "a"}, {none, ""}, {b, "b"}, {a, "a"}, {a, "a"}, {renewed, "a-renewed"}, {none, ""}} {
						on, got, way, err := sendAs(t, via, up, method, tt.client)
						must(t, err)
						if before, known := seen[on]; got != tt.want || known && before != got ||
							(way == upstream.ViaProxy) != (via == proxied) {
							t.Errorf("%s, TLS %x: %q is %q on a connection of %q, %s", p, version, tt.want, got, before, way)
						}
						seen[on] = got
					}
					via.CloseIdleConnections()
				}
				if method == "GET" && len(seen) != 8 { // in each round, one for each client and one more for the renewed certificate
					t.Errorf("%s, TLS %x: %d connections", p, version, len(seen))
				}
			}
		}
	}
}

// An upstream that does not take the certificate reads nothing, and the certificate's source is told.
func TestClientRefused(t *testing.T) {
	ca, other := tlstest.New(t), tlstest.New(t)
	good, unknown := clientOf(t, ca, "a", nil), clientOf(t, other, "a", nil)
	ended := clientOf(t, ca, "a", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	for name, tt := range map[string]struct {
		client upstream.Client
		auth   tls.ClientAuthType
		says   string
	}{
		"another authority": {unknown, tls.RequireAndVerifyClientCert, "certificate"},
		"ended":             {ended, tls.RequireAndVerifyClientCert, "certificate"},
		"not asked for":     {good, tls.NoClientCert, "asked for none"},
	} {
		for _, p := range []protocol{http1, http2} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				up, reads := asking(t, p, version, tt.auth, ca)
				told := false
				tt.client.Refused = func() { told = true }
				_, _, _, err := sendAs(t, newTestTransport(t, up), up, "GET", tt.client)
				wantCode(t, err, "upstream_client_refused")
				if err == nil || !strings.Contains(err.Error(), tt.says) || reads.Load() != 0 || !told {
					t.Errorf("%s, %s, TLS %x: %d requests, %v", name, p, version, reads.Load(), err)
				}
			}
		}
	}
	up, _ := asking(t, http1, tls.VersionTLS13, tls.RequireAndVerifyClientCert, ca)
	_, _, _, err := sendAs(t, newTestTransport(t, up), up, "GET", upstream.Client{})
	wantCode(t, err, "upstream_lost") // no rule's certificate was refused
}

// Why the upstream closed the connection is read even if a write comes too late.
func TestClientPatient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer conn.Close()
	there, err := l.Accept()
	must(t, err)
	_, err = there.Write([]byte("alert"))
	must(t, err)
	must(t, there.(*net.TCPConn).SetLinger(0))
	must(t, there.Close())
	n, err := upstream.Patient(conn).Write([]byte("request"))
	if n != len("request") || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	said, err := io.ReadAll(io.LimitReader(conn, int64(len("alert"))))
	if string(said) != "alert" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
}
