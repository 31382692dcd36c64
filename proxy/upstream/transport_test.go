package upstream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/proxy/upstream"
)

func TestTransportErrors(t *testing.T) {
	up := newUpstream(t, nil, http1)
	defer up.Close()
	_, port, _ := net.SplitHostPort(up.Listener.Addr().String())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	talking, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer talking.Close()
	go func() {
		for {
			c, err := talking.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
			_ = c.Close()
		}
	}()
	_, silentPort, _ := net.SplitHostPort(silent.Addr().String())
	_, talkingPort, _ := net.SplitHostPort(talking.Addr().String())
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

	dialer := upstream.Dialer{
		Resolver: names{"a.example.com": {loopback}, "strict.example.net": {loopback}},
		Hosts: []upstream.Host{
			{Name: "a.example.com", Networks: local},
			{Name: "strict.example.net", Networks: local, RootCAs: poolOf(up)},
		},
	}
	transport := upstream.NewTransport(upstream.Options{Dialer: dialer})
	defer transport.CloseIdleConnections()
	impatient := upstream.NewTransport(
		upstream.Options{Dialer: dialer, HandshakeTimeout: time.Millisecond, ResponseHeaderTimeout: time.Millisecond})
	defer impatient.CloseIdleConnections()
	for _, test := range []struct{ name, url, code, says string }{
		{"unknown CA", "https://a.example.com:" + port + "/", "upstream_certificate_untrusted", "has an unknown CA"},
		{"another name in the certificate", "https://strict.example.net:" + port + "/", "upstream_certificate_untrusted",
			"is for another name"},
		{"silent in the handshake", "https://a.example.com:" + silentPort + "/", "upstream_tls_failed", "in time"},
		{"no TLS", "https://a.example.com:" + talkingPort + "/", "upstream_tls_failed",
			"first record does not look like a TLS handshake"},
		{"silent", "http://a.example.com:" + silentPort + "/", "upstream_timeout", ""},
		{"no HTTP", "http://a.example.com:" + talkingPort + "/", "upstream_lost", ""},
		{"nobody", "http://a.example.com:1/", "upstream_unreachable", "connection refused"},
		{"private", "http://10.1.2.3/", "egress_address_denied", ""},
		{"unknown", "https://b.example.com/", "upstream_unresolvable", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			via := transport
			if strings.HasPrefix(test.name, "silent") {
				via = impatient
			}
			resp, err := get(t, via, test.url)
			if err == nil {
				_ = resp.Body.Close()
			}
			wantCode(t, err, test.code)
			if test.says != "" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error does not say %q: %v", test.says, err)
			}
			var public interface{ Public() string }
			if !errors.As(err, &public) || strings.Contains(public.Public(), "127.0.0.1") {
				t.Errorf("the error names an address to agents: %v", err)
			}
		})
	}
	if n := up.Requests.Load(); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	t.Run("client gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		q, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.example.com:"+silentPort+"/", nil)
		resp, err := transport.RoundTrip(q)
		if err == nil {
			_ = resp.Body.Close()
		}
		wantCode(t, err, "client_gone")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cause is lost: %v", err)
		}
	})
}

// Some requests share their connection with no other.
func TestOwnConnections(t *testing.T) {
	for _, tt := range []struct {
		name, method, body, header string
		own                        bool
	}{
		{"a read", "GET", "", "Authorization: Bearer x", false},
		{"a write", "POST", "x", "", false},
		{"a read with a body", "GET", "POST /posts HTTP/1.1\r\n\r\n", "", true},
		{"a HEAD with a body", "HEAD", "x", "", true},
		{"an OPTIONS with a body", "OPTIONS", "x", "", true},
		{"a DELETE with a body", "DELETE", "x", "", true},
		{"NTLM", "GET", "", "Authorization: NTLM TlRM", true},
		{"Negotiate", "POST", "x", "Authorization: negotiate YII", true},
		{"a handshake that the upstream refuses", "GET", "", "Upgrade: websocket", true},
	} {
		for _, p := range []protocol{http1, http2} {
			t.Run(tt.name+" "+string(p), func(t *testing.T) {
				up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("X-Connection", r.RemoteAddr)
				}, p)
				defer up.Close()
				transport := newTestTransport(t, up.Server)
				send := func(method, body, header string) string {
					q, err := http.NewRequest(method, "https://"+at(0, up.Server)+"/x",
						io.NopCloser(strings.NewReader(body)))
					must(t, err)
					q.ContentLength = int64(len(body))
					if name, value, ok := strings.Cut(header, ": "); ok {
						q.Header.Set(name, value)
					}
					return connection(t, transport, q)
				}
				before := send("GET", "", "")
				it := send(tt.method, tt.body, tt.header)
				after := send("GET", "", "")
				if own := it != before && it != after; own != tt.own || before != after {
					t.Errorf("the connections are %s, %s, %s", before, it, after)
				}
			})
		}
	}
}

