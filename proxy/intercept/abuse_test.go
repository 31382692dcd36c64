package intercept_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/actionproof/mediator/proxy/intercept"
)

// These clients hold what they do not use, or make the proxy work for nothing. A limit of the proxy ends each test.

// brief is that limit, by the bubble's clock.
const brief = time.Second

// wantCut demands that the proxy ends the connection.
func wantCut(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		t.Error("the proxy keeps the connection")
	}
	_ = c.Close()
}

func untouched(t *testing.T) func(*intercept.Options) {
	return func(o *intercept.Options) {
		o.Limits = intercept.Limits{HeaderTimeout: brief, HandshakeTimeout: brief, IdleTimeout: brief}
		o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came through") })
	}
}

func TestHalfOpen(t *testing.T) { synctest.Test(t, halfOpen) }

func halfOpen(t *testing.T) {
	r := newBubbleRig(t, untouched(t))
	opened := make(map[string]net.Conn)
	for name, open := range map[string]func() net.Conn{
		"connection":                             r.Dial,
		"a client of a server that speaks first": r.Redirect("192.0.2.7:3306"),
		"tunnel":                                 func() net.Conn { return r.Connect("a.example:443") },
		"handshake that has begun": func() net.Conn {
			c := r.Connect("a.example:443")
			_, _ = c.Write([]byte{0x16, 3, 1, 2, 0, 1})
			return c
		},
		"TLS":        func() net.Conn { return r.MustTunnel("a.example:443") },
		"HTTP/2":     func() net.Conn { c, _ := dialHTTP2(t, r); return c },
		"plain text": func() net.Conn { c := r.Connect("a.example:80"); _, _ = io.WriteString(c, "G"); return c },
	} {
		opened[name] = open()
	}
	for name, c := range opened {
		t.Log(name)
		wantCut(t, c)
	}
	ended := []string{codeOf(<-r.Ended), codeOf(<-r.Ended)} // the others are not reported
	if slices.Sort(ended); !slices.Equal(ended, []string{"not_http", "tls_handshake_failed"}) {
		t.Errorf("reported: %q", ended)
	}
}

// Slowloris
func TestSlowHead(t *testing.T) { synctest.Test(t, slowHead) }

func slowHead(t *testing.T) {
	r := newBubbleRig(t, untouched(t))
	var opened []net.Conn
	for _, part := range []string{"G", "GET / HTTP/1.1", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a.example\r\nX: ",
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n"} {
		for _, c := range []net.Conn{r.Dial(), r.MustTunnel("a.example:443")} {
			_, _ = io.WriteString(c, part)
			opened = append(opened, c)
		}
	}
	for _, c := range opened {
		wantCut(t, c)
	}
}

func TestSlowSecondHead(t *testing.T) { synctest.Test(t, slowSecondHead) }

func slowSecondHead(t *testing.T) {
	r := newBubbleRig(t, func(o *intercept.Options) {
		o.Limits.IdleTimeout = brief
		o.Handler = http.HandlerFunc(silent)
	})
	for _, part := range []string{"", "GET / HTTP/1.1\r\nHost: a.exa"} {
		c := r.MustTunnel("a.example:443")
		wantBody(t, roundTripRaw(t, c, getRoot), "")
		_, _ = io.WriteString(c, part)
		wantCut(t, c)
	}
}

func TestSlowBodyOfARefusedCall(t *testing.T) { synctest.Test(t, slowBodyOfARefusedCall) }

func slowBodyOfARefusedCall(t *testing.T) {
	r := newBubbleRig(t, func(o *intercept.Options) {
		o.Limits.HeaderTimeout = brief
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { testRefuse(w, r, errors.New("refused")) })
	})
	for _, text := range []string{"Content-Length: 10\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"} {
		c := r.MustTunnel("a.example:443")
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.example\r\n"+text)
		answer, err := io.ReadAll(c)
		if isTimeout(err) || !strings.HasPrefix(string(answer), "HTTP/1.1 403") {
			t.Errorf("%q: %q, %v", text, answer, err)
		}
		_ = c.Close()
	}
}

