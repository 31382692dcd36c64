package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Each numbered fault is one of goproxy's own interception (docs/adr/0002). All tests use real sockets.

// Fault 1: "OPTIONS *" leaves no URL, and a panic ends the process.
func TestFault1PanicAndOptionsStar(t *testing.T) {
	up := newUpstream(t, nil, http1)
	late := make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		next := o.Handler
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/panic":
				panic("on purpose")
			case "/late-panic":
				_, _ = io.WriteString(w, "some of it")
				close(late)
				panic("on purpose")
			}
			next.ServeHTTP(w, r)
		})
	}, up.Server)
	host := at(0, up.Server)

	c := r.MustTunnel(host)
	resp := roundTripRaw(t, c, "OPTIONS * HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	wantAnswer(t, resp, nil, "request_malformed")

	plain := r.Dial()
	wantAnswer(t, roundTripRaw(t, plain, "OPTIONS * HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), nil, "request_malformed")

	for _, p := range []protocol{http1, http2} {
		client := r.Client(p)
		resp, err := client.Get("https://" + host + "/panic")
		wantAnswer(t, resp, err, "internal")
	}
	resp, err := r.Client(http1).Get("https://" + host + "/late-panic")
	<-late
	if err == nil {
		if _, err = io.ReadAll(resp.Body); err == nil {
			t.Error("a response that ended in a panic looks whole")
		}
		_ = resp.Body.Close()
	}
	mustGet(t, r.Client(http1), "https://"+host+"/alive", "GET /alive")
	if n := up.Requests.Load(); n != 1 {
		t.Errorf("the upstream saw %d requests, want the last one only", n)
	}
}

// Fault 2: a request in a tunnel can name another destination than the CONNECT.
func TestFault2TunnelPinsTarget(t *testing.T) {
	a, b := newUpstream(t, nil, http1), newUpstream(t, nil, http1)
	r := newRig(t, nil, a.Server, b.Server)
	hostA, hostB := at(0, a.Server), at(1, b.Server)
	nameA, portA, _ := strings.Cut(hostA, ":")

	for _, test := range []struct{ name, head, code string }{
		{"absolute form to another host", "GET https://" + hostB + "/ HTTP/1.1\r\nHost: " + hostA, "target_mismatch"},
		{"absolute form of another scheme", "GET http://" + hostA + "/ HTTP/1.1\r\nHost: " + hostA, "target_mismatch"},
		{"absolute form with userinfo", "GET https://u:p@" + hostA + "/ HTTP/1.1\r\nHost: " + hostA, "target_mismatch"},
		{"another Host", "GET / HTTP/1.1\r\nHost: " + hostB, "target_mismatch"},
		{"Host without the tunnel's port", "GET / HTTP/1.1\r\nHost: " + nameA, "target_mismatch"},
		{"userinfo in Host", "GET / HTTP/1.1\r\nHost: " + nameA + "@" + hostB, "request_malformed"},
		{"path in Host", "GET / HTTP/1.1\r\nHost: " + hostB + "/info?", "request_malformed"},
		{"port trick in Host", "GET / HTTP/1.1\r\nHost: " + hostA + ":" + portA, "target_mismatch"},
		{"two names in Host", "GET / HTTP/1.1\r\nHost: " + hostA + "," + hostB, "target_mismatch"},
		{"empty Host", "GET / HTTP/1.1\r\nHost:", "target_mismatch"},
		{"no Host in HTTP/1.0", "GET / HTTP/1.0\r\nX: y", "target_mismatch"},
		{"CONNECT", "CONNECT " + hostB + " HTTP/1.1\r\nHost: " + hostB, "request_malformed"},
		{"neither absolute nor a path", "GET a:b HTTP/1.1\r\nHost: " + hostA, "request_malformed"},
		{"the same host in other spelling", "GET /x HTTP/1.1\r\nHost: A.Example.COM.:" + portA, ""},
		{"absolute form to the same host", "GET https://" + hostA + "/x HTTP/1.1\r\nHost: ignored", ""},
		{"absolute form without path", "GET https://" + hostA + " HTTP/1.1\r\nHost: ignored", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := a.Requests.Load()
			resp := roundTripRaw(t, r.MustTunnel(hostA), test.head+"\r\n\r\n")
			wantAnswer(t, resp, nil, test.code)
			if sent := a.Requests.Load() - before; (sent == 1) != (test.code == "") {
				t.Errorf("the upstream saw %d requests", sent)
			}
		})
	}
	if n := b.Requests.Load(); n != 0 {
		t.Errorf("the other upstream saw %d requests", n)
	}
	for _, route := range r.Seen() {
		if want := (upstream.Target{Scheme: "https", Host: nameA, Port: portOf(a.Server)}); route.Target != want ||
			!route.Intercepted {
			t.Errorf("the choke point saw %v, want %v", route, want)
		}
	}

	t.Run("another authority in HTTP/2", func(t *testing.T) {
		client := r.Client(http2)
		for _, change := range []func(*http.Request){
			func(q *http.Request) { q.Host = hostB },
			func(q *http.Request) { q.Host = nameA + "@" + hostB },
		} {
			q, _ := http.NewRequest(http.MethodGet, "https://"+hostA+"/", nil)
			change(q)
			resp, err := client.Do(q)
			if err == nil {
				wantAnswer(t, resp, nil, "target_mismatch")
			}
		}
		if n := b.Requests.Load(); n != 0 {
			t.Errorf("the other upstream saw %d requests", n)
		}
	})

	t.Run("another SNI", func(t *testing.T) {
		for _, name := range []string{"b.example.com", "", "127.0.0.1"} {
			c := tls.Client(r.Connect(hostA), &tls.Config{InsecureSkipVerify: true, ServerName: name})
			if err := c.Handshake(); err == nil {
				t.Fatalf("SNI %q: the handshake succeeded", name)
			}
			wantCode(t, <-r.Ended, "target_mismatch")
		}
	})
}

// Fault 3: HTTP/2 frames bypass the handlers and the guarded dialer.
func TestFault3HTTP2PassesTheChokePoint(t *testing.T) {
	up := newUpstream(t, nil, http2)
	r := newRig(t, nil, up.Server)
	client := r.Client(http2)
	resp, err := client.Get("https://" + at(0, up.Server) + "/x")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Errorf("the client got %s, want HTTP/2", resp.Proto)
	}
	resp, err = client.Get("https://nowhere.example.com/")
	wantAnswer(t, resp, err, "upstream_unresolvable")
	resp, err = client.Get("https://10.0.0.1/")
	wantAnswer(t, resp, err, "egress_address_denied")
	if n := len(r.Seen()); n != 3 {
		t.Errorf("the choke point saw %d requests, want 3", n)
	}
}

