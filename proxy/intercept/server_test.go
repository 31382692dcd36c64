package intercept_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

func TestNewRefuses(t *testing.T) {
	ca, err := intercept.NewCA(intercept.CAOptions{Now: time.Now})
	must(t, err)
	whole := intercept.Options{
		CA: ca, Handler: http.NotFoundHandler(), Refuse: testRefuse, Now: time.Now,
		Connect: func(r *http.Request, _ upstream.Target) (context.Context, error) { return r.Context(), nil },
	}
	for name, spoil := range map[string]func(*intercept.Options){
		"CA":               func(o *intercept.Options) { o.CA = nil },
		"Handler":          func(o *intercept.Options) { o.Handler = nil },
		"Connect":          func(o *intercept.Options) { o.Connect = nil },
		"Refuse":           func(o *intercept.Options) { o.Refuse = nil },
		"Now":              func(o *intercept.Options) { o.Now = nil },
		"negative timeout": func(o *intercept.Options) { o.Limits.IdleTimeout = -1 },
		"negative number":  func(o *intercept.Options) { o.Limits.Tunnels = -1 },
	} {
		o := whole
		spoil(&o)
		if _, err := intercept.New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := intercept.New(whole); err != nil {
		t.Error(err)
	}
}

func TestPlainRequests(t *testing.T) {
	r := newRig(t, serving(func(w http.ResponseWriter, r *http.Request) {
		route, _ := intercept.RouteFrom(r.Context())
		if len(r.Header["Proxy-Authorization"])+len(r.Header["Proxy-Connection"]) > 0 || route.Intercepted {
			t.Errorf("header %v, route %v", r.Header, route)
		}
		_, _ = io.WriteString(w, route.Target.String()+" "+route.ProxyAuthorization+" "+r.URL.String()+" "+r.Host)
	}))
	for _, test := range []struct{ head, code, body string }{
		{
			"GET http://A.example/x?y=1 HTTP/1.1\r\nHost: ignored\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: " +
				"keep-alive", "", "http://a.example Basic eDp5 http://a.example/x?y=1 a.example"},
		{"GET http://a.example:80 HTTP/1.1\r\nHost: ignored", "", "http://a.example  http://a.example/ a.example"},
		{"GET https://a.example/ HTTP/1.1\r\nHost: a.example", "", "https://a.example  https://a.example/ a.example"},
		{"GET http://a.example:8080/ HTTP/1.0", "", "http://a.example:8080  http://a.example:8080/ a.example:8080"},
		{"GET http://0x7f.1/ HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET ftp://a.example/ HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET ws://a.example/ HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET http:///x HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET http://a.example:/x HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET http:a HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET HTTPS://a.example:8443/x HTTP/1.1\r\nHost: x", "",
			"https://a.example:8443  https://a.example:8443/x a.example:8443"},
		{"GET http://[::1] HTTP/1.1\r\nHost: x", "", "http://[::1]  http://[::1]/ [::1]"},
		{"GET http://u:p@a.example/ HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"GET mailto:a@b.example HTTP/1.1\r\nHost: x", "request_malformed", ""},
		{"PRI * HTTP/2.0", "request_malformed", ""},
		{"GET / HTTP/1.1\r\nHost: a.example", "not_a_proxy_request", ""},
		{"GET //a.example/x HTTP/1.1\r\nHost: a.example", "not_a_proxy_request", ""},
	} {
		resp := roundTripRaw(t, r.Dial(), test.head+"\r\n\r\n")
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get(codeHeader) != test.code || string(body) != test.body {
			t.Errorf("%q: code %q, body %q, error %v", test.head, resp.Header.Get(codeHeader), body, err)
		}
	}
}

func TestConnectRefused(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) {
		o.Connect = func(r *http.Request, target upstream.Target) (context.Context, error) {
			switch target.Host {
			case "denied.example":
				return nil, refusal.New("egress_denied", "no")
			case "nil.example":
				return nil, nil
			case "panic.example":
				panic("on purpose")
			}
			route, ok := intercept.RouteFrom(r.Context())
			if !ok || route.ProxyAuthorization != "Basic eDp5" || route.Target != target {
				return nil, errors.New("no route")
			}
			return r.Context(), nil
		}
	})
	for _, test := range []struct{ head, code string }{
		{"CONNECT denied.example:443 HTTP/1.1", "egress_denied"},
		{"CONNECT nil.example:443 HTTP/1.1", "internal"},
		{"CONNECT panic.example:443 HTTP/1.1", "internal"},
		{"CONNECT 0177.0.0.1:443 HTTP/1.1", "request_malformed"},
		{"CONNECT a.example HTTP/1.1", "request_malformed"},
		{"CONNECT u@a.example:443 HTTP/1.1", "request_malformed"},
		{"CONNECT /x HTTP/1.1", "request_malformed"},
		{"CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 1", "request_malformed"},
		{"CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked", "request_malformed"},
		{"CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: Basic eDp5", ""},
	} {
		c := r.Dial()
		resp := roundTripRaw(t, c, test.head+"\r\nHost: a.example\r\n\r\n")
		if code := resp.Header.Get(codeHeader); code != test.code ||
			(resp.StatusCode == http.StatusOK) != (code == "") {
			t.Errorf("%q: status %d, code %q, want %q", test.head, resp.StatusCode, code, test.code)
		}
		if test.code != "" && !resp.Close {
			t.Errorf("%q: the connection stays open", test.head)
		}
		_ = c.Close()
	}
	if n := len(r.Seen()); n != 0 {
		t.Errorf("the choke point saw %d requests", n)
	}
}

