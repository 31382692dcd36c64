package intercept_test

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/cryptobyte"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/resolver"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// describing answers with a request's destination.
func describing(w http.ResponseWriter, r *http.Request) {
	route, _ := intercept.RouteFrom(r.Context())
	_, _ = io.WriteString(w, route.Target.String()+" "+route.Original.String()+" "+r.Proto+" "+r.URL.String())
}

func TestRedirectedConnections(t *testing.T) {
	for _, tt := range []struct{ original, protocol, version, url string }{
		{"192.0.2.7:443", "http/1.1", "HTTP/1.1", "https://a.example"},
		{"192.0.2.7:443", "h2", "HTTP/2.0", "https://a.example"},
		{"192.0.2.7:8443", "http/1.1", "HTTP/1.1", "https://a.example:8443"},
		{"192.0.2.7:443", "http/1.1", "HTTP/1.1", "https://192.0.2.7"},
		{"192.0.2.7:80", "http/1.1", "HTTP/1.1", "http://a.example"},
		{"192.0.2.7:80", "http/1.1", "HTTP/1.1", "http://192.0.2.7"},
	} {
		t.Run(tt.protocol+" "+tt.url, func(t *testing.T) {
			r := newRig(t, serving(describing))
			client := r.Redirected(r.Redirect(tt.original), tt.protocol)
			for range 2 {
				resp, err := client.Get(tt.url + "/x")
				must(t, err)
				wantBody(t, resp, tt.url+" "+tt.original+" "+tt.version+" "+tt.url+"/x")
			}
		})
	}
}

func TestRedirectedHostsAreJudgedOneByOne(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) {
		o.Handler = http.HandlerFunc(describing)
		o.Connect = func(r *http.Request, t upstream.Target) (context.Context, error) {
			if t.Host == "b.example" {
				return nil, errors.New("b is refused")
			}
			return r.Context(), nil
		}
	})
	c := r.Redirect("192.0.2.7:80")()
	for _, host := range []string{"a.example", "c.example:80"} {
		wantBody(t, roundTripRaw(t, c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"),
			"http://"+strings.TrimSuffix(host, ":80")+" 192.0.2.7:80 HTTP/1.1 http://"+strings.TrimSuffix(host,
				":80")+"/")
	}
	wantAnswer(t, roundTripRaw(t, c, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"), nil, "internal")
}

var long = strings.Repeat("a.", 148) + "test"

func TestRedirectedRequestsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, original, head, code string }{
		{"a name of 300 bytes", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: " + long, "request_malformed"},
		{"another port", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: a.example:8080", "target_mismatch"},
		{"another address", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: 192.0.2.8", "target_mismatch"},
		{"no host", "192.0.2.7:80", "GET / HTTP/1.0\r\nX: y", "target_mismatch"},
		{"decimal address", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: 3221225991", "request_malformed"},
		{"absolute form to another host", "192.0.2.7:80", "GET http://b.example/ HTTP/1.1\r\nHost: a.example", ""},
		{"absolute form of another scheme", "192.0.2.7:80", "GET https://a.example/ HTTP/1.1\r\nHost: a.example",
			"target_mismatch"},
		{"CONNECT", "192.0.2.7:80", "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example", "target_mismatch"},
		{"without TLS to port 443", "192.0.2.7:443", "GET / HTTP/1.1\r\nHost: a.example:443", "not_http"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, serving(describing))
			resp := roundTripRaw(t, r.Redirect(tt.original)(), tt.head+"\r\n\r\n")
			if tt.code == "" { // net/http makes it the Host, as for a proxy
				wantBody(t, resp, "http://b.example 192.0.2.7:80 HTTP/1.1 http://b.example/")
				return
			}
			wantAnswer(t, resp, nil, tt.code)
		})
	}
}

func TestRedirectedConnectionsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		text       string // or a handshake
		config     *tls.Config
	}{
		{"a query", "upstream_unresolvable",
			"\x00\x13\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01x\x00\x00\x10\x00\x01", nil},
		{"half a query", "not_http", "\x00\x13\x00\x07", nil},
		{"another protocol", "not_http", "SSH-2.0-OpenSSH_9.9\r\n", nil},
		{"bytes", "not_http", "\x00\x01\x02", nil},
		{"a method without end", "not_http", strings.Repeat("A", 1000), nil},
		{"half a method", "not_http", "GE", nil},
		{"half a handshake", "tls_handshake_failed", "\x16\x03\x01\x00\xc8\x01", nil},
		{"no handshake", "tls_handshake_failed", "\x16\x03\x01\x00\x04\x09\x00\x00\x00", nil},
		{"a name of 300 bytes", "request_malformed", "", &tls.Config{InsecureSkipVerify: true, ServerName: long}},
		{"SNI that no host has", "request_malformed", "", &tls.Config{InsecureSkipVerify: true, ServerName: "a..example"}},
		{"CA not trusted", "tls_handshake_failed", "", &tls.Config{ServerName: "a.example"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *intercept.Options) {
				o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request got through") })
			})
			at := "192.0.2.7:443"
			if strings.Contains(tt.name, "query") {
				at = "192.0.2.7:53"
			}
			c := r.Redirect(at)()
			if tt.text == "" {
				_ = tls.Client(c, tt.config).Handshake()
			} else {
				_, _ = io.WriteString(c, tt.text)
				_ = c.(*net.TCPConn).CloseWrite()
			}
			if err := <-r.Ended; codeOf(err) != tt.code {
				t.Errorf("got the code %s (%v), want %s", codeOf(err), err, tt.code)
			}
			if n, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Errorf("the connection stays open after %d bytes", n)
			}
		})
	}
}

