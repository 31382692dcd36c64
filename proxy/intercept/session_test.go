package intercept_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/intercept"
)

// TestServeSession: whatever comes over the listener of a session belongs to it, in tunnels too, whoever the client says to be. It ends
// with the session.
func TestServeSession(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Connections = 32 // two for each session
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			route, _ := intercept.RouteFrom(r.Context())
			_, _ = io.WriteString(w, route.Session+"|"+route.ProxyAuthorization)
		})
	})
	serve := func(session string) (l net.Listener, end context.CancelFunc, served chan error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ctx, end := context.WithCancel(t.Context())
		served = make(chan error, 1)
		go func() { served <- r.Proxy.ServeSession(ctx, l, session) }()
		return l, end, served
	}
	one, endOne, servedOne := serve("ses_1")
	two, endTwo, servedTwo := serve("ses_2")
	defer endTwo()
	dial := func(l net.Listener) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	const plain = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic eDp5\r\n\r\n"
	ask := func(c net.Conn, text, want string) {
		t.Helper()
		resp := roundTripRaw(t, c, text)
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want {
			t.Errorf("%q, %v, want %q", body, err, want)
		}
	}
	first, other := dial(one), dial(two)
	ask(first, plain, "ses_1|")
	ask(other, plain, "ses_2|")
	ask(r.Dial(), plain, "|Basic eDp5")
	tunnel := dial(one)
	_, err := io.WriteString(tunnel, "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\nProxy-Authorization: Basic eDp5\r\n\r\n")
	must(t, err)
	head, err := bufio.NewReader(io.LimitReader(tunnel, int64(len("HTTP/1.1 200 Connection Established\r\n\r\n")))).ReadString('\n')
	if err != nil || head != "HTTP/1.1 200 Connection Established\r\n" {
		t.Fatalf("%q, %v", head, err)
	}
	ask(tunnel, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "ses_1|")
	third := dial(one) // waits for a place
	must(t, first.Close())
	ask(third, plain, "ses_1|")
	endOne()
	if err := <-servedOne; err != nil {
		t.Errorf("at its end: %v", err)
	}
	for _, c := range []net.Conn{tunnel, third} {
		_ = c.SetReadDeadline(time.Now().Add(3 * time.Minute))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || isTimeout(err) {
			t.Error("a connection outlives its session")
		}
	}
	if c, err := net.Dial("tcp", one.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener outlives its session")
	}
	ask(other, plain, "ses_2|")
	other.Close()
	endTwo()
	if err := <-servedTwo; err != nil {
		t.Errorf("at its end: %v", err)
	}
}

// TestIdleSessions: a session without a connection takes none from the others, however many there are.
func TestIdleSessions(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) { o.Limits.Connections = 4 })
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ctx, end := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- r.Proxy.ServeSession(ctx, l, "ses") }()
		t.Cleanup(func() { end(); <-served })
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(3*time.Minute)))
		resp := roundTripRaw(t, c, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
		_ = c.Close()
	}
}

// TestConnectionsOfManySessions: however many connections the sessions of one agent hold, another session gets one.
func TestConnectionsOfManySessions(t *testing.T) {
	r := newRig(t, func(o *intercept.Options) { o.Limits.Connections = 64 }) // four for each session
	serve := func(session string) (dial func() net.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		served := make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		go func() { served <- r.Proxy.ServeSession(ctx, l, session) }()
		t.Cleanup(func() { end(); <-served })
		return func() net.Conn {
			c, err := net.Dial("tcp", l.Addr().String())
			must(t, err)
			t.Cleanup(func() { c.Close() })
			must(t, c.SetDeadline(time.Now().Add(3*time.Minute)))
			return c
		}
	}
	const plain = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for i := range 16 {
		dial := serve(fmt.Sprint("ses_", i))
		for range 4 {
			c := dial()
			_, _ = io.WriteString(c, plain)
			_, _ = c.Read(make([]byte, 1)) // it is held, or was closed
		}
	}
	if resp := roundTripRaw(t, serve("ses_other")(), plain); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}