// Fault 4: a client that leaves keeps its request running. The raw exchanges have the other limits.
func TestFault4Cancellation(t *testing.T) {
	for _, p := range []protocol{http1, http2} {
		t.Run("client gone, "+string(p), func(t *testing.T) {
			arrived, cancelled := make(chan struct{}), make(chan struct{})
			up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				close(cancelled)
			}, p)
			r := newRig(t, nil, up.Server)
			ctx, cancel := context.WithCancel(context.Background())
			q, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at(0, up.Server)+"/", nil)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := r.Client(p).Do(q); err == nil {
					_ = resp.Body.Close()
				}
			}()
			<-arrived
			cancel()
			<-cancelled
			<-done
		})
	}
}

// Fault 6: an early ClientHello is lost, an upstream error ends the tunnel, hop-by-hop headers pass, encodings change.
// The raw exchanges have Expect.
func TestFault6Exchange(t *testing.T) {
	t.Run("bytes sent together with CONNECT", func(t *testing.T) {
		up := newUpstream(t, nil, http1)
		r := newRig(t, nil, up.Server)
		host := at(0, up.Server)
		early := &earlyConn{Conn: r.Dial(), head: "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"}
		c := tls.Client(early, &tls.Config{RootCAs: r.Roots(), ServerName: hostOf(0)})
		wantBody(t, roundTripRaw(t, c, "GET /early HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), "GET /early")
	})

	t.Run("an upstream error is answered and the tunnel lives on", func(t *testing.T) {
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/break" {
				panic(http.ErrAbortHandler)
			}
		}, http1)
		r := newRig(t, nil, up.Server)
		host := at(0, up.Server)
		c := r.MustTunnel(host)
		wantAnswer(t, roundTripRaw(t, c, "POST /break HTTP/1.1\r\nHost: "+host+"\r\nContent-Length: 1\r\n\r\nx"), nil,
			"upstream_lost")
		wantBody(t, roundTripRaw(t, c, "GET /fine HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), "")
	})

	t.Run("headers", func(t *testing.T) {
		got := make(chan http.Header, 1)
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			got <- r.Header
			w.Header().Set("Connection", "X-Private")
			w.Header().Set("X-Private", "1")
			w.Header().Set("Keep-Alive", "timeout=5")
			w.Header().Set("Proxy-Authenticate", "Basic")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "not really gzip")
		}, http1)
		r := newRig(t, nil, up.Server)
		host := at(0, up.Server)
		c := r.MustTunnel(host)
		resp := roundTripRaw(t, c,
			"GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"+
				"TE: gzip, trailers\r\nUpgrade: h2c\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: "+
				"close\r\nAccept-Encoding: gzip, br\r\nX-End: 1\r\n\r\n")
		wantBody(t, resp, "not really gzip")
		h := <-got
		for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Upgrade", "Proxy-Authorization",
			"Proxy-Connection", "User-Agent", "Via", "X-Forwarded-For"} {
			if v, ok := h[name]; ok {
				t.Errorf("the upstream saw %s: %q", name, v)
			}
		}
		if h.Get("Te") != "trailers" || h.Get("Accept-Encoding") != "gzip, br" || h.Get("X-End") != "1" {
			t.Errorf("the upstream saw %v", h)
		}
		for _, name := range []string{"X-Private", "Keep-Alive", "Proxy-Authenticate"} {
			if v, ok := resp.Header[name]; ok {
				t.Errorf("the client saw %s: %q", name, v)
			}
		}
		if !resp.Close || resp.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("the client saw close %t and %v", resp.Close, resp.Header)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("Connection: close was not heeded: %d bytes, %v", n, err)
		}
	})
}