// An agent reads why its host is refused, in the answer to each of its requests.
func TestRedirectedHostThatIsRefused(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		r := newRig(t, func(o *intercept.Options) {
			o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request got through") })
			o.Connect = func(*http.Request, upstream.Target) (context.Context, error) {
				return nil, refusal.New("egress_denied", "denied")
			}
		})
		client := r.Redirected(r.Redirect("192.0.2.7:443"), protocol)
		for range 2 {
			resp, err := client.Get("https://refused.example/")
			wantAnswer(t, resp, err, "egress_denied")
		}
	}
}

// A client that waits for the server to speak reads why its connection is refused.
func TestGreetings(t *testing.T) {
	for _, tt := range []struct {
		at, want string
		tls      bool
	}{
		{"192.0.2.7:587", "554 not_http: ", false}, {"192.0.2.7:143", "* BYE not_http: ", false},
		{"192.0.2.7:465", "554 egress_denied: ", true}, {"192.0.2.7:995", "-ERR egress_denied: ", true},
	} {
		r := newRig(t, func(o *intercept.Options) {
			o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request got through") })
			o.Connect = func(*http.Request, upstream.Target) (context.Context, error) {
				return nil, refusal.New("egress_denied", "denied")
			}
			o.Refuse = func(w http.ResponseWriter, r *http.Request, err error) {
				problem.ForAgent(err, "").AnswerByProxy(w, r)
			}
		})
		c := r.Redirect(tt.at)()
		if tt.tls {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "mail.example"})
		}
		if said, err := io.ReadAll(c); !strings.HasPrefix(string(said), tt.want) || !strings.HasSuffix(string(said), "\r\n") {
			t.Errorf("%s: %q, %v", tt.at, said, err)
		}
	}
}

// TestAddressesOfTheResolver wants a connection to an address that a run's resolver gave to name the host. Of two hosts
// with one address it goes to the named one.
func TestAddressesOfTheResolver(t *testing.T) {
	at := netip.AddrPortFrom(resolver.Address("a.example"), 443).String()
	twin, n := "", 0
	for ; twin == "" || resolver.Address(twin) != resolver.Address("a.example"); n++ {
		twin = fmt.Sprintf("a%d.example", n)
	}
	for _, tt := range []struct{ name, code string }{{"a.example", ""}, {twin, ""}, {"b.example", "target_mismatch"},
		{"", "target_mismatch"}} {
		r := newRig(t, serving(describing))
		c := tls.Client(r.Redirect(at)(), &tls.Config{InsecureSkipVerify: true, ServerName: tt.name})
		if err := c.Handshake(); (err == nil) != (tt.code == "") {
			t.Errorf("%q: %v", tt.name, err)
		}
		if tt.code != "" {
			wantCode(t, <-r.Ended, tt.code)
		} else {
			url := "https://" + tt.name
			wantBody(t, roundTripRaw(t, c, "GET / HTTP/1.1\r\nHost: "+tt.name+"\r\n\r\n"),
				url+" "+at+" HTTP/1.1 "+url+"/")
		}
		_ = c.Close()
	}
	for _, tt := range []struct{ head, code string }{{"GET / HTTP/1.1\r\nHost: b.example", "target_mismatch"},
		{"GET / HTTP/1.0", "target_mismatch"}} {
		r := newRig(t, serving(describing))
		resp := roundTripRaw(t, r.Redirect(netip.AddrPortFrom(resolver.Address("a.example"), 80).String())(),
			tt.head+"\r\n\r\n")
		wantAnswer(t, resp, nil, tt.code)
	}
}

