package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/tlstest"
)

// TestClientFollowsNoRedirect: a process that is taken over cannot send the others elsewhere.
func TestClientFollowsNoRedirect(t *testing.T) {
	var reached atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer elsewhere.Close()
	at := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	check.Must(t, err)
	go func() { _ = http.Serve(l, http.RedirectHandler(elsewhere.URL, http.StatusFound)) }()
	defer l.Close()
	client, base := Client(config.Peer{Unix: at}, nil)
	defer client.CloseIdleConnections()
	resp, err := client.Post(base, "text/plain", nil)
	check.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound || reached.Load() {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestSocketsAdmitByUser(t *testing.T) {
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: this one starts a process of another user")
	}
	dir, err := os.MkdirTemp("", "sockets-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.Must(t, os.Chmod(dir, 0o755))
	const other = 65534
	for name, tt := range map[string]struct {
		uids []uint32
		ok   bool
	}{"named": {[]uint32{other}, true}, "not named": {[]uint32{1}, false}, "nobody named": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			l, err := Listen(config.Endpoint{Unix: path, UIDs: tt.uids}, nil, zap.NewNop())
			check.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write([]byte("in"))
				}), Limits{}, time.Minute, zap.NewNop())
			}()
			cmd := exec.CommandContext(t.Context(), "curl", "-sS", "--unix-socket", path, "http://x/")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
			out, err := cmd.Output()
			if errors.Is(err, exec.ErrNotFound) {
				t.Fatal("curl is missing: run make setup")
			}
			if got := string(out) == "in"; got != tt.ok {
				t.Errorf("curl says %q", out)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestServeLingers asks on a kept connection when the server ends.
func TestServeLingers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, http.NotFoundHandler(), Limits{}, time.Minute, zap.NewNop()) }()
	client := http.Client{Transport: &http.Transport{}}
	for ended := range 2 {
		resp, err := client.Get("http://" + l.Addr().String())
		check.Must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.Close != (ended == 1) {
			t.Errorf("after %d ends: the connection is closed: %t", ended, resp.Close)
		}
		cancel()
	}
	check.Must(t, <-done)
}

func TestPublicBounds(t *testing.T) { synctest.Test(t, publicBounds) }

func publicBounds(t *testing.T) {
	l := &pipeListener{waiting: make(chan net.Conn, 2), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done, errs, begun := make(chan error, 1), make(chan error, 2), make(chan struct{}, 2)
	var inside atomic.Int32
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if inside.Add(1) > 1 {
			t.Error("two connections are open")
		}
		defer inside.Add(-1)
		begun <- struct{}{}
		_, err := io.ReadAll(r.Body)
		errs <- err
	})
	go func() {
		done <- Serve(ctx, l, read, Limits{Connections: 1, Request: 50 * time.Millisecond}, time.Second, zap.NewNop())
	}()
	for i := range 2 { // the second one waits until the first has ended
		c := l.dial("10.0.0.1")
		defer c.Close()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		go func() { _, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf") }()
		if i == 0 {
			<-begun // until then it says nothing, and would give way
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

// TestSlowBody: at an endpoint's TCP address a body has its time, and the answer may take longer.
func TestSlowBody(t *testing.T) { synctest.Test(t, slowBody) }

func slowBody(t *testing.T) {
	l := &pipeListener{waiting: make(chan net.Conn, 2), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done, errs := make(chan error, 1), make(chan error, 1)
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if err == nil {
			time.Sleep(2 * bodyTime)
			err = r.Context().Err()
		}
		errs <- err
	})
	go func() { done <- Serve(ctx, l, read, Limits{}, time.Second, zap.NewNop()) }()
	for body, want := range map[string]error{"half": os.ErrDeadlineExceeded, "0123456789": nil} {
		c := l.dial("10.0.0.1")
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"+body)
		check.Must(t, err)
		if err := <-errs; !errors.Is(err, want) {
			t.Errorf("%s: got %v", body, err)
		}
		c.Close()
	}
	cancel()
	check.Must(t, <-done)
}

func TestWhoMayReloadUnknown(t *testing.T) {
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	for name, c := range map[string]any{"no connection": nil, "another kind of connection": pipe,
		"a connection without a peer": &net.UnixConn{}} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, c), http.MethodPost, "/v1/reload",
			nil)
		if FromOwner(r) {
			t.Errorf("%s: it may", name)
		}
	}
}

// TestSilentHandshakesEnd: a stranger who says nothing cannot keep a connection to an endpoint.
func TestSilentHandshakesEnd(t *testing.T) {
	i, err := identity.Load(tlstest.New(t).Write(t, t.TempDir(), nil, "spiffe://example.org/service/control"))
	check.Must(t, err)
	synctest.Test(t, func(t *testing.T) {
		l := &pipeListener{waiting: make(chan net.Conn, 1), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			over := tls.NewListener(newBoundedListener(l, endpointLimits, zap.NewNop()), i.Config())
			done <- Serve(ctx, over, http.NotFoundHandler(), Limits{}, time.Second, zap.NewNop())
		}()
		began := time.Now()
		c := l.dial("10.0.0.1")
		_, err := io.ReadAll(c)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it ends after %s: %v", took, err)
		}
		c.Close()
		cancel()
		check.Must(t, <-done)
	})
}

func TestPublicCertificate(t *testing.T) {
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	group, ctx := errgroup.WithContext(t.Context())
	if _, err := ListenTLS(ctx, group, "127.0.0.1:0", certificate, key, zap.NewNop()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a listener opens without its files: %v", err)
	}
	one, itsKey := tlstest.New(t).Certify(t, nil)
	tlstest.Replace(t, certificate, one)
	tlstest.Replace(t, key, itsKey)
	l, err := ListenTLS(ctx, group, "127.0.0.1:0", certificate, key, zap.NewNop())
	check.Must(t, err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = Serve(ctx, l, http.NotFoundHandler(), PublicLimits, time.Minute, zap.NewNop()) }()
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		any := &tls.Config{InsecureSkipVerify: true, MaxVersion: version} //nolint:gosec // a test
		c, err := tls.Dial("tcp", l.Addr().String(), any)
		if err == nil {
			c.Close()
		}
		if (err == nil) != want {
			t.Errorf("version %x: %v", version, err)
		}
	}
}