// earlyConn sends head together with the first write, and strips its answer.
type earlyConn struct {
	net.Conn
	head     string
	answered bool
}

func (c *earlyConn) Write(p []byte) (int, error) {
	if c.head != "" {
		head := c.head
		c.head = ""
		n, err := c.Conn.Write(append([]byte(head), p...))
		return max(0, n-len(head)), err
	}
	return c.Conn.Write(p)
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if !c.answered {
		c.answered = true
		resp, err := http.ReadResponse(bufio.NewReader(iotest.OneByteReader(c.Conn)),
			&http.Request{Method: http.MethodConnect})
		if err != nil || resp.StatusCode != http.StatusOK {
			return 0, errors.Join(err, errors.New("CONNECT refused"))
		}
	}
	return c.Conn.Read(p)
}

// Fault 7: event streams, trailers and chunked bodies must work.
func TestFault7Streams(t *testing.T) {
	for _, inner := range []protocol{http1, http2} {
		for _, outer := range []protocol{http1, http2} {
			t.Run(string(inner)+" to "+string(outer), func(t *testing.T) {
				testEvents(t, inner, outer)
				testTrailers(t, inner, outer)
			})
		}
	}
}

// testEvents sends each event only after the client has read the previous one.
func testEvents(t *testing.T, inner, outer protocol) {
	next := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		for range next {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = rc.Flush()
		}
	}, outer)
	r := newRig(t, nil, up.Server)
	resp, err := r.Client(inner).Get("https://" + at(0, up.Server) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event := make([]byte, len("data: x\n\n"))
	for range 5 {
		next <- struct{}{}
		if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "data: x\n\n" {
			t.Fatalf("event %q, error %v", event, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Errorf("after the events: %q, %v", rest, err)
	}
}

func testTrailers(t *testing.T, inner, outer protocol) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Told")
		_, _ = io.Copy(w, r.Body)
		flush(w)
		w.Header().Set("X-Told", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Untold", "u")
		for name := range r.Trailer {
			if name != "X-Sum" {
				t.Errorf("the upstream got the trailer %s", name)
			}
		}
	}, outer)
	r := newRig(t, nil, up.Server)
	q, _ := http.NewRequest(http.MethodPost, "https://"+at(0, up.Server)+"/",
		io.MultiReader(strings.NewReader("some "), strings.NewReader("body")))
	q.Trailer = http.Header{"X-Sum": {"42"}}
	resp, err := r.Client(inner).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	wantBody(t, resp, "some body")
	if resp.Trailer.Get("X-Told") != "42" || resp.Trailer.Get("X-Untold") != "u" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

// Fault 8: net/http repeats a request with an Idempotency-Key that was lost on a kept connection.
func TestFault8NothingIsSentTwice(t *testing.T) {
	for _, test := range []struct{ name, method, body string }{
		{"with body", http.MethodPost, "x"},
		{"without body", http.MethodPost, ""},
		{"action by GET", http.MethodGet, ""},
		{"DELETE", http.MethodDelete, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var posts atomic.Int64
			up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/post" {
					posts.Add(1)
					panic(http.ErrAbortHandler) // received, not answered
				}
			}, http1)
			r := newRig(t, nil, up.Server)
			client := r.Client(http1)
			mustGet(t, client, "https://"+at(0, up.Server)+"/warm", "")
			q, _ := http.NewRequest(test.method, "https://"+at(0, up.Server)+"/post", strings.NewReader(test.body))
			q.Header.Set("Idempotency-Key", "k")
			q.GetBody = nil
			if test.body == "" {
				q.Body = http.NoBody
			}
			c := r.MustTunnel(at(0, up.Server)) // a client might repeat it by itself
			if err := q.Write(c); err != nil {
				t.Fatal(err)
			}
			wantAnswer(t, readRaw(t, bufio.NewReader(c), test.method), nil, "upstream_lost")
			if n := posts.Load(); n != 1 {
				t.Errorf("one post arrived %d times", n)
			}
		})
	}
}