func TestTunnelLimit(t *testing.T) {
	up := newUpstream(t, nil, http1)
	free := make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Tunnels = 1
		o.Connect = func(r *http.Request, _ upstream.Target) (context.Context, error) {
			context.AfterFunc(r.Context(), func() { free <- struct{}{} })
			return r.Context(), nil
		}
	}, up.Server)
	host := at(0, up.Server)
	for name, end := range map[string]func(net.Conn){
		"after a request": func(c net.Conn) {
			inner := tls.Client(c, &tls.Config{RootCAs: r.Roots(), ServerName: hostOf(0)})
			wantBody(t, roundTripRaw(t, inner, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), "GET /")
			_ = inner.Close()
		},
		"silent":      func(c net.Conn) { _ = c.Close() },
		"no TLS":      func(c net.Conn) { _, _ = c.Write([]byte{0x16, 0, 0, 0, 0, 0}); _ = c.Close() },
		"no protocol": func(c net.Conn) { _, _ = io.WriteString(c, "\r\n"); _ = c.Close() },
	} {
		c := r.Connect(host)
		over := roundTripRaw(t, r.Dial(), "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if code := over.Header.Get(codeHeader); code != "overloaded" {
			t.Errorf("%s: a second tunnel got the code %q", name, code)
		}
		end(c)
		<-free
	}
}

func TestTunnelsOfOneParty(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Tunnels = 8
		o.Party = func(r intercept.Route) string { return r.ProxyAuthorization }
	})
	connect := func(party string) string {
		t.Helper()
		resp := roundTripRaw(t, r.Dial(),
			"CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: "+party+"\r\n\r\n")
		return resp.Header.Get(codeHeader)
	}
	for i := 0; connect("hostile") != "overloaded"; i++ {
		if i == 8 {
			t.Fatal("no tunnel was refused")
		}
	}
	if code := connect("other"); code != "" {
		t.Errorf("the other party's tunnel is refused: %s", code)
	}
}

