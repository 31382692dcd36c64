package daemon

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

// TestTokens: an operator without a certificate reads with one token, and does everything with the other.
func TestTokens(t *testing.T) {
	callerCheck = 10 * time.Millisecond
	t.Cleanup(func() { callerCheck = 30 * time.Second })
	a, dir := tlstest.New(t), t.TempDir()
	id, err := identity.Load(a.Write(t, t.TempDir(), nil, "spiffe://example.org/pod/agents/1"))
	check.Must(t, err)
	p := &Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry(), Identity: id}
	path := func(name, content string) string {
		at := filepath.Join(dir, name)
		check.Must(t, os.WriteFile(at, []byte(content+"\n"), 0o600))
		return at
	}
	reads, operates := strings.Repeat("r", 32), strings.Repeat("o", 32)
	tokens := config.Tokens{Read: path("read", reads), Operate: path("operate", operates)}
	e := config.Endpoint{TCP: "127.0.0.1:0", Callers: []string{"spiffe://example.org/operator"}}
	l, err := endpoint.ListenOpen(e, id, p.Log)
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- endpoint.Serve(ctx, l,
			p.admitting(e, tokens, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/follow" {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return
				}
				caller, _ := wire.CallerOf(r.Context())
				wire.Write(w, caller.ID, nil)
			})), endpoint.Limits{}, time.Minute, p.Log)
	}()
	t.Cleanup(func() {
		cancel()
		check.Must(t, <-done)
	})
	authorities := path("ca.pem", string(a.PEM()))
	ask := func(id *identity.Identity, method string) (string, error) {
		client, base := endpoint.Client(config.Peer{TCP: l.Addr().String()}, id)
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), method, base+"/", nil)
		check.Must(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", problem.Read(resp)
		}
		return resp.Status, nil
	}
	by := func(token string) *identity.Identity {
		id, err := identity.LoadBearer(path("given", token), authorities)
		check.Must(t, err)
		return id
	}
	for _, tt := range []struct{ name, token, method, says string }{
		{"reading", reads, http.MethodGet, ""},
		{"reading only", reads, http.MethodPost, "this token can only read: POST needs the operate token"},
		{"operating", operates, http.MethodPost, ""},
		{"operating reads too", operates, http.MethodGet, ""},
		{"another", strings.Repeat("x", 32), http.MethodGet, "this endpoint knows no such token"},
		{"the beginning of one", reads[:31], http.MethodGet, "this endpoint knows no such token"},
	} {
		_, err := ask(by(tt.token), tt.method)
		if tt.says == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if tt.says != "" {
			check.WantCode(t, err, "caller_unknown", tt.says)
		}
	}
	operator, err := identity.Load(a.Write(t, t.TempDir(), nil, "spiffe://example.org/operator"))
	check.Must(t, err)
	if _, err := ask(operator, http.MethodPost); err != nil {
		t.Errorf("a certificate: %v", err)
	}
	stranger, err := identity.Load(a.Write(t, t.TempDir(), nil, "spiffe://example.org/other"))
	check.Must(t, err)
	_, err = ask(stranger, http.MethodGet)
	check.WantCode(t, err, "caller_unknown", "spiffe://example.org/other is not among the callers")

	client, base := endpoint.Client(config.Peer{TCP: l.Addr().String()}, by(reads))
	defer client.CloseIdleConnections()
	followed, err := client.Get(base + "/follow")
	check.Must(t, err)
	defer followed.Body.Close()
	path("read", strings.Repeat("n", 32))     // replaced while the process runs
	_, _ = io.Copy(io.Discard, followed.Body) // an answer does not outlive the caller's token
	_, err = ask(by(reads), http.MethodGet)
	check.WantCode(t, err, "caller_unknown", "this endpoint knows no such token")
	if _, err := ask(by(strings.Repeat("n", 32)), http.MethodGet); err != nil {
		t.Errorf("the new token: %v", err)
	}
	check.Must(t, os.Remove(tokens.Operate))
	_, err = ask(by(operates), http.MethodPost)
	check.WantCode(t, err, "caller_unknown", "this endpoint knows no such token")
	if strings.Contains(err.Error(), dir) {
		t.Errorf("a stranger is told where the file is: %v", err)
	}
	_, err = identity.LoadBearer(path("given", operates), path("no-ca", "x"))
	if err == nil {
		t.Error("a client without authorities would believe any server")
	}
}
