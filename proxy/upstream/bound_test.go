package upstream_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/proxytest"
)

// newGreedy starts an upstream that takes one request of each HTTP/2 connection and then leaves it open, but useless:
// net/http keeps it for 90 seconds, and none of its bounds counts it. It answers no request for /held.
func newGreedy(t *testing.T) *httptest.Server {
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	up.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn,
		http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		_, _ = io.CopyN(io.Discard, c, int64(len(xhttp2.ClientPreface)))
		framer := xhttp2.NewFramer(c, c)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = framer.WriteSettings()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			head, ok := frame.(*xhttp2.MetaHeadersFrame)
			if !ok {
				continue
			}
			_ = framer.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 0})
			var status bytes.Buffer
			_ = hpack.NewEncoder(&status).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: head.StreamID, BlockFragment: status.Bytes(),
				EndStream: head.PseudoValue("path") != "/held", EndHeaders: true})
		}
	}}
	up.StartTLS()
	t.Cleanup(up.Close)
	return up
}

// A session has at most its share of the connections to upstreams, and idle ones make room.
func TestBoundedConnections(t *testing.T) {
	const most = 16
	up := newGreedy(t)
	transport := upstream.NewTransport(upstream.Options{
		Dialer: upstream.Dialer{Hosts: []upstream.Host{{
			Name: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			RootCAs: poolOf(&proxytest.Upstream{Server: up}),
		}}},
		Connections: most,
	})
	defer transport.CloseIdleConnections()
	call := func(party, path string) (*http.Response, error) {
		q, err := http.NewRequestWithContext(upstream.WithParty(t.Context(), party, t.Context()), "GET", up.URL+path,
			http.NoBody)
		must(t, err)
		return transport.RoundTrip(q)
	}
	for i := range 3 * most {
		for _, party := range []string{"a", strconv.Itoa(i)} {
			resp, err := call(party, "/")
			must(t, err)
			must(t, resp.Body.Close())
		}
	}
	for range most / 2 {
		resp, err := call("a", "/held")
		must(t, err)
		defer resp.Body.Close()
	}
	_, err := call("a", "/") //nolint:bodyclose // there is no answer
	wantCode(t, err, "overloaded")
	resp, err := call("b", "/")
	must(t, err)
	must(t, resp.Body.Close())
}

// A connection is closed whose upstream takes nothing more, but goes on to send.
func TestStuckConnection(t *testing.T) {
	stuck, ended := make(chan struct{}), make(chan struct{})
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	up.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn,
		http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		defer close(ended)
		_, _ = io.CopyN(io.Discard, c, int64(len(xhttp2.ClientPreface)))
		framer := xhttp2.NewFramer(c, c)
		_ = framer.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1<<31 - 1})
		_ = framer.WriteWindowUpdate(0, 1<<30)
		for frame := xhttp2.Frame(nil); frame == nil || frame.Header().Type != xhttp2.FrameData; {
			var err error
			frame, err = framer.ReadFrame()
			must(t, err)
		}
		close(stuck)
		for framer.WriteWindowUpdate(0, 1) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}}
	up.StartTLS()
	defer up.Close()
	transport := upstream.NewTransport(upstream.Options{
		Dialer: upstream.Dialer{Hosts: []upstream.Host{{
			Name: "127.0.0.1", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			RootCAs: poolOf(&proxytest.Upstream{Server: up}),
		}}},
		WriteTimeout: 100 * time.Millisecond,
	})
	go func() {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, up.URL, io.NopCloser(zeros{}))
		must(t, err)
		q.ContentLength = -1
		_, _ = transport.RoundTrip(q) //nolint:bodyclose // there is no answer
	}()
	<-stuck
	<-ended
}

// An upstream that opens the window of a stream too far ends that call, and no other.
func TestOverflowingWindow(t *testing.T) {
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	up.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn,
		http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		_, _ = io.CopyN(io.Discard, c, int64(len(xhttp2.ClientPreface)))
		framer := xhttp2.NewFramer(c, c)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = framer.WriteSettings()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			head, ok := frame.(*xhttp2.MetaHeadersFrame)
			if !ok {
				continue
			}
			if head.PseudoValue("path") == "/overflow" {
				_ = framer.WriteWindowUpdate(head.StreamID, 1<<31-1)
			}
			var status bytes.Buffer
			_ = hpack.NewEncoder(&status).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: head.StreamID, BlockFragment: status.Bytes(),
				EndStream: true, EndHeaders: true})
		}
	}}
	up.StartTLS()
	defer up.Close()
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
