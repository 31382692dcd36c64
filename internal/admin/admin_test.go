package admin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/check"
)

func TestAdminRefusals(t *testing.T) {
	record, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: time.Now})
	check.Must(t, err)
	defer record.Close()
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	p.Reloader = daemon.NewReloader(p.Log, p.Metrics)
	a := &admin.Server{Process: p, Sessions: session.NewSet(time.Now), Ledger: record}
	const token = "a-token-of-at-least-thirty-two-bytes"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- daemon.Serve(ctx, l, daemon.RequireToken(config.Endpoint{TCP: "x", Token: token}, a.Handler()),
			daemon.Limits{}, time.Minute, p.Log)
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct{ method, path, token, code string }{
		{"GET", "/readyz", token, "not_ready"},
		{"POST", "/v1/reload", token, "not_ready"},
		{"POST", "/v1/reload", "", "endpoint_token"},
		{"GET", "/v1/posts/post_absent", token, "not_found"},
		{"GET", "/v1/posts?limit=x", token, "query_malformed"},
		{"GET", "/v1/posts?limit=-1", token, "query_malformed"},
		{"GET", "/v1/posts?limit=0", token, "query_malformed"},
		{"GET", "/v1/posts?since=yesterday", token, "query_malformed"},
		{"GET", "/v1/posts?until=2026-01-31", token, "query_malformed"},
		{"GET", "/v1/posts?since=2026-01-31T00:00:00Z&until=2026-01-31T00:00:00Z", token, "query_malformed"},
		{"GET", "/v1/posts?order=random", token, "query_malformed"},
		{"GET", "/v1/posts?before=post_1", token, "query_malformed"}, // what is not known is not ignored
		{"GET", "/v1/posts?cursor=post_absent", token, "not_found"},
		{"GET", "/v1/posts?state=indeterminat", token, "query_malformed"},
		{"GET", "/v1/posts?flow=get", token, "query_malformed"},
		{"DELETE", "/v1/sessions/ses_absent", token, "not_found"},
		{"POST", "/v1/sessions", token, "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts", token, ""},
		{"GET", "/v1/sessions/ses_absent/receipts?from=2&limit=3", token, ""},
		{"GET", "/v1/sessions/ses_absent/receipts?from=0", token, "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts?limit=-1", token, "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts?limit=x", token, "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts?number=1", token, "query_malformed"},
		{"GET", "/healthz", "", "endpoint_token"},
		{"GET", "/healthz", token + "x", "endpoint_token"},
		{"GET", "/healthz", token, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+l.Addr().String()+tt.path, nil)
		check.Must(t, err)
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		resp, err := http.DefaultClient.Do(req)
		check.Must(t, err)
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