func TestConnectionLimit(t *testing.T) {
	began := make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Connections = 1
		o.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
		})
	})
	first := r.Dial()
	_, _ = io.WriteString(first, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	<-began
	second := r.Dial()
	_, _ = io.WriteString(second, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = first.Close() // only this admits the second
	wantAnswer(t, readRaw(t, bufio.NewReader(second), "GET"), nil, "not_a_proxy_request")
}

// The requests get the context that Connect returned, and its end closes the tunnel.
func TestConnectContext(t *testing.T) {
	type key struct{}
	var end context.CancelFunc
	r := newRig(t, func(o *intercept.Options) {
		o.Connect = func(r *http.Request, _ upstream.Target) (context.Context, error) {
			var ctx context.Context
			ctx, end = context.WithCancel(context.WithValue(r.Context(), key{}, "session 1"))
			return ctx, nil
		}
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Context().Err() != nil {
				t.Error("the context is done")
			}
			_, _ = io.WriteString(w, r.Context().Value(key{}).(string))
		})
	})
	c := r.MustTunnel("a.example:443")
	for range 2 {
		wantBody(t, roundTripRaw(t, c, getRoot), "session 1")
	}
	end()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("the tunnel outlives its session: %d, %v", n, err)
	}
}

func TestCleartextInTunnel(t *testing.T) {
	r := newRig(t, serving(func(w http.ResponseWriter, r *http.Request) {
		route, _ := intercept.RouteFrom(r.Context())
		if route.Intercepted {
			t.Errorf("route %v", route)
		}
		_, _ = io.WriteString(w, route.Target.String()+" "+r.URL.String())
	}))
	wantBody(t, roundTripRaw(t, r.Connect("a.example:80"), "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n"),
		"http://a.example http://a.example/x")
	wantBody(t, roundTripRaw(t, r.Connect("a.example:8443"), "GET /x HTTP/1.1\r\nHost: a.example:8443\r\n\r\n"),
		"http://a.example:8443 http://a.example:8443/x")
	wantAnswer(t, roundTripRaw(t, r.Connect("a.example:80"), "GET /x HTTP/1.1\r\nHost: b.example\r\n\r\n"), nil,
		"target_mismatch")
	wantAnswer(t, roundTripRaw(t, r.Connect("a.example:80"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), nil,
		"request_malformed")
	c := r.Connect("a.example:443")
	wantAnswer(t, roundTripRaw(t, c, "GET /x HTTP/1.1\r\nHost: a.example:443\r\n\r\n"), nil, "not_http")
	wantAnswer(t, roundTripRaw(t, r.Connect("a.example:22"), "SSH-2.0-OpenSSH_9.9\r\n\r\n"), nil, "request_malformed")
}

func TestHandshakeRefused(t *testing.T) {
	r := newRig(t, nil)
	for name, test := range map[string]struct {
		config *tls.Config
		code   string
		says   string
	}{
		"CA not trusted": {&tls.Config{ServerName: "a.example"}, "tls_handshake_failed",
			"the client ended it with the alert bad certificate; does it trust the mediator's CA?"},
		"TLS 1.1": {
			&tls.Config{ServerName: "a.example", RootCAs: r.Roots(), MinVersion: tls.VersionTLS10,
				MaxVersion: tls.VersionTLS11},
			"tls_handshake_failed", "the mediator ended it, because of: client offered only unsupported versions"},
		"other protocol": {&tls.Config{ServerName: "a.example", RootCAs: r.Roots(), NextProtos: []string{"imap"}},
			"tls_handshake_failed", "the mediator ended it, because of: client requested unsupported " +
				"application protocols"},
		"other host": {&tls.Config{ServerName: "b.example", RootCAs: r.Roots()}, "target_mismatch",
			"the tunnel is to a.example"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tls.Client(r.Connect("a.example:443"), test.config).Handshake(); err == nil {
				t.Fatal("the handshake succeeded")
			}
			err := <-r.Ended
			wantCode(t, err, test.code)
			if !strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("it says %q, want %q at its end", err, test.says)
			}
		})
	}
	if c := tls.Client(r.Connect("192.0.2.1:443"),
		&tls.Config{RootCAs: r.Roots(), ServerName: "192.0.2.1"}); c.Handshake() != nil {
		t.Error("an IP address needs no SNI")
	}
}

