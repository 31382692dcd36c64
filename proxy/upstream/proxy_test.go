package upstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
	"github.com/actionproof/mediator/test/tlstest"
)

const password = "the-password"

func login() (string, error) { return "mediator:" + password, nil }

// answers serves each CONNECT with text.
func answers(text string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, text) }
}

// through makes a transport that knows a.example.com and takes a proxy.
func through(t *testing.T, up *httptest.Server, p *upstream.Proxy) *upstream.Transport {
	t.Helper()
	transport := upstream.NewTransport(upstream.Options{
		Dialer: upstream.Dialer{Proxy: p, Resolver: names{
			"a.example.com": {loopback}, "two.example.com": {netip.MustParseAddr("127.0.0.2"), loopback},
		}, Hosts: []upstream.Host{
			{Name: "a.example.com", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			{Name: "two.example.com", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			{Name: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		}},
		RootCAs: poolOf(&proxytest.Upstream{Server: up}),
	})
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// TestProxyFails has proxies that fail in every way. Nothing reaches the upstream, and no error repeats a secret.
func TestProxyFails(t *testing.T) {
	up := newUpstream(t, nil, http1)
	t.Cleanup(up.Close)
	plain := func(serve func(net.Conn, *http.Request)) *upstream.Proxy { return proxytest.Above(t, nil, serve) }
	asks := "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nProxy-Authenticate: secret words\r\n\r\n"
	secured := func(change func(*tls.Config)) *upstream.Proxy {
		p := proxytest.Above(t, func() *tls.Certificate { return &up.TLS.Certificates[0] },
			answers("HTTP/1.1 403 No\r\n\r\n"))
		p.TLS = &tls.Config{ServerName: "127.0.0.1", RootCAs: poolOf(up), MinVersion: tls.VersionTLS12}
		change(p.TLS)
		return p
	}
	nowhere := plain(answers(""))
	nowhere.Port = 1
	unknown := plain(answers(""))
	unknown.Host = "proxy.example.com"
	withLogin := func(p *upstream.Proxy, digest bool) *upstream.Proxy {
		p.Login, p.Digest = login, digest
		return p
	}
	noFile := plain(answers(asks))
	noFile.Login = func() (string, error) { return "", errors.New("no file") }
	plainTLS := plain(answers("HTTP/1.1 403 No\r\n\r\n"))
	plainTLS.TLS = &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	silent := plain(func(c net.Conn, _ *http.Request) { _, _ = io.Copy(io.Discard, c) })
	silent.Timeout = 100 * time.Millisecond
	for name, tt := range map[string]struct {
		proxy      *upstream.Proxy
		code, says string
	}{
		"refusal":                 {plain(answers("HTTP/1.1 403 No\r\n\r\n")), "upstream_proxy_refused", "answered 403"},
		"redirect":                {plain(answers("HTTP/1.1 302 No\r\nLocation: http://a.example/\r\n\r\n")), "upstream_proxy_refused", "302"},
		"no tunnel":               {plain(answers("HTTP/1.1 503 No\r\n\r\n")), "upstream_unreachable", "the upstream proxy answered 503"},
		"407 without credentials": {plain(answers(asks)), "upstream_proxy_login", "Basic or an unknown scheme"},
		"407 for credentials":     {withLogin(plain(answers(asks)), false), "upstream_proxy_login", "does not accept"},
		"no Digest":               {withLogin(plain(answers(asks)), true), "upstream_proxy_login", "no Digest"},
		"an unknown Digest": {withLogin(plain(answers("HTTP/1.1 407 No\r\nProxy-Authenticate: Digest realm=\"x\", nonce=\"x\", "+
			"algorithm=NONE\r\n\r\n")), true), "upstream_proxy_login", "no Digest"},
		"no credentials":    {noFile, "upstream_proxy_login", "cannot be read"},
		"nobody listens":    {nowhere, "upstream_proxy_unreachable", "connection refused"},
		"unknown name":      {unknown, "upstream_proxy_unreachable", "resolved"},
		"silence":           {silent, "upstream_proxy_unreachable", "too long"},
		"a closed one":      {plain(answers("")), "upstream_proxy_unreachable", "without an answer"},
		"half an answer":    {plain(answers("HTTP/1.1 200 OK\r\nA: b")), "upstream_proxy_unreachable", "without an answer"},
		"garbage":           {plain(answers("SSH-2.0-OpenSSH\r\n\r\n")), "upstream_proxy_malformed", "not HTTP"},
		"10 MB of header":   {plain(answers("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 10<<20))), "upstream_proxy_malformed", "64 KiB"},
		"no final status":   {plain(answers("HTTP/1.1 100 Continue\r\n\r\n")), "upstream_proxy_malformed", "100"},
		"more than a 200":   {plain(answers("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")), "upstream_proxy_malformed", "before"},
		"TLS, over HTTP":    {plainTLS, "upstream_proxy_malformed", "handshake"},
		"unknown authority": {secured(func(c *tls.Config) { c.RootCAs = nil }), "upstream_proxy_untrusted", "certificate"},
		"another's certificate": {secured(func(c *tls.Config) { c.ServerName = "proxy.example.net" }), "upstream_proxy_untrusted",
			"certificate"},
		"refusal over TLS": {secured(func(*tls.Config) {}), "upstream_proxy_refused", "403"},
	} {
		t.Run(name, func(t *testing.T) {
			var tried []string
			tt.proxy.Tried = func(code string) { tried = append(tried, code) }
			//nolint:bodyclose // no answer
			_, err := get(t, through(t, up.Server, tt.proxy), "https://"+at(0, up.Server))
			wantCode(t, err, tt.code, tt.says)
			check.WantEqual(t, tried, []string{tt.code})
			var refused *refusal.Refusal
			if errors.As(err, &refused); strings.Contains(err.Error(), password) ||
				strings.Contains(err.Error(), "secret words") || strings.Contains(refused.Public(), "127.0.0.1") {
				t.Errorf("the error says too much: %v", err)
			}
		})
	}
	if n := up.Conns.Load(); n != 0 {
		t.Errorf("%d connections reached the upstream", n)
	}
}

// The proxy switches to another certificate between two connections.
func TestProxySwitchesCertificate(t *testing.T) {
	up := newUpstream(t, nil, http1)
	t.Cleanup(up.Close)
	shown := make([]*tls.Certificate, 2)
	for i := range shown {
		other, err := tls.X509KeyPair(tlstest.New(t).Certify(t, func(c *x509.Certificate) {
			c.DNSNames, c.URIs = []string{"proxy.example.com"}, nil
		}, "spiffe://example.org/proxy"))
		must(t, err)
		other.Leaf, err = x509.ParseCertificate(other.Certificate[0])
		must(t, err)
		shown[i] = &other
	}
	var now atomic.Pointer[tls.Certificate]
	now.Store(shown[0])
	p := proxytest.Above(t, now.Load, func(c net.Conn, _ *http.Request) {
		proxytest.Tunnel(t, c, up.Listener.Addr().String())
	})
	roots := x509.NewCertPool()
	roots.AddCert(shown[0].Leaf)
	p.TLS = &tls.Config{ServerName: "proxy.example.com", RootCAs: roots, MinVersion: tls.VersionTLS12}
	transport := through(t, up.Server, p)
	for _, code := range []string{"", "upstream_proxy_untrusted"} {
		resp, err := get(t, transport, "https://"+at(0, up.Server))
		if code != "" {
			wantCode(t, err, code)
			break
		}
		must(t, err)
		wantBody(t, resp, "GET /")
		transport.CloseIdleConnections()
		now.Store(shown[1])
	}
}

// Each CONNECT names the address that was judged, or the name where the proxy resolves.
func TestProxyTargets(t *testing.T) {
	up := newUpstream(t, nil, http2)
	t.Cleanup(up.Close)
	_, port, _ := net.SplitHostPort(up.Listener.Addr().String())
	for name, tt := range map[string]struct {
		host   string
		except []string
		change func(*upstream.Proxy)
		via    upstream.Via // that the rule demands
		want   string       // the CONNECT's target
		way    upstream.Via
		code   string
	}{
		"a name":              {host: "a.example.com", want: "127.0.0.1", way: "proxy"},
		"an address":          {host: "127.0.0.1", want: "127.0.0.1", way: "proxy"},
		"an excepted name":    {host: "a.example.com", except: []string{"example.com"}, way: "direct"},
		"an excepted network": {host: "a.example.com", except: []string{"127.0.0.0/8"}, way: "direct"},
		"another network": {host: "a.example.com", except: []string{"127.1.0.0/16"}, want: "127.0.0.1",
			way: "proxy"},
		"a rule for the proxy": {host: "a.example.com", except: []string{"*"}, via: "proxy", want: "127.0.0.1",
			way: "proxy"},
		"a rule against it": {host: "a.example.com", via: "direct", way: "direct"},
		"a denied address":  {host: "private.example.com", code: "egress_address_denied"},
		"a resolving proxy": {host: "a.example.com", change: resolves, want: "a.example.com",
			way: "resolving-proxy"},
		"an unknown name": {host: "unknown.example.com", code: "upstream_unresolvable"},
		"a name that it knows": {host: "unknown.example.com", change: resolves, want: "unknown.example.com",
			way: "resolving-proxy"},
		"an address for it":        {host: "127.0.0.1", change: resolves, want: "127.0.0.1", way: "proxy"},
		"a private address for it": {host: "10.0.0.1", change: resolves, code: "egress_address_denied"},
		"metadata for it":          {host: "169.254.169.254", change: resolves, code: "egress_address_denied"},
		"localhost":                {host: "localhost", change: resolves, code: "egress_address_denied"},
		"one below localhost":      {host: "a.localhost", change: resolves, code: "egress_address_denied"},
		"one of the link":          {host: "printer.local", change: resolves, code: "egress_address_denied"},
		"a Kubernetes service":     {host: "api.default.svc", change: resolves, code: "egress_address_denied"},
		"an internal one":          {host: "metadata.google.internal", change: resolves, code: "egress_address_denied"},
		"a home's":                 {host: "router.home.arpa", change: resolves, code: "egress_address_denied"},
		"one without a dot":        {host: "intranet", change: resolves, code: "egress_address_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			got := ""
			p := proxytest.Above(t, nil, func(c net.Conn, connect *http.Request) {
				mu.Lock()
				got = connect.Host
				mu.Unlock()
				proxytest.Tunnel(t, c, up.Listener.Addr().String())
			})
			var err error
			p.Except, err = upstream.ParseExceptions(tt.except)
			must(t, err)
			if tt.change != nil {
				tt.change(p)
			}
			dialer := upstream.Dialer{Proxy: p, Resolver: names{"a.example.com": {loopback},
				"private.example.com": {netip.MustParseAddr("10.0.0.1")}},
				Hosts: []upstream.Host{{Name: "a.example.com",
					Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
					{Name: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
			c, way, err := upstream.Dial(upstream.WithVia(t.Context(), tt.via), &dialer,
				net.JoinHostPort(tt.host, port))
			if tt.code != "" {
				wantCode(t, err, tt.code)
				return
			}
			must(t, err)
			defer c.Close()
			mu.Lock()
			defer mu.Unlock()
			if want := tt.want + ":" + port; tt.want != "" && got != want || tt.want == "" && got != "" ||
				way != tt.way {
				t.Errorf("CONNECT %q, way %q", got, way)
			}
		})
	}
}

func resolves(p *upstream.Proxy) { p.Resolves = true }

// No call reaches the proxy itself, by any name, through the proxy or directly.
func TestProxyIsNoTarget(t *testing.T) {
	up := newUpstream(t, nil, http1)
	t.Cleanup(up.Close)
	for _, way := range []upstream.Via{upstream.ViaDirect, upstream.ViaProxy} {
		for _, change := range []func(*upstream.Proxy){func(*upstream.Proxy) {}, resolves} {
			p := proxytest.Above(t, nil, answers("HTTP/1.1 200 OK\r\n\r\n"))
			change(p)
			to := upstream.Target{Host: "127.0.0.1", Port: p.Port}
			d := upstream.Dialer{Proxy: p, Hosts: []upstream.Host{
				{Name: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
			_, err := d.DialContext(upstream.WithVia(t.Context(), way), "tcp", to.Address())
			wantCode(t, err, "egress_address_denied", "upstream proxy")
		}
	}
	p := proxytest.Above(t, nil, answers(""))
	d := upstream.Dialer{Proxy: p, Own: []netip.AddrPort{netip.AddrPortFrom(loopback, p.Port)},
		Resolver: names{"a.example.com": {netip.MustParseAddr("192.0.9.1")}}}
	_, err := d.DialContext(t.Context(), "tcp", "a.example.com:443")
	wantCode(t, err, "upstream_proxy_unreachable", "mediator's own")
}

// The second address of a host is tried if the proxy cannot reach the first.
func TestProxyTriesAddresses(t *testing.T) {
	up := newUpstream(t, nil, http1)
	t.Cleanup(up.Close)
	p := proxytest.Above(t, nil, func(c net.Conn, connect *http.Request) {
		if strings.HasPrefix(connect.Host, "127.0.0.2:") {
			answers("HTTP/1.1 503 No\r\n\r\n")(c, connect)
			return
		}
		proxytest.Tunnel(t, c, up.Listener.Addr().String())
	})
	resp, err := get(t, through(t, up.Server, p), strings.Replace(up.URL, "127.0.0.1", "two.example.com", 1))
	if check.CodeOf(err) == "upstream_certificate_untrusted" {
		return // the certificate has another name; the connection was made
	}
	must(t, err)
	wantBody(t, resp, "GET /")
}

// TestExceptions compares with what Go's own proxy settings make of NO_PROXY.
func TestExceptions(t *testing.T) {
	for _, word := range []string{"*", "example.org", ".example.org", "*.example.org", "EXAMPLE.org", "example.org:8443",
		"192.0.2.1", "192.0.2.1:443", "192.0.2.0/24", "2001:db8::1", "2001:db8::/32", "[2001:db8::1]:443"} {
		list, err := upstream.ParseExceptions([]string{word})
		must(t, err)
		theirs := (&httpproxy.Config{HTTPSProxy: "http://proxy.example.com", NoProxy: word}).ProxyFunc()
		for _, host := range []string{"example.org", "a.example.org", "b.a.example.org", "anexample.org", "example.com",
			"192.0.2.1", "192.0.2.2", "192.0.3.1", "2001:db8::1", "2001:db8::2", "2001:db9::1"} {
			for _, port := range []uint16{443, 8443} {
				to := upstream.Target{Scheme: "https", Host: host, Port: port}
				q, err := http.NewRequest(http.MethodGet, "https://"+to.Address(), http.NoBody)
				must(t, err)
				proxy, err := theirs(q.URL)
				must(t, err)
				if carries := (&upstream.Proxy{Except: list}).Carries("", host, port); carries != (proxy != nil) {
					t.Errorf("NO_PROXY=%s: %s takes the proxy: %t", word, to.Address(), carries)
				}
			}
		}
	}
	for _, word := range []string{"", " ", "*example.org", "**", "10.0.0.0/33", "http://example.org", "a@example.org",
		"example.org:", "example.org:0", "10.1", "10.0.0.0-10.0.0.9", "example.org,example.com", "*:443"} {
		if _, err := upstream.ParseExceptions([]string{word}); err == nil {
			t.Errorf("%q is accepted", word)
		}
	}
}