// A cut answer does not wait for the request's body.
func TestCutAnswerWithUnreadBody(t *testing.T) {
	for name, fault := range map[string]any{"abort": http.ErrAbortHandler, "panic": "on purpose"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *intercept.Options) {
				o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer := http.NewResponseController(w)
					_ = answer.EnableFullDuplex()
					go func() { _, _ = io.Copy(io.Discard, r.Body) }() // as a transport does
					_, _ = io.WriteString(w, "begun")
					_ = answer.Flush()
					panic(fault)
				})
			})
			for _, text := range []string{"Content-Length: 10\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"} {
				for _, c := range []net.Conn{r.MustTunnel("a.example:443"), r.Connect("a.example:80")} {
					resp := roundTripRaw(t, c, "POST / HTTP/1.1\r\nHost: a.example\r\n"+text)
					body, err := io.ReadAll(resp.Body)
					if string(body) != "begun" || err == nil || isTimeout(err) {
						t.Errorf("%q: %q, %v", text, body, err)
					}
					_ = c.Close()
				}
			}
		})
	}
}

// A body is not waited for after the whole answer, even if a transport still reads it. Its rest must not become a
// request: the HTTP/1 reader passed it as a body.
func TestSlowBodyOfAnAnsweredCall(t *testing.T) { synctest.Test(t, slowBodyOfAnAnsweredCall) }

func slowBodyOfAnAnsweredCall(t *testing.T) {
	r := newBubbleRig(t, func(o *intercept.Options) {
		o.Limits.HeaderTimeout = brief
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Half") == "" {
				_ = http.NewResponseController(w).EnableFullDuplex()
			}
			_, _ = r.Body.Read(make([]byte, 2))
			if r.Header.Get("Transport") != "" {
				go func() { _, _ = io.Copy(io.Discard, r.Body) }()
				time.Sleep(brief / 10) // until it waits for more
			}
			_, _ = io.WriteString(w, "whole")
		})
	})
	for _, transport := range []string{"", "Transport: 1\r\n"} {
		post := "POST / HTTP/1.1\r\nHost: a.example\r\n" + transport
		for _, text := range []string{"Content-Length: 24\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n18\r\nab"} {
			c := r.MustTunnel("a.example:443")
			wantBody(t, roundTripRaw(t, c, post+text), "whole")
			time.Sleep(brief + brief/10)
			_, _ = io.WriteString(c, "GET / HTTP/1.2\nHost: b\n\n")
			if got, err := io.ReadAll(c); isTimeout(err) || len(got) > 0 {
				t.Errorf("%q: then %q, %v", transport+text, got, err)
			}
			_ = c.Close()
		}
	}
	// A body in time keeps the connection, even if the next head comes with it.
	c := r.MustTunnel("a.example:443")
	answers := bufio.NewReader(c)
	post := "POST / HTTP/1.1\r\nHost: a.example\r\nHalf: 1\r\nContent-Length: 4\r\n\r\nab"
	for _, text := range []string{post, "cd", post, "cd" + post, "cd"} {
		_, _ = io.WriteString(c, text)
		time.Sleep(brief / 10)
		if text == "cd" {
			wantBody(t, readRaw(t, answers, "POST"), "whole")
			time.Sleep(brief)
		}
	}
	wantBody(t, readRaw(t, answers, "POST"), "whole")
	_ = c.Close()
}

// endless writes until its client reads no more.
func endless(ended chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(w, zeros{})
		ended <- err
		panic(http.ErrAbortHandler)
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestNeverReading(t *testing.T) { synctest.Test(t, neverReading) }

func neverReading(t *testing.T) {
	ended := make(chan error, 1)
	r := newBubbleRig(t, func(o *intercept.Options) {
		o.Limits.WriteTimeout = brief
		o.Handler = endless(ended)
	})
	get := getRoot
	for name, ask := range map[string]func() net.Conn{
		"plain": func() net.Conn {
			c := r.Dial()
			_, _ = io.WriteString(c, strings.Replace(get, "/", "http://a.example/", 1))
			return c
		},
		"tunnel":   func() net.Conn { c := r.MustTunnel("a.example:443"); _, _ = io.WriteString(c, get); return c },
		"HTTP/2":   func() net.Conn { return askHTTP2(t, r, 1<<31-1) },
		"window 0": func() net.Conn { return askHTTP2(t, r, 0) },
	} {
		c := ask()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: the answer has an end", name)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the answer is still being written", name)
		}
		_ = c.Close()
	}
}

