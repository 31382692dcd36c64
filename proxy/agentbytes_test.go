package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/proxytest/corpus"
	"github.com/actionproof/mediator/trigger"
)

// books compares sent requests with forwarded records. It is both transport and record.
type books struct {
	t  testing.TB
	mu sync.Mutex
	// open counts requests sent and not recorded; a negative count is recorded and not sent.
	open map[string]int
}

func (b *books) note(key string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] += n; b.open[key] == 0 {
		delete(b.open, key)
	}
}

func (b *books) balance(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.open) == 0
	}, "sent and not recorded, or recorded and not sent: %v", b.open)
}

// RoundTrip writes a request as it would be sent, reads it as a server would, and answers it.
func (b *books) RoundTrip(out *http.Request) (*http.Response, error) {
	if out.ContentLength == 0 {
		out.Body = http.NoBody // as Transport does
	}
	var sent bytes.Buffer
	if err := out.Write(&sent); err != nil {
		return nil, upstream.Classify(err)
	}
	r := bufio.NewReader(&sent)
	in, err := http.ReadRequest(r)
	if err != nil {
		b.t.Errorf("what was sent is no request: %v", err)
		return nil, err
	}
	body, err := io.ReadAll(in.Body)
	if err != nil || r.Buffered() > 0 {
		b.t.Errorf("what was sent is not one whole request: %v, %d bytes more", err, r.Buffered())
	}
	for _, list := range []http.Header{in.Header, in.Trailer} {
		for name := range list {
			if name != wire.CGIName(name) && forward.HasMeaning(wire.CGIName(name)) ||
				strings.HasPrefix(wire.CGIName(name), "Actionproof-") || name == "Upgrade" {
				b.t.Errorf("%s was sent", name)
			}
		}
	}
	for name := range in.Trailer {
		if forward.HasMeaning(name) {
			b.t.Errorf("the trailer %s was sent", name)
		}
	}
	key := in.Method + " " + withPort(out.URL.Scheme, in.Host) + in.URL.EscapedPath()
	if in.Method == http.MethodPost { // only an action lets a POST through
		hash := evidence.HashBytes(body)
		if in.URL.Path == "/posts" {
			hash, _ = evidence.HashJSON(body)
		}
		key = in.Method + " " + in.RequestURI + " " + hash
	}
	b.note(key, 1)
	return &http.Response{StatusCode: http.StatusCreated, ContentLength: 4, Body: io.NopCloser(strings.NewReader("made")),
		Header: http.Header{}, Request: out}, nil
}

// withPort returns an authority as a record has it.
func withPort(scheme, authority string) string {
	if _, _, err := net.SplitHostPort(authority); err == nil {
		return authority
	}
	return authority + map[string]string{"http": ":80", "https": ":443"}[scheme]
}

func (b *books) Begin(context.Context, ledger.Record, ...ledger.Key) error { return nil }
func (b *books) Finish(ctx context.Context, p ledger.Record) error         { return b.Add(ctx, p) }
func (b *books) FinishLater(p ledger.Record) error                         { return b.Add(context.Background(), p) }
func (b *books) AddLater(p ledger.Record) error                            { return b.Add(context.Background(), p) }
func (b *books) Reserve(ledger.Record, string, int) error                  { return nil }
func (b *books) Release(string)                                            {}

func (b *books) Add(_ context.Context, p ledger.Record) error {
	switch {
	case p.State != ledger.StateForwarded:
	case p.Flow == flowPost:
		b.note(p.Resource+" "+p.ContentHash, -1)
	case p.Flow == flowEgress:
		b.note(p.Method+" "+p.Host+p.Path, -1)
	}
	return nil
}

// newBooksRig plays under the rules of the raw exchanges.
func newBooksRig(t testing.TB) (*postRig, *books) {
	b := &books{t: t, open: make(map[string]int)}
	return newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		o.Transport, o.Record = b, b
		o.Rules = rawRules(t, actions[0])
	}), b
}

