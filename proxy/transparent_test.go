package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// redirect returns what makes connections to the proxy that, as the kernel would say, were made to original.
func (r *rig) Redirect(original string) func() net.Conn {
	r.T.Helper()
	to := netip.MustParseAddrPort(original)
	r.Proxy.tunnels.original = func(net.Conn) (netip.AddrPort, error) { return to, nil }
	return r.ServeTransparent()
}

func (r *rig) ServeTransparent() func() net.Conn {
	r.T.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.T, err)
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
		c, err := net.Dial("tcp", l.Addr().String())
		must(r.T, err)
		r.T.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // a bound for a broken test, not a measure
		return c
	}
}

// redirected returns a client whose connections come out of dial.
func (r *rig) Redirected(dial func() net.Conn, protocols ...string) *http.Client {
	tr := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
		TLSClientConfig: &tls.Config{RootCAs: r.Roots(), NextProtos: protocols},
		Protocols:       new(http.Protocols),
	}
	for _, p := range protocols {
		switch p {
		case "h2":
			tr.Protocols.SetHTTP2(true)
		case "h2c":
			tr.Protocols.SetUnencryptedHTTP2(true)
		default:
			tr.Protocols.SetHTTP1(true)
		}
	}
	r.T.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// describing answers with where a request goes.
func describing(w http.ResponseWriter, r *http.Request) {
	route, _ := RouteFrom(r.Context())
	_, _ = io.WriteString(w, route.Target.String()+" "+route.Original.String()+" "+r.Proto+" "+r.URL.String())
}

func TestRedirectedConnections(t *testing.T) {
	for _, tt := range []struct{ name, original, protocol, url, want string }{
		{"HTTPS", "192.0.2.7:443", "http/1.1", "https://a.example/x", "https://a.example 192.0.2.7:443 HTTP/1.1 https://a.example/x"},
		{"HTTP/2", "192.0.2.7:443", "h2", "https://a.example/x", "https://a.example 192.0.2.7:443 HTTP/2.0 https://a.example/x"},
		{"HTTPS to another port", "192.0.2.7:8443", "http/1.1", "https://a.example:8443/x", "https://a.example:8443 192.0.2.7:8443 HTTP/1.1 https://a.example:8443/x"},
		{"HTTPS to an address", "192.0.2.7:443", "http/1.1", "https://192.0.2.7/x", "https://192.0.2.7 192.0.2.7:443 HTTP/1.1 https://192.0.2.7/x"},
		{"HTTP", "192.0.2.7:80", "http/1.1", "http://a.example/x", "http://a.example 192.0.2.7:80 HTTP/1.1 http://a.example/x"},
		{"HTTP to an address", "192.0.2.7:80", "http/1.1", "http://192.0.2.7/x", "http://192.0.2.7 192.0.2.7:80 HTTP/1.1 http://192.0.2.7/x"},
		{"HTTP/2 with prior knowledge", "192.0.2.7:80", "h2c", "http://a.example/x", "http://a.example 192.0.2.7:80 HTTP/2.0 http://a.example/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Handler = http.HandlerFunc(describing) })
			client := r.Redirected(r.Redirect(tt.original), tt.protocol)
			for range 2 {
				resp, err := client.Get(tt.url)
				must(t, err)
				wantBody(t, resp, tt.want)
			}
		})
	}
}