// askHTTP2 asks for an answer with a window of this size.
func askHTTP2(t *testing.T, r *rig, window uint32) net.Conn {
	t.Helper()
	c, f := dialHTTP2(t, r, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: window})
	if window > 0 {
		must(t, f.Framer.WriteWindowUpdate(0, 1<<30))
	}
	f.Send(getFrames)
	return c
}

// A short answer is written after its handler has returned.
func TestWindowZeroOfAShortAnswer(t *testing.T) { synctest.Test(t, windowZeroOfAShortAnswer) }

func windowZeroOfAShortAnswer(t *testing.T) {
	r := newBubbleRig(t, func(o *intercept.Options) {
		o.Limits.WriteTimeout = brief
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "short") })
	})
	c, f := dialHTTP2(t, r, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 0})
	f.Send(getFrames)
	if got := f.Next(); !strings.HasPrefix(got, "1 RST_STREAM") {
		t.Errorf("got %s", got)
	}
	_ = c.Close()
}

// Requests in progress are bounded for each party, and so are short answers that nobody takes.
func TestManyStreams(t *testing.T) {
	for name, work := range map[string]bool{"unread answers": false, "work": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { manyStreams(t, work) }) })
	}
}

func manyStreams(t *testing.T, work bool) {
	const limit, asked = 8, 20
	release := make(chan struct{})
	r := newBubbleRig(t, func(o *intercept.Options) {
		o.Limits.Connections = limit
		o.Party = func(r intercept.Route) string { return r.Target.Host }
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if work && r.Host == "a.example" {
				<-release
			}
			_, _ = io.WriteString(w, "short")
		})
	})
	closed := xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 0}
	c, f := dialHTTP2(t, r, closed)
	defer c.Close()
	for i := range asked {
		f.Send(strings.Replace(getFrames, "HEADERS 1", fmt.Sprintf("HEADERS %d", 2*i+1), 1))
	}
	began := time.Now()
	for range asked - limit/2 {
		if got := f.Next(); !strings.Contains(got, "RST_STREAM") {
			t.Errorf("got %s", got)
		}
	}
	if took := time.Since(began); took > 0 {
		t.Errorf("%d answers waited for %s", asked, took)
	}
	other, err := r.Tunnel("b.example:443", "b.example", http2)
	must(t, err)
	defer other.Close()
	g := newFrames(t, other)
	g.Send(strings.Replace(getFrames, "a.example", "b.example", 1))
	if got := g.Next(); got != "1 200" {
		t.Errorf("another party got %s", got)
	}
	close(release)
	f.Send("SETTINGS 4 100")
	for range limit / 2 {
		if got := f.Next(); !strings.HasSuffix(got, " 200") {
			t.Errorf("once there is a window: %s", got)
		}
	}
}

// Rapid reset (CVE-2023-44487)
func TestRapidReset(t *testing.T) {
	const streams = 10
	var running, most atomic.Int32
	stop := make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Streams = streams
		o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-stop // work that does not end with its stream
			running.Add(-1)
		})
	})
	c, f := dialHTTP2(t, r)
	f.Silent = true
	ended := make(chan string, 1)
	go func() { ended <- f.Next() }()
	block := f.Encode([]string{":method: GET", ":scheme: https", ":authority: a.example", ":path: /"})
	for id := uint32(1); id < 200_000; id += 2 {
		if f.Framer.WriteHeaders(
			xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true}) != nil {
			break
		}
		if f.Framer.WriteRSTStream(id, xhttp2.ErrCodeCancel) != nil {
			break
		}
	}
	if got := <-ended; got != "GOAWAY ENHANCE_YOUR_CALM" && got != "closed" {
		t.Errorf("got %s", got)
	}
	close(stop)
	if n := most.Load(); n == 0 || n > streams {
		t.Errorf("%d requests ran at once", n)
	}
	_ = c.Close()
}

