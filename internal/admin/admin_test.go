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
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/check"
)

// endless is a ledger whose database always has more receipts.
type endless struct{ ledger.Store }

func (endless) Chain(context.Context, string, int64, int) ([]ledger.Receipt, error) {
	return make([]ledger.Receipt, ledger.MaxChain), nil
}

func TestAdminRefusals(t *testing.T) {
	record, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: time.Now})
	check.Must(t, err)
	defer record.Close()
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	p.Reloader = daemon.NewReloader(p.Log, p.Metrics)
	check.Must(t, record.Add(t.Context(), ledger.Record{ID: "post_endless", State: ledger.StateRefused,
		Started: time.Now(), Model: &ledger.ModelCall{}}))
	a := &admin.Server{Process: p, Sessions: session.NewSet(time.Now), Ledger: endless{record}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- endpoint.Serve(ctx, l, a.Handler(), endpoint.Limits{}, time.Minute, p.Log)
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct{ method, path, code string }{
		{"GET", "/readyz", "not_ready"},
		{"POST", "/v1/reload", "not_ready"},
		{"GET", "/v1/posts/post_absent", "not_found"},
		{"GET", "/v1/posts/post_endless", ""},
		{"GET", "/v1/posts?limit=x", "query_malformed"},
		{"GET", "/v1/posts?limit=-1", "query_malformed"},
		{"GET", "/v1/posts?limit=0", "query_malformed"},
		{"GET", "/v1/posts?since=yesterday", "query_malformed"},
		{"GET", "/v1/posts?until=2026-01-31", "query_malformed"},
		{"GET", "/v1/posts?since=2026-01-31T00:00:00Z&until=2026-01-31T00:00:00Z", "query_malformed"},
		{"GET", "/v1/posts?oldestFirst=random", "query_malformed"},
		{"GET", "/v1/posts?before=post_1", "query_malformed"}, // what is not known is not ignored
		{"GET", "/v1/posts?cursor=post_absent", "not_found"},
		{"GET", "/v1/posts?state=indeterminat", "query_malformed"},
		{"GET", "/v1/posts?flow=get", "query_malformed"},
		{"DELETE", "/v1/sessions/ses_absent", "not_found"},
		{"POST", "/v1/sessions", "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts", ""},
		{"GET", "/v1/sessions/ses_absent/receipts?from=2&limit=3", ""},
		{"GET", "/v1/sessions/ses_absent/receipts?from=0", "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts?limit=-1", "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts?limit=x", "query_malformed"},
		{"GET", "/v1/sessions/ses_absent/receipts?number=1", "query_malformed"},
		{"GET", "/healthz", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+l.Addr().String()+tt.path, nil)
		check.Must(t, err)
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
