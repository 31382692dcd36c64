package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

type forgetful struct{}

func (forgetful) Begin(context.Context, ledger.Record, ...ledger.Key) error { return nil }
func (forgetful) Finish(context.Context, ledger.Record) error               { return nil }
func (forgetful) Add(context.Context, ledger.Record) error                  { return nil }
func (forgetful) FinishLater(context.Context, ledger.Record) error          { return nil }
func (forgetful) AddLater(context.Context, ledger.Record) error             { return nil }
func (forgetful) Full(string) error                                         { return nil }

// BenchmarkRead measures the pipeline alone: no connection, upstream or ledger.
func BenchmarkRead(b *testing.B) {
	l := newLoadRig(b, Load{Session: Rate{PerSecond: maxRate}, Host: Rate{PerSecond: maxRate}})
	l.pipeline.o.Record = forgetful{}
	l.answer = func(*http.Request) (int, error) { return http.StatusOK, nil }
	target := upstream.Target{Scheme: "https", Host: "a.example", Port: 8443}
	read := matching(b, "https://a.example:8443/**", "GET")
	l.pipeline.o.Rules = rulesFor(b, nil, []Egress{{Name: "reads", Match: read}})
	r := httptest.NewRequest("GET", "https://a.example:8443/v1/models/7", nil)
	r.Header = http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"agent/1.0"}}
	r = r.WithContext(intercept.WithRoute(r.Context(), intercept.Route{Target: target, ProxyAuthorization: l.open()}))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		l.pipeline.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
}