// connection makes a request and returns its connection, as the upstream names it in X-Connection.
func connection(t *testing.T, transport *upstream.Transport, q *http.Request) string {
	t.Helper()
	resp, err := transport.RoundTrip(q)
	must(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	must(t, resp.Body.Close())
	return resp.Header.Get("X-Connection")
}

// Parties share no connection, and a party's end closes its own.
func TestParties(t *testing.T) {
	for _, p := range []protocol{http1, http2} {
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Connection", r.RemoteAddr) }, p)
		defer up.Close()
		transport := newTestTransport(t, up.Server)
		get := func(life context.Context, party string) string {
			q, err := http.NewRequestWithContext(upstream.WithParty(t.Context(), party, life), "GET",
				"https://"+at(0, up.Server), http.NoBody)
			must(t, err)
			return connection(t, transport, q)
		}
		life, end := context.WithCancel(t.Context())
		a, b := get(life, "a"), get(t.Context(), "b")
		if a == b || a != get(life, "a") || b != get(t.Context(), "b") {
			t.Errorf("%s: the connections are %s and %s", p, a, b)
		}
		end()
		for deadline := time.Now().Add(time.Minute); get(life, "a") == a; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the party's connection outlives it", p)
			}
		}
		if b != get(t.Context(), "b") {
			t.Errorf("%s: the other party lost its connection", p)
		}
	}
}

// Names in Connection and Trailer count as lines of a header. Relaying an answer compares them with each other.
func TestManyNames(t *testing.T) {
	var names strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&names, "x%d,", i)
	}
	for _, field := range []string{"Connection", "Trailer"} {
		for _, p := range []protocol{http1, http2} {
			if field == "Connection" && p == http2 {
				continue // net/http's server does not send it
			}
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(field, names.String())
				_ = http.NewResponseController(w).Flush()
			}, p)
			defer up.Close()
			resp, err := get(t, newTestTransport(t, up.Server), "https://"+at(0, up.Server))
			if err == nil {
				_ = resp.Body.Close()
			}
			wantCode(t, err, "upstream_lost")
		}
	}
}

func TestTransportPerUpstream(t *testing.T) {
	up := newUpstream(t, nil, http2)
	defer up.Close()
	transport := upstream.NewTransport(upstream.Options{Dialer: upstream.Dialer{
		Resolver: names{"api.example.com": {loopback}},
		Hosts: []upstream.Host{{
			Name: "api.example.com", Port: portOf(up.Server), RootCAs: poolOf(up),
			Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		}},
	}})
	defer transport.CloseIdleConnections()
	_, port, _ := net.SplitHostPort(up.Listener.Addr().String())
	resp, err := get(t, transport, "https://api.example.com:"+port+"/x")
	must(t, err)
	if resp.ProtoMajor != 2 || resp.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%s, TLS %x", resp.Proto, resp.TLS.Version)
	}
	wantBody(t, resp, "GET /x")
}

// hanging is a resolver that does not answer, and counts who waits for it.
type hanging struct{ waiting atomic.Int32 }

func (h *hanging) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A call that is given up leaves no dial behind. Otherwise a session could have the mediator dial any number of
// connections at once.
func TestGivenUpDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var resolver hanging
		transport := upstream.NewTransport(upstream.Options{Dialer: upstream.Dialer{Resolver: &resolver}})
		defer transport.CloseIdleConnections()
		for _, call := range []string{"GET http", "GET https", "DELETE https"} { // the last has a connection of its own
			method, scheme, _ := strings.Cut(call, " ")
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, method, scheme+"://a.example.com/", nil)
			must(t, err)
			ended := make(chan error)
			go func() { //nolint:bodyclose // there is no answer
				_, err := transport.RoundTrip(r)
				ended <- err
			}()
			synctest.Wait()
			if resolver.waiting.Load() != 1 {
				t.Fatalf("%s: %d dials", call, resolver.waiting.Load())
			}
			cancel()
			wantCode(t, <-ended, "client_gone")
			synctest.Wait()
			if n := resolver.waiting.Load(); n != 0 {
				t.Errorf("%s: %d dials are left", call, n)
			}
		}
	})
}
