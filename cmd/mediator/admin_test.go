package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
)

// TestAdminRefusals asks the admin endpoint, over a TCP endpoint with a token, for what it does not have.
func TestAdminRefusals(t *testing.T) {
	record, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	a := &adminServer{sessions: proxy.NewSessions(time.Now), record: record, process: &process{registry: prometheus.NewRegistry()}}
	if a.reload, err = newReloader(zap.NewNop(), a.registry); err != nil {
		t.Fatal(err)
	}
	const token = "a-token-of-at-least-thirty-two-bytes"
	s := httptest.NewUnstartedServer(endpoint{tcp: "x", token: token}.guard(a.handler()))
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Start()
	defer s.Close()
	for _, tt := range []struct{ method, path, token, code string }{
		{"GET", "/readyz", token, "not_ready"},
		{"POST", "/v1/reload", token, "not_ready"},
		{"POST", "/v1/reload", "", "endpoint_token"},
		{"GET", "/v1/posts/post_absent", token, "post_unknown"},
		{"GET", "/v1/posts?limit=x", token, "query_malformed"},
		{"GET", "/v1/posts?limit=1001", token, "query_malformed"},
		{"GET", "/v1/posts?state=indeterminat", token, "query_malformed"},
		{"GET", "/v1/posts?flow=get", token, "query_malformed"},
		{"DELETE", "/v1/sessions/ses_absent", token, "session_unknown"},
		{"POST", "/v1/sessions", token, "query_malformed"},
		{"GET", "/healthz", "", "endpoint_token"},
		{"GET", "/healthz", token + "x", "endpoint_token"},
		{"GET", "/healthz", token, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var p *problem.Error
		if err := problem.Read(resp); tt.code != "" && (!errors.As(err, &p) || p.Code() != tt.code) {
			t.Errorf("%s %s: %v, want %s", tt.method, tt.path, err, tt.code)
		}
		resp.Body.Close()
		if tt.code == "" && resp.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %d", tt.method, tt.path, resp.StatusCode)
		}
	}
}

// TestStrangersAreNotWaitedFor sends no token, and a body that never comes.
func TestStrangersAreNotWaitedFor(t *testing.T) {
	s := httptest.NewServer(endpoint{tcp: "x", token: "a-token-of-at-least-thirty-two-bytes"}.guard(http.NotFoundHandler()))
	defer s.Close()
	for _, body := range []string{"Content-Length: 10\r\n\r\nhalf", "\r\n"} { // the second one would keep its connection
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * strangerTimeout))
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+body); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

// TestSocketsAdmitByUser connects as another user to a socket that the file system would let it reach.
func TestSocketsAdmitByUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: this one starts a process of another user")
	}
	dir, err := os.MkdirTemp("", "sockets-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		uids []uint32
		ok   bool
	}{"named": {[]uint32{nobody}, true}, "not named": {[]uint32{1}, false}, "nobody named": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			l, err := endpoint{unix: path, uids: tt.uids}.listen(zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- serveHTTP(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }), bounds{}, time.Second, zap.NewNop())
			}()
			out := asNobody(t, need(t, "curl"), "-sS", "--unix-socket", path, "http://x/")
			if got := out == "in"; got != tt.ok {
				t.Errorf("curl says %q", out)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPublicBounds: a request whose body never comes ends, and lets the next one in.
func TestPublicBounds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, errs := make(chan error, 1), make(chan error, 2)
	var inside atomic.Int32
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if inside.Add(1) > 1 {
			t.Error("two connections are open")
		}
		defer inside.Add(-1)
		_, err := io.ReadAll(r.Body)
		errs <- err
	})
	go func() {
		done <- serveHTTP(ctx, l, read, bounds{connections: 1, request: 50 * time.Millisecond}, time.Second, zap.NewNop())
	}()
	for range 2 { // the second one waits until the first has ended
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// asNobody runs a command as a user without rights and returns its output.
func asNobody(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := agentCommand(t.Context(), args, nobody)
	cmd.Stdout = &out
	_ = cmd.Run() // a refusal is what some callers expect
	return out.String()
}

// TestAgentCannotReachTheMediator starts an agent as mediator run does for root, and lets it reach for what is not its own.
func TestAgentCannotReachTheMediator(t *testing.T) {
	r := newClientsRig(t)
	for _, path := range []string{r.stack.socket("serve"), r.stack.socket("trigger"), r.stack.socket("control")} {
		if out := asNobody(t, need(t, "curl"), "-sS", "--unix-socket", path, "http://x/healthz"); out != "" {
			t.Errorf("the agent reaches %s: %s", path, out)
		}
	}
	for _, name := range []string{"secrets/api-token", "secrets/webhook", "state/ledger.db", "mediator.yaml", "serve.log"} {
		if out := asNobody(t, "/bin/cat", filepath.Join(r.dir, name)); out != "" {
			t.Errorf("the agent reads %s", name)
		}
	}
}

// TestOtherEndpoint asks a process for what another one answers.
func TestOtherEndpoint(t *testing.T) {
	at := publish(t, "trigger.sock")
	if status, _, said := invoke(t, "posts", "list", "--admin", at); status != exitRefused || !strings.Contains(said, at+" is the endpoint of something that does not know GET /v1/posts") {
		t.Errorf("status %d: %s", status, said)
	}
}