// Fault 9: most concurrent requests open connections of their own.
func TestFault9ConnectionsAreReused(t *testing.T) {
	const workers, rounds = 16, 8
	for _, p := range []protocol{http1, http2} {
		t.Run(string(p), func(t *testing.T) {
			up := newUpstream(t, nil, p)
			var tunnels atomic.Int32
			r := newRig(t, func(o *intercept.Options) {
				connect := o.Connect
				o.Connect = func(r *http.Request, to upstream.Target) (context.Context, error) {
					tunnels.Add(1)
					return connect(r, to)
				}
			}, up.Server)
			client := r.Client(p)
			for range rounds {
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() { mustGet(t, client, "https://"+at(0, up.Server)+"/", "GET /") })
				}
				wg.Wait()
			}
			if n := up.Conns.Load(); n > workers*rounds/2 { // a dial may be under way when a connection becomes free
				t.Errorf("%d requests by %d workers opened %d upstream connections", workers*rounds, workers, n)
			}
			if n := tunnels.Load(); n > workers*rounds/2 {
				t.Errorf("%d requests by %d workers took %d tunnels", workers*rounds, workers, n)
			}
		})
	}
}

// A body that breaks must not look whole.
func TestTruncationIsVisible(t *testing.T) {
	for _, p := range []protocol{http1, http2} {
		for _, length := range []string{"", "100"} {
			t.Run(string(p)+" length "+length, func(t *testing.T) {
				up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
					if length != "" {
						w.Header().Set("Content-Length", length)
					}
					flush(w, "some of it")
					panic(http.ErrAbortHandler)
				}, p)
				r := newRig(t, nil, up.Server)
				resp, err := r.Client(p).Get("https://" + at(0, up.Server) + "/")
				if err != nil {
					return // cut before the header: visible too
				}
				defer resp.Body.Close()
				if _, err := io.ReadAll(resp.Body); err == nil {
					t.Error("a broken body looks whole")
				}
			})
		}
	}
}