// A client that encrypts the name of its ClientHello shows an outer one, which is judged. It then tries
// again without, because the server of that name does not decrypt.
func TestEncryptedClientHello(t *testing.T) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	must(t, err)
	const outer = "outer.example"
	var b cryptobyte.Builder
	b.AddUint16LengthPrefixed(func(list *cryptobyte.Builder) {
		list.AddUint16(0xfe0d) // RFC 9849 section 4
		list.AddUint16LengthPrefixed(func(c *cryptobyte.Builder) {
			c.AddUint8(1)
			c.AddUint16(0x20) // DHKEM(X25519, HKDF-SHA256)
			c.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(key.PublicKey().Bytes()) })
			// HKDF-SHA256, AES-128-GCM
			c.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint32(1<<16 | 1) })
			c.AddUint8(0)
			c.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(outer)) })
			c.AddUint16(0)
		})
	})
	for _, tt := range []struct{ at, protocol, code string }{{"inner.example", "", "target_mismatch"},
		{outer, "", "tls_handshake_failed"}, {outer, "http/1.1", "tls_handshake_failed"},
		{outer, "h2", "tls_handshake_failed"}} {
		r := newRig(t, func(o *intercept.Options) {
			o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request got through") })
		})
		config := &tls.Config{ServerName: "inner.example", RootCAs: r.Roots(), MinVersion: tls.VersionTLS13,
			EncryptedClientHelloConfigList: b.BytesOrPanic()}
		if tt.protocol != "" {
			config.NextProtos = []string{tt.protocol}
		}
		c := tls.Client(r.Redirect(netip.AddrPortFrom(resolver.Address(tt.at), 443).String())(), config)
		var rejected *tls.ECHRejectionError
		if err := c.Handshake(); errors.As(err, &rejected) != (tt.at == outer) {
			t.Errorf("to the address of %s: %v", tt.at, err)
		}
		_ = c.Close()
		wantCode(t, <-r.Ended, tt.code)
	}
}

// An HTTP/2 connection has one authority: the name in its handshake.
func TestRedirectedAuthority(t *testing.T) {
	r := newRig(t, serving(describing))
	client := r.Redirected(r.Redirect("192.0.2.7:443"), "h2")
	for _, host := range []string{"b.example", "a.example:8443", "a.example@b.example"} {
		q, err := http.NewRequest(http.MethodGet, "https://a.example/", nil)
		must(t, err)
		q.Host = host
		if resp, err := client.Do(q); err == nil {
			wantAnswer(t, resp, nil, "target_mismatch")
		}
	}
}

func TestNotRedirected(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) { o.Original = nil })
	c := r.ServeTransparent()()
	wantCode(t, <-r.Ended, "not_a_proxy_request")
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection stays open: %v", err)
	}
}

// A decision has its own time. A refusal is reported once, with its own error, even if it is late.
func TestSlowDecisionOfARedirectedConnection(t *testing.T) {
	const limit = 2 * brief
	denied := refusal.New("egress_denied", "denied")
	for _, tt := range []struct {
		name, code string
		decide     func(ctx context.Context) error
	}{
		{"refuses late", "egress_denied", func(ctx context.Context) error { <-ctx.Done(); return denied }},
		{"allows late", "tls_handshake_failed", func(ctx context.Context) error { <-ctx.Done(); return nil }},
		{"allows in time", "", func(context.Context) error { time.Sleep(limit * 6 / 10); return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newBubbleRig(t, func(o *intercept.Options) {
					o.Limits.HandshakeTimeout = limit
					o.Handler = http.HandlerFunc(describing)
					o.Connect = func(r *http.Request, _ upstream.Target) (context.Context, error) {
						return r.Context(), tt.decide(r.Context())
					}
				})
				raw := r.Redirect("192.0.2.7:443")()
				_, _ = raw.Write([]byte{0x16}) // the handshake begins
				time.Sleep(limit * 6 / 10)
				c := tls.Client(&begun{Conn: raw}, &tls.Config{ServerName: "a.example", RootCAs: r.Roots()})
				if err := c.Handshake(); (err == nil) != (tt.code == "") {
					t.Errorf("handshake: %v", err)
				}
				if tt.code == "" {
					resp := roundTripRaw(t, c, "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n")
					wantBody(t, resp, "https://a.example 192.0.2.7:443 HTTP/1.1 https://a.example/x")
				} else {
					wantCode(t, <-r.Ended, tt.code)
				}
				_ = c.Close()
				must(t, r.Proxy.Shutdown(context.Background()))
				if len(r.Ended) != 0 {
					t.Errorf("told again: %v", <-r.Ended)
				}
			})
		})
	}
}