// A redirected cleartext connection carries requests to several hosts as a proxy connection does: each is judged by itself.
func TestRedirectedHostsAreJudgedOneByOne(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Handler = http.HandlerFunc(describing)
		o.Connect = func(r *http.Request, t Target) (context.Context, error) {
			if t.Host == "b.example" {
				return nil, errors.New("b is refused")
			}
			return r.Context(), nil
		}
	})
	c := r.Redirect("192.0.2.7:80")()
	for _, host := range []string{"a.example", "c.example:80"} {
		wantBody(t, roundTripRaw(t, c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), "http://"+strings.TrimSuffix(host, ":80")+" 192.0.2.7:80 HTTP/1.1 http://"+strings.TrimSuffix(host, ":80")+"/")
	}
	wantAnswer(t, roundTripRaw(t, c, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"), nil, "internal")
}

func TestRedirectedRequestsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, original, head, code string }{
		{"another port", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: a.example:8080", "target_mismatch"},
		{"another address", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: 192.0.2.8", "target_mismatch"},
		{"no host", "192.0.2.7:80", "GET / HTTP/1.0\r\nX: y", "target_mismatch"},
		{"decimal address", "192.0.2.7:80", "GET / HTTP/1.1\r\nHost: 3221225991", "target_invalid"},
		{"absolute form to another host", "192.0.2.7:80", "GET http://b.example/ HTTP/1.1\r\nHost: a.example", ""},
		{"absolute form of another scheme", "192.0.2.7:80", "GET https://a.example/ HTTP/1.1\r\nHost: a.example", "target_mismatch"},
		{"CONNECT", "192.0.2.7:80", "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example", "target_mismatch"},
		{"without TLS to port 443", "192.0.2.7:443", "GET / HTTP/1.1\r\nHost: a.example:443", "cleartext_refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Handler = http.HandlerFunc(describing) })
			resp := roundTripRaw(t, r.Redirect(tt.original)(), tt.head+"\r\n\r\n")
			if tt.code == "" { // net/http makes the absolute form the Host: the same as for a proxy
				wantBody(t, resp, "http://b.example 192.0.2.7:80 HTTP/1.1 http://b.example/")
				return
			}
			wantAnswer(t, resp, nil, tt.code)
		})
	}
}

func TestRedirectedConnectionsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(r *rig, c net.Conn)
		code string
	}{
		{"another protocol", func(_ *rig, c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n") }, "not_http"},
		{"bytes", func(_ *rig, c net.Conn) { _, _ = c.Write([]byte{0, 1, 2}) }, "not_http"},
		{"a method without end", func(_ *rig, c net.Conn) { _, _ = io.WriteString(c, strings.Repeat("A", 1000)) }, "not_http"},
		{"half a method", func(_ *rig, c net.Conn) { _, _ = io.WriteString(c, "GE"); _ = c.(*net.TCPConn).CloseWrite() }, "not_http"},
		{"half a handshake", func(_ *rig, c net.Conn) {
			_, _ = c.Write([]byte{0x16, 3, 1, 0, 200, 1})
			_ = c.(*net.TCPConn).CloseWrite()
		}, "tls_handshake_failed"},
		{"no handshake", func(_ *rig, c net.Conn) { _, _ = c.Write([]byte{0x16, 3, 1, 0, 4, 9, 0, 0, 0}) }, "tls_handshake_failed"},
		{"SNI that no host has", func(_ *rig, c net.Conn) {
			_ = tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "a..example"}).Handshake()
		}, "target_invalid"},
		{"CA not trusted", func(_ *rig, c net.Conn) { _ = tls.Client(c, &tls.Config{ServerName: "a.example"}).Handshake() }, "tls_handshake_failed"},
		{"refused host", func(r *rig, c net.Conn) {
			_ = tls.Client(c, &tls.Config{ServerName: "refused.example", RootCAs: r.Roots()}).Handshake()
		}, "internal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) {
				o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request got through") })
				o.Connect = func(r *http.Request, t Target) (context.Context, error) {
					if t.Host == "refused.example" {
						return nil, errors.New("refused")
					}
					return r.Context(), nil
				}
			})
			c := r.Redirect("192.0.2.7:443")()
			tt.send(r, c)
			if err := <-r.Ended; codeOf(err) != tt.code {
				t.Errorf("got the code %s (%v), want %s", codeOf(err), err, tt.code)
			}
			if n, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Errorf("the connection stays open after %d bytes", n)
			}
		})
	}
}

// One authority for a whole HTTP/2 connection: the name in its handshake.
func TestRedirectedAuthority(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Handler = http.HandlerFunc(describing) })
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

// Nobody who connects to the transparent listener itself has an original destination.
func TestNotRedirected(t *testing.T) {
	r := newRig(t, nil)
	c := r.ServeTransparent()()
	wantCode(t, <-r.Ended, "not_redirected")
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection stays open: %v", err)
	}
}

