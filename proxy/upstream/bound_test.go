package upstream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
)

// newHTTP2 starts an upstream that speaks HTTP/2 frame by frame on each connection.
func newHTTP2(t *testing.T, speak func(f *xhttp2.Framer)) *httptest.Server {
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	up.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
			_, _ = io.CopyN(io.Discard, c, int64(len(xhttp2.ClientPreface)))
			framer := xhttp2.NewFramer(c, c)
			framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			speak(framer)
		}}
	up.StartTLS()
	t.Cleanup(up.Close)
	return up
}

// answering answers each request with 200, after before. Its answer to /held does not end.
func answering(before func(f *xhttp2.Framer, head *xhttp2.MetaHeadersFrame)) func(f *xhttp2.Framer) {
	return func(f *xhttp2.Framer) {
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			head, ok := frame.(*xhttp2.MetaHeadersFrame)
			if !ok {
				continue
			}
			before(f, head)
			var status bytes.Buffer
			_ = hpack.NewEncoder(&status).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: head.StreamID, BlockFragment: status.Bytes(),
				EndStream: head.PseudoValue("path") != "/held", EndHeaders: true})
		}
	}
}

// transportTo reaches up by its address.
func transportTo(up *httptest.Server, o upstream.Options) *upstream.Transport {
	o.Dialer.Hosts = []upstream.Host{{
		Name: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		RootCAs: poolOf(&proxytest.Upstream{Server: up}),
	}}
	return upstream.NewTransport(o)
}

// A session has at most its share of the connections to upstreams, and idle ones make room.
func TestBoundedConnections(t *testing.T) {
	const most = 16
	// It takes one request of each connection, and then leaves that open but useless: net/http keeps it for 90 seconds,
	// and none of its bounds counts it.
	up := newHTTP2(t, answering(func(f *xhttp2.Framer, _ *xhttp2.MetaHeadersFrame) {
		_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 0})
	}))
	transport := transportTo(up, upstream.Options{Connections: most})
	defer transport.CloseIdleConnections()
	call := func(party, path string) (*http.Response, error) {
		q, err := http.NewRequestWithContext(upstream.WithParty(t.Context(), party, t.Context()), "GET", up.URL+path,
			http.NoBody)
		must(t, err)
		return transport.RoundTrip(q)
	}
	answered := func(party, path string) *http.Response {
		resp, err := call(party, path)
		for check.CodeOf(err) == "overloaded" { // a connection is idle a moment after its answer
			resp, err = call(party, path)
		}
		must(t, err)
		return resp
	}
	for i := range 3 * most {
		for _, party := range []string{"a", strconv.Itoa(i)} {
			must(t, answered(party, "/").Body.Close())
		}
	}
	for range most / 2 {
		defer answered("a", "/held").Body.Close()
	}
	_, err := call("a", "/") //nolint:bodyclose // there is no answer
	wantCode(t, err, "overloaded")
	must(t, answered("b", "/").Body.Close())
}

// A connection is closed whose upstream takes nothing more, but goes on to send.
func TestStuckConnection(t *testing.T) {
	ended := make(chan struct{})
	up := newHTTP2(t, func(f *xhttp2.Framer) {
		defer close(ended)
		_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1<<31 - 1})
		_ = f.WriteWindowUpdate(0, 1<<30)
		for f.WriteWindowUpdate(0, 1) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	})
	transport := transportTo(up, upstream.Options{WriteTimeout: 100 * time.Millisecond})
	go func() {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, up.URL, io.NopCloser(zeros{}))
		must(t, err)
		q.ContentLength = -1
		_, _ = transport.RoundTrip(q) //nolint:bodyclose // there is no answer
	}()
	<-ended
}

// An upstream that opens the window of a stream too far ends that call, and no other.
func TestOverflowingWindow(t *testing.T) {
	up := newHTTP2(t, answering(func(f *xhttp2.Framer, head *xhttp2.MetaHeadersFrame) {
		if head.PseudoValue("path") == "/overflow" {
			_ = f.WriteWindowUpdate(head.StreamID, 1<<31-1)
		}
	}))
	transport := newTestTransport(t, up)
	for _, path := range []string{"/overflow", "/"} {
		ended := make(chan error, 1)
		go func() {
			resp, err := get(t, transport, "https://"+at(0, up)+path)
			if err == nil {
				_ = resp.Body.Close()
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			if (err == nil) != (path == "/") {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the call of %s hangs", path)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// gathering sends what a server writes with its next read, as one segment: here, the end of the handshake with the
// first frames.
type gathering struct {
	net.Conn
	held []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	g.held = append(g.held, p...)
	return len(p), nil
}

func (g *gathering) Read(p []byte) (int, error) {
	if len(g.held) > 0 {
		_, _ = g.Conn.Write(g.held)
		g.held = nil
	}
	return g.Conn.Read(p)
}

// An upstream that takes no request on any connection ends the call: net/http would make connections without end.
func TestConnectionsThatTakeNoRequest(t *testing.T) {
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.StartTLS() // for its certificate
	defer up.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	var made atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			made.Add(1)
			go func() {
				defer c.Close()
				secure := tls.Server(&gathering{Conn: c}, &tls.Config{Certificates: up.TLS.Certificates,
					NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12})
				to := xhttp2.NewFramer(secure, nil)
				if errors.Join(secure.Handshake(), to.WriteSettings(), to.WriteGoAway(0, xhttp2.ErrCodeNo, nil)) == nil {
					_, _ = io.Copy(io.Discard, secure)
				}
			}()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.Addr().String(), http.NoBody)
	must(t, err)
	_, err = newTestTransport(t, up).RoundTrip(r) //nolint:bodyclose // there is no answer
	if wantCode(t, err, "upstream_lost"); made.Load() > 20 {
		t.Errorf("one call made %d connections", made.Load())
	}
}