// begun omits the first byte of its first write.
type begun struct {
	net.Conn
	written bool
}

func (b *begun) Write(p []byte) (int, error) {
	if b.written {
		return b.Conn.Write(p)
	}
	b.written = true
	n, err := b.Conn.Write(p[1:])
	return n + 1, err
}

func TestPanicOfARedirectedConnection(t *testing.T) {
	hosts := make(chan string, 2)
	r := newRig(t, func(o *intercept.Options) {
		refused := o.Refused
		o.Refused = func(ctx context.Context, err error) {
			route, _ := intercept.RouteFrom(ctx)
			hosts <- route.Target.Host
			refused(ctx, err)
		}
		o.Connect = func(*http.Request, upstream.Target) (context.Context, error) { panic("on purpose") }
		o.Probe = func(original netip.AddrPort, _ net.Addr) bool {
			if original.Port() == 8443 {
				panic("on purpose")
			}
			return false
		}
	})
	for original, host := range map[string]string{"192.0.2.7:443": "a.example", "192.0.2.7:8443": ""} {
		c := r.Redirect(original)()
		if err := tls.Client(c, &tls.Config{ServerName: "a.example", RootCAs: r.Roots()}).Handshake(); err == nil ||
			isTimeout(err) {
			t.Errorf("handshake: %v", err)
		}
		wantCode(t, <-r.Ended, "internal")
		if got := <-hosts; got != host {
			t.Errorf("the host is %q, want %q", got, host)
		}
	}
	if n := r.Proxy.OpenTunnels(); n != 0 {
		t.Errorf("%d tunnels", n)
	}
}

func TestProbe(t *testing.T) {
	seen := make(chan string, 1)
	r := newRig(t, func(o *intercept.Options) {
		o.Probe = func(original netip.AddrPort, from net.Addr) bool {
			seen <- original.String() + " " + from.String()
			return true
		}
	})
	c := r.Redirect("192.0.2.7:443")()
	if got, want := <-seen, "192.0.2.7:443 "+c.LocalAddr().String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// A silent client is not reported.
func TestShutdownEndsRedirectedConnections(t *testing.T) {
	r := newRig(t, nil)
	dial := r.Redirect("192.0.2.7:443")
	silent, hello := dial(), dial()
	_, _ = hello.Write([]byte{0x16})
	for r.Proxy.OpenTunnels() != 2 {
		runtime.Gosched()
	}
	must(t, r.Proxy.Shutdown(context.Background()))
	for _, c := range []net.Conn{silent, hello} {
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a connection outlives Shutdown: %v", err)
		}
	}
	if len(r.Ended) != 0 {
		t.Errorf("reported: %v", <-r.Ended)
	}
}

// A client that has completed a handshake opens a spare connection and closes it unused: that is no refusal.
func TestSpareConnection(t *testing.T) {
	r := newRig(t, serving(describing))
	dial := r.Redirect("192.0.2.7:443")
	trusting := tls.Client(dial(), &tls.Config{RootCAs: r.Roots(), ServerName: "a.example"})
	roundTripRaw(t, trusting, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	spare := dial()
	_, _ = io.WriteString(spare, "\x16\x03\x01\x00\xc8\x01")
	_ = spare.(*net.TCPConn).CloseWrite()
	if _, err := io.Copy(io.Discard, spare); isTimeout(err) {
		t.Error("the connection stays open")
	}
	_ = tls.Client(dial(), &tls.Config{ServerName: "a.example"}).Handshake()
	if err := <-r.Ended; !strings.Contains(err.Error(), "alert") { // of the last connection
		t.Errorf("got %v", err)
	}
}