func TestProbe(t *testing.T) {
	seen := make(chan string, 1)
	r := newRig(t, func(o *Options) {
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

// A silent client is not reported, and goes with the proxy.
func TestShutdownEndsRedirectedConnections(t *testing.T) {
	r := newRig(t, nil)
	dial := r.Redirect("192.0.2.7:443")
	silent, hello := dial(), dial()
	_, _ = hello.Write([]byte{recordTypeHandshake})
	for r.openTunnels() != 2 {
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

func (r *rig) openTunnels() int {
	r.Proxy.tunnels.mu.Lock()
	defer r.Proxy.tunnels.mu.Unlock()
	return r.Proxy.tunnels.count
}

func TestRedirectedCallsPassTheChokePoint(t *testing.T) {
	dialled := netip.MustParseAddr("192.0.2.7")
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) {
		o.Destination = func(_ context.Context, target Target, got netip.Addr) error {
			return (&Dialer{Resolver: names{target.Host: {netip.MustParseAddr("192.0.2.1"), dialled}}}).checkDestination(context.Background(), target, got)
		}
	})
	port := p.base[strings.LastIndex(p.base, ":"):]
	post := func(t *testing.T, client *http.Client) *http.Response {
		t.Helper()
		resp, err := client.Post(p.base+"/posts", "application/json", strings.NewReader(`{}`))
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	client := p.Redirected(p.Redirect(dialled.String()+port), "http/1.1")
	if resp := post(t, client); resp.StatusCode != http.StatusCreated {
		t.Errorf("status %d", resp.StatusCode)
	}
	if rec, n := p.record.last(); n != 1 || rec.State != ledger.StateForwarded {
		t.Errorf("%d records, %+v", n, rec)
	}
	client.CloseIdleConnections()

	refused := func(t *testing.T, name, code string) {
		t.Helper()
		_, before := p.record.last()
		c := p.Redirect("192.0.2.7" + port)()
		if err := tls.Client(c, &tls.Config{ServerName: name, RootCAs: p.Roots()}).Handshake(); err == nil {
			t.Fatal("the handshake succeeded")
		}
		rec, n := p.record.last()
		if n != before+1 || rec.Code != code || rec.State != ledger.StateRefused || rec.Flow != flowConnect {
			t.Errorf("%d records, %+v", n-before, rec)
		}
	}
	refused(t, "elsewhere.example.org", "egress_denied")
	dialled = netip.MustParseAddr("192.0.2.9")
	refused(t, "a.example.com", "destination_mismatch")
	p.sessions.Close(p.session.ID)
	refused(t, "a.example.com", "session_required")
	if len(p.sent) != 1 {
		t.Errorf("the upstream saw %d calls", len(p.sent))
	}
}

func TestCheckDestination(t *testing.T) {
	d := &Dialer{
		Resolver:  names{"a.example": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.2")}},
		Upstreams: []Upstream{{Host: "pinned.example", Address: netip.MustParseAddrPort("192.0.2.3:8443")}},
	}
	for _, tt := range []struct{ host, dialled, code string }{
		{"a.example", "192.0.2.1", ""},
		{"a.example", "192.0.2.2", ""},
		{"a.example", "192.0.2.3", "destination_mismatch"},
		{"pinned.example", "192.0.2.3", ""},
		{"pinned.example", "192.0.2.1", "upstream_unresolvable"},
		{"192.0.2.4", "192.0.2.4", ""},
		{"192.0.2.4", "192.0.2.5", "destination_mismatch"},
	} {
		err := d.checkDestination(context.Background(), Target{"https", tt.host, 443}, netip.MustParseAddr(tt.dialled))
		if tt.code != "" {
			wantCode(t, err, tt.code)
		} else if err != nil {
			t.Errorf("%s at %s: %v", tt.host, tt.dialled, err)
		}
	}
}

// HTTP/2 with prior knowledge is served inside a CONNECT as well, by the same choke point.
func TestPriorKnowledgeInATunnel(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Handler = http.HandlerFunc(describing) })
	client := r.Redirected(func() net.Conn { return r.Connect("a.example:80") }, "h2c")
	resp, err := client.Get("http://a.example/x")
	must(t, err)
	wantBody(t, resp, "http://a.example invalid AddrPort HTTP/2.0 http://a.example/x")
	q, err := http.NewRequest(http.MethodGet, "http://a.example/", nil)
	must(t, err)
	q.Host = "b.example"
	resp, err = client.Do(q)
	wantAnswer(t, resp, err, "target_mismatch")
	c := r.Connect("a.example:443")
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
	wantAnswer(t, readRaw(t, bufio.NewReader(c), "GET"), nil, "cleartext_refused")
}