// FuzzTunnel sends any bytes into a tunnel, as HTTP/1 or HTTP/2. Nothing panics or hangs, and each forwarded request is
// recorded exactly.
func FuzzTunnel(f *testing.F) {
	for _, e := range corpus.Read(f, "testdata/raw") {
		if e.Via == "port" {
			continue
		}
		sent := &bufferConn{}
		if e.ALPN == "h2" {
			frames := newFrames(f, sent)
			for _, s := range e.Steps {
				if s.Kind == '>' {
					frames.Send(s.Text)
				}
			}
		} else {
			for _, s := range e.Steps {
				if s.Kind == '>' {
					sent.WriteString(s.Text)
				}
			}
		}
		f.Add(sent.Bytes())
	}
	p, b := newBooksRig(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := net.Dial("tcp", p.Addr)
		must(t, err)
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(3*time.Minute)))
		_, err = io.WriteString(c, "CONNECT a.example.com:80 HTTP/1.1\r\nHost: a.example.com:80\r\n\r\n")
		must(t, err)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = c.Write(raw)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Error("the proxy keeps a connection whose client has gone")
		}
		<-sent
		b.balance(t)
	})
}

type bufferConn struct {
	net.Conn
	bytes.Buffer
}

func (c *bufferConn) Read(b []byte) (int, error)  { return 0, io.EOF }
func (c *bufferConn) Write(b []byte) (int, error) { return c.Buffer.Write(b) }

// FuzzTrailers sends any trailers, announced in any way, behind a streamed body.
func FuzzTrailers(f *testing.F) {
	f.Add("X-Checksum", "X-Checksum: 1\r\n", false)
	f.Add("X-Checksum, ActionProof-Capability", "ActionProof-Capability: x\r\nX-Checksum: 1\r\n", false)
	f.Add("X_Api_Key", "X_Api_Key: x\r\n", true)
	f.Add("Host,content-type", "Host: b\r\nContent-Type: text/html\r\n", true)
	f.Add("", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", false)
	p, b := newBooksRig(f)
	route := intercept.Route{Target: upstream.Target{Scheme: "http", Host: "a.example.com", Port: 80}}
	f.Fuzz(func(t *testing.T, announced, trailers string, post bool) {
		line := "PUT /keyed/x"
		if post {
			line = "POST /raw"
		}
		text := line + " HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\nTrailer: " + announced +
			"\r\n\r\n2\r\nab\r\n0\r\n" + trailers + "\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || r.URL.Host != "" {
			return
		}
		p.pipeline.ServeHTTP(httptest.NewRecorder(), r.WithContext(intercept.WithRoute(context.Background(), route)))
		b.balance(t)
	})
}

// No query makes an agent wait for longer than the bound.
func FuzzEventWait(f *testing.F) {
	for _, seed := range []string{"", "wait=30s", "wait=-1s", "wait=9999999h", "wait=1e9s", "wait=0.1ns&wait=5h",
		"wait=%zz", "wait=60.000000001s", ";wait=1h"} {
		f.Add(seed)
	}
	waits := &boundedClaims{t: f}
	p := newPostRig(f, created, func(o *PipelineOptions, _ []rules.Action) {
		o.Standing = true
		waits.Triggers, o.Triggers = o.Triggers, waits
	})
	route := intercept.Route{Target: upstream.Target{Scheme: "http", Host: InternalHost, Port: 80}}
	f.Fuzz(func(t *testing.T, query string) {
		r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/v1/event/next", RawQuery: query},
			Header: http.Header{}, Body: http.NoBody}).WithContext(intercept.WithRoute(context.Background(), route))
		w := httptest.NewRecorder()
		p.pipeline.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("%q: status %d", query, w.Code)
		}
	})
}

type boundedClaims struct {
	Triggers
	t testing.TB
}

func (b *boundedClaims) Claim(ctx context.Context, c trigger.Claim) (trigger.Event, error) {
	if c.Wait < 0 || c.Wait > own.MaxWait {
		b.t.Errorf("an agent waits for %s", c.Wait)
	}
	return b.Triggers.Claim(ctx, c)
}
