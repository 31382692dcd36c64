package intercept_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
)

// Everything on a session's listener belongs to it, despite the client's credentials, and ends with it.
func TestServeSession(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Connections = 32 // two for each session
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			route, _ := intercept.RouteFrom(r.Context())
			_, _ = io.WriteString(w, route.Session+"|"+route.ProxyAuthorization)
		})
	})
	one, two := serveSession(t, r, "ses_1"), serveSession(t, r, "ses_2")
	const plain = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic eDp5\r\n\r\n"
	ask := func(c net.Conn, text, want string) {
		t.Helper()
		resp := roundTripRaw(t, c, text)
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want {
			t.Errorf("%q, %v, want %q", body, err, want)
		}
	}
	first, other := one.dial(), two.dial()
	ask(first, plain, "ses_1|")
	ask(other, plain, "ses_2|")
	ask(r.Dial(), plain, "|Basic eDp5")
	tunnel := one.dial()
	_, err := io.WriteString(tunnel,
		"CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\nProxy-Authorization: Basic eDp5\r\n\r\n")
	must(t, err)
	head, err := bufio.NewReader(
		io.LimitReader(tunnel, int64(len("HTTP/1.1 200 Connection Established\r\n\r\n")))).ReadString('\n')
	if err != nil || head != "HTTP/1.1 200 Connection Established\r\n" {
		t.Fatalf("%q, %v", head, err)
	}
	ask(tunnel, getRoot, "ses_1|")
	third := one.dial() // waits for a place
	must(t, first.Close())
	ask(third, plain, "ses_1|")
	one.end()
	for _, c := range []net.Conn{tunnel, third} {
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || isTimeout(err) {
			t.Error("a connection outlives its session")
		}
	}
	if c, err := net.Dial("tcp", one.address); err == nil {
		c.Close()
		t.Error("the listener outlives its session")
	}
	ask(other, plain, "ses_2|")
}

type listener struct {
	t       *testing.T
	address string
	end     func() // once
}

func serveSession(t *testing.T, r *rig, session string) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Proxy.ServeSession(ctx, l, session, nil) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("%s ends with %v", session, err)
		}
	})
	t.Cleanup(end)
	return &listener{t, l.Addr().String(), end}
}

func (l *listener) dial() net.Conn {
	l.t.Helper()
	c, err := net.Dial("tcp", l.address)
	must(l.t, err)
	l.t.Cleanup(func() { c.Close() })
	must(l.t, c.SetDeadline(time.Now().Add(3*time.Minute)))
	return c
}

// Any number of idle sessions leaves all places free.
func TestIdleSessions(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) { o.Limits.Connections = 4 })
	for range 10 {
		c := serveSession(t, r, "ses").dial()
		resp := roundTripRaw(t, c, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
		_ = c.Close()
	}
}

// A session that holds 10,000 connections, half-open or idle after a call, has 256 of them, and can call.
func TestFloodOfASession(t *testing.T) {
	var other atomic.Value // reason for an end
	r := newRig(t, func(o *intercept.Options) {
		o.Refused = func(_ context.Context, err error) {
			if codeOf(err) != "overloaded" {
				other.Store(err)
			}
		}
		o.Original = func(net.Conn) (netip.AddrPort, bool) { return netip.MustParseAddrPort("192.0.2.7:80"), true }
	})
	flood := serveSession(t, r, "ses")
	for range 5000 {
		_, _ = flood.dial().Write([]byte{0x16})
		if resp := roundTripRaw(t, flood.dial(), getRoot); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	if n := r.Proxy.OpenTunnels(); n > 256 || other.Load() != nil {
		t.Errorf("%d connections, %v", n, other.Load())
	}
}

// Many greedy sessions leave a place for another.
func TestConnectionsOfManySessions(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) { o.Limits.Connections = 64 }) // four for each session
	const plain = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for i := range 16 {
		l := serveSession(t, r, fmt.Sprint("ses_", i))
		for range 4 {
			c := l.dial()
			_, _ = io.WriteString(c, plain)
			_, _ = c.Read(make([]byte, 1)) // held, or closed
		}
	}
	if resp := roundTripRaw(t, serveSession(t, r, "ses_other").dial(), plain); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A tunnel outlives the certificate of the agent's pod that opened it, but carries no more requests.
func TestAgentIsNamedForEachRequest(t *testing.T) {
	var ended atomic.Bool
	r := newRig(t, func(o *intercept.Options) {
		o.Agent = func(net.Conn) (string, error) {
			if ended.Load() {
				return "", refusal.New("caller_unknown", "the certificate of the agent's pod is no longer valid")
			}
			return "agents/1", nil
		}
	})
	one, two := r.Client(http1), r.Client(http2)
	ask := func(code string) {
		t.Helper()
		for _, c := range []*http.Client{one, two} {
			resp, err := c.Get("https://a.example/")
			wantAnswer(t, resp, err, code)
		}
	}
	ask("")
	ended.Store(true)
	ask("caller_unknown")
}

// A call that lasts, such as a WebSocket, ends soon after the certificate of its agent's pod.
func TestAgentIsNamedInLongCalls(t *testing.T) {
	var ended atomic.Bool
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.AgentCheck = 10 * time.Millisecond
		o.Agent = func(net.Conn) (string, error) {
			if ended.Load() {
				return "", refusal.New("caller_unknown", "the certificate of the agent's pod is no longer valid")
			}
			return "agents/1", nil
		}
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	})
	for _, c := range []*http.Client{r.Client(http1), r.Client(http2)} {
		ended.Store(false)
		resp, err := c.Get("https://a.example/")
		must(t, err)
		ended.Store(true)
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("the stream ended as if it were whole")
		}
	}
}

// TestSessionEndsAtAccept ends sessions while a connection waits for a place, which it gets as others are closed.
func TestSessionEndsAtAccept(t *testing.T) {
	began := make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Connections = 16 // one for each session
		o.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
		})
	})
	for range 50 {
		one := serveSession(t, r, "ses")
		_, err := io.WriteString(one.dial(), "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
		must(t, err)
		<-began
		one.dial()
		one.end()
	}
}