func TestTooManyStreams(t *testing.T) {
	stop := make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Streams = 2
		o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop })
	})
	c, f := dialHTTP2(t, r)
	for _, id := range []string{"1", "3", "5"} {
		f.Send("HEADERS " + id + " END_STREAM\n  :method: GET\n  :scheme: https\n  :authority: a.example\n  :path: /")
	}
	if got := f.Next(); got != "5 RST_STREAM PROTOCOL_ERROR" && got != "5 RST_STREAM REFUSED_STREAM" {
		t.Errorf("got %s", got)
	}
	close(stop)
	_ = c.Close()
}

// flood demands that the proxy closes the connection before most bytes of this frame.
func flood(t *testing.T, c net.Conn, frame []byte, most int) {
	t.Helper()
	batch := bytes.Repeat(frame, 1+16<<10/len(frame))
	for sent := 0; sent < most; sent += len(batch) {
		if _, err := c.Write(batch); err != nil {
			if isTimeout(err) {
				t.Error("the proxy neither reads nor closes")
			}
			return
		}
	}
	t.Errorf("the proxy took %d bytes of it", most)
}

func bytesOf(t *testing.T, write func(*xhttp2.Framer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	framer := xhttp2.NewFramer(&b, nil)
	framer.AllowIllegalWrites = true
	must(t, write(framer))
	return b.Bytes()
}

// Unread answers to pings must not pile up.
func TestPingFlood(t *testing.T) { synctest.Test(t, pingFlood) }

func pingFlood(t *testing.T) {
	r := newBubbleRig(t, func(o *intercept.Options) { o.Limits.WriteTimeout = brief })
	c, _ := dialHTTP2(t, r)
	flood(t, c, bytesOf(t, func(f *xhttp2.Framer) error { return f.WritePing(false, [8]byte{}) }), 64<<20)
	_ = c.Close()
}

func TestSettingsFlood(t *testing.T) {
	r := newRig(t, serving(silent))
	c, f := dialHTTP2(t, r)
	_, err := c.Write(bytes.Repeat(bytesOf(t, func(f *xhttp2.Framer) error { return f.WriteSettings() }), 20_000))
	must(t, err)
	f.Send(getFrames)
	if got := f.Next(); got != "1 200" {
		t.Errorf("got %s", got)
	}
	_ = c.Close()
}

// CONTINUATION flood (CVE-2023-45288)
func TestContinuationFlood(t *testing.T) { synctest.Test(t, continuationFlood) }

func continuationFlood(t *testing.T) {
	r := newBubbleRig(t, untouched(t))
	c, f := dialHTTP2(t, r)
	f.Send("HEADERS 1 END_STREAM MORE\n  :method: GET")
	var block bytes.Buffer
	must(t, hpack.NewEncoder(&block).WriteField(
		hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 1000), Sensitive: true}))
	flood(t, c, bytesOf(t, func(f *xhttp2.Framer) error { return f.WriteContinuation(1, false, block.Bytes()) }),
		32<<20)
	_ = c.Close()
}

// HPACK bomb: one byte names a large table entry each time.
func TestHPACKBomb(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) {
		o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came through") })
	})
	c, f := dialHTTP2(t, r)
	block := f.Encode(
		[]string{":method: GET", ":scheme: https", ":authority: a.example", ":path: /", "x: " +
			strings.Repeat("a", 3900)})
	block = append(block, bytes.Repeat([]byte{0x80 | 62}, 16<<10-len(block)-100)...) // 62 is the newest entry
	must(t, f.Framer.WriteHeaders(
		xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true, EndHeaders: true}))
	if got := f.Next(); got != "1 431" && !strings.HasPrefix(got, "GOAWAY") {
		t.Errorf("got %s", got)
	}
	_ = c.Close()
}
