package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

// tlsEndpoint serves an endpoint over TLS that answers with the caller, and returns its address.
func tlsEndpoint(t *testing.T, a *tlstest.Authority, callers ...string) (*Process, string, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	p := &Process{Log: zap.New(core), Metrics: prometheus.NewRegistry()}
	made := a.Write(t, t.TempDir(), nil, "spiffe://example.org/service/mediator/control")
	files := config.TLS{Certificate: made.Certificate, Key: made.Key, Authorities: made.Authorities}
	check.Must(t, p.loadIdentity(t.Context(), config.Process{TLS: &files}))
	e := config.Endpoint{TCP: "127.0.0.1:0", Callers: callers}
	l, err := endpoint.Listen(e, p.Identity, p.Log)
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- endpoint.Serve(ctx, l,
			p.admitting(e, config.Tokens{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				caller, _ := wire.CallerOf(r.Context())
				wire.Write(w, caller.ID, nil)
			})), endpoint.Limits{}, time.Minute, p.Log)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p, l.Addr().String(), logs
}

func TestCallers(t *testing.T) {
	a, stranger := tlstest.New(t), tlstest.New(t)
	_, at, logs := tlsEndpoint(t, a, "spiffe://example.org/pod/agents/*", "spiffe://example.org/operator")
	ask := func(by *tlstest.Authority, id string) (string, error) {
		i, err := identity.Load(by.Write(t, t.TempDir(), nil, id))
		check.Must(t, err)
		client, base := endpoint.Client(config.Peer{TCP: at}, i)
		defer client.CloseIdleConnections()
		var said string
		err = wire.Peer{HTTP: client, Name: "control", Unavailable: "process_unavailable"}.Call(t.Context(), base, 0,
			&said)
		return said, err
	}
	for id, code := range map[string]string{
		"spiffe://example.org/pod/agents/1":             "",
		"spiffe://example.org/operator":                 "",
		"spiffe://example.org/pod/other/1":              "caller_unknown",
		"spiffe://other.org/pod/agents/1":               "caller_unknown",
		"spiffe://example.org/service/mediator/trigger": "caller_unknown",
	} {
		said, err := ask(a, id)
		if code == "" && (said != id || err != nil) {
			t.Errorf("%s: %q, %v", id, said, err)
		} else if code != "" {
			check.WantCode(t, err, code, id+" is not among the callers")
		}
	}
	if n := logs.FilterMessage("request refused").Len(); n != 3 {
		t.Errorf("%d refusals are in the log", n)
	}
	_, err := ask(stranger, "spiffe://example.org/operator") // which does not trust the server either
	check.WantCode(t, err, "process_unavailable", "its certificate is not valid for 127.0.0.1: ")
	for range 20 {
		c, err := net.Dial("tcp", at)
		check.Must(t, err)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
		_, _ = io.ReadAll(c)
		c.Close()
	}
	if n := logs.FilterMessage("TLS handshake failed").Len(); n == 0 || n > 10 {
		t.Errorf("%d failed handshakes are in the log", n)
	}
}

// TestStrangersAreNotWaitedFor: a caller that is not admitted cannot hold its connection.
func TestStrangersAreNotWaitedFor(t *testing.T) {
	a := tlstest.New(t)
	_, at, _ := tlsEndpoint(t, a, "spiffe://example.org/operator")
	certificate, key := a.Certify(t, nil, "spiffe://example.org/pod/agents/1")
	pair, err := tls.X509KeyPair(certificate, key)
	check.Must(t, err)
	// the second one would keep its connection
	for _, body := range []string{"Content-Length: 10\r\n\r\nhalf", "\r\n"} {
		any := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true} //nolint:gosec // a test
		c, err := tls.Dial("tcp", at, any)
		check.Must(t, err)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+body); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 403 ") {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

// TestCertificateEndsOnAConnection: a kept connection is worth no more than its certificate.
func TestCertificateEndsOnAConnection(t *testing.T) {
	a := tlstest.New(t)
	_, at, _ := tlsEndpoint(t, a, "spiffe://example.org/operator")
	i, err := identity.Load(a.Write(t, t.TempDir(), func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(2 * time.Second)
	},
		"spiffe://example.org/operator"))
	check.Must(t, err)
	client, base := endpoint.Client(config.Peer{TCP: at}, i)
	defer client.CloseIdleConnections()
	own := Process{Identity: i}
	check.Must(t, own.identified(t.Context()))
	for end := time.Now().Add(time.Minute); ; {
		resp, err := client.Get(base)
		check.Must(t, err)
		err = problem.Read(resp)
		resp.Body.Close()
		var refused *problem.Error
		if errors.As(err, &refused) {
			check.WantCode(t, err, "caller_unknown", "certificate has expired")
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is admitted for a minute")
		}
	}
	if err := own.identified(t.Context()); err == nil || !strings.Contains(err.Error(), "is valid from") {
		t.Errorf("it is ready: %v", err)
	}
}