func TestSessionResumption(t *testing.T) {
	r := newRig(t, serving(silent))
	config := &tls.Config{RootCAs: r.Roots(), ServerName: "a.example",
		ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := range 2 {
		c := tls.Client(r.Connect("a.example:443"), config)
		wantBody(t, roundTripRaw(t, c, getRoot), "") // also reads the ticket
		if resumed := c.ConnectionState().DidResume; resumed != (i == 1) {
			t.Errorf("connection %d resumed: %t", i, resumed)
		}
	}
	// SNI is checked on resumption too.
	if err := tls.Client(r.Connect("b.example:443"), config).Handshake(); err == nil {
		t.Error("a ticket for one host opened the tunnel to another")
	}
}

func TestShutdown(t *testing.T) {
	arrived, finish := make(chan struct{}), make(chan struct{})
	r := newRig(t, serving(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-finish
		_, _ = io.WriteString(w, "whole")
	}))
	silent := r.Connect("a.example:443")
	running := r.MustTunnel("a.example:443")
	plain := r.Dial()
	_, _ = io.WriteString(running, getRoot)
	_, _ = io.WriteString(plain, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	<-arrived
	<-arrived
	done := make(chan error)
	go func() { done <- r.Proxy.Shutdown(context.Background()) }()
	if _, err := silent.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a silent tunnel outlives Shutdown: %v", err)
	}
	select {
	case err := <-done:
		t.Errorf("Shutdown did not wait: %v", err)
	default:
	}
	close(finish)
	for _, c := range []net.Conn{running, plain} {
		wantBody(t, readRaw(t, bufio.NewReader(c), "GET"), "whole")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestShutdownAtOnce is for the race detector.
func TestShutdownAtOnce(t *testing.T) {
	for range 50 {
		t.Run("", func(t *testing.T) { newRig(t, nil) })
	}
}

func TestShutdownIsBounded(t *testing.T) {
	arrived := make(chan struct{})
	r := newRig(t, serving(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	_, _ = io.WriteString(r.MustTunnel("a.example:443"), getRoot)
	<-arrived
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Proxy.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConnectIsCancelled(t *testing.T) {
	asked, cancelled := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Connect = func(r *http.Request, _ upstream.Target) (context.Context, error) {
			close(asked)
			<-r.Context().Done()
			close(cancelled)
			return r.Context(), nil
		}
	})
	c := r.Dial()
	_, _ = io.WriteString(c, "CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
	_ = c.Close()
	<-cancelled
}

func TestHeaderTricksDoNotPanic(t *testing.T) {
	r := newRig(t, serving(silent))
	for _, text := range []string{
		"", "\r\n\r\n", "GET\r\n\r\n", "CONNECT  HTTP/1.1\r\n\r\n", "CONNECT : HTTP/1.1\r\nHost: :\r\n\r\n",
		"CONNECT * HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://%41/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET ? HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		for _, c := range []net.Conn{r.Dial(), r.MustTunnel("a.example:443")} {
			_, _ = io.WriteString(c, text)
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			answer, _ := io.ReadAll(c)
			if strings.HasPrefix(string(answer), "HTTP/1.1 200") {
				t.Errorf("%q was answered with 200", text)
			}
		}
	}
}

func TestConnectDuringShutdown(t *testing.T) {
	asked, decide := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Connect = func(r *http.Request, _ upstream.Target) (context.Context, error) {
			close(asked)
			<-decide
			return r.Context(), nil
		}
	})
	c := r.Dial()
	defer c.Close()
	_, err := io.WriteString(c, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
	must(t, err)
	<-asked
	done := make(chan error, 1)
	go func() { done <- r.Proxy.Shutdown(context.Background()) }()
	for { // until the listener is gone
		probe, err := net.Dial("tcp", r.Addr)
		if err != nil {
			break
		}
		probe.Close()
	}
	close(decide)
	answer, _ := io.ReadAll(c)
	if !strings.Contains(string(answer), "shutting_down") {
		t.Errorf("got %q", answer)
	}
	<-done
}
