package proxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// succeed makes a successor of the rig's pipeline, with another manifest and these limits.
func (l *loadRig) succeed(load Load, change func(*PipelineOptions)) *Pipeline {
	l.t.Helper()
	o := l.pipeline.o
	o.Load, o.After = load, l.pipeline
	strict := *o.Strict
	strict.ManifestHash = strings.Repeat("b", 64)
	o.Strict = &strict
	if change != nil {
		change(&o)
	}
	p, err := NewPipeline(o)
	must(l.t, err)
	return p
}

// A call keeps its pipeline; the next call gets the new one.
func TestHandlerSwap(t *testing.T) {
	l := newLoadRig(t, Load{})
	handler := NewHandler(l.pipeline)
	none, err := rules.New(nil, nil, nil)
	must(t, err)
	next := l.succeed(Load{}, func(o *PipelineOptions) { o.Rules = none })
	read := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "https://a.example/x", nil)
		return r.WithContext(
			intercept.WithRoute(r.Context(),
				intercept.Route{Target: upstream.Target{Scheme: "https", Host: "a.example", Port: 443}}))
	}
	target := upstream.Target{Scheme: "https", Host: "a.example", Port: 443}
	l.answer = func(*http.Request) (int, error) {
		handler.Set(next) // during the call
		return http.StatusCreated, nil
	}
	before := l.pipeline.o.Strict.ManifestHash
	_, err = handler.Connect(read(), target)
	must(t, err)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, read())
	if rec, _ := l.record.last(); w.Code != http.StatusCreated || rec.Manifest != before ||
		rec.State != ledger.StateForwarded {
		t.Errorf("the call in flight: %d, %+v", w.Code, rec)
	}
	for _, refused := range []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { handler.ServeHTTP(w, read()) },
		func(w http.ResponseWriter) { handler.Refuse(w, read(), errors.New("broken")) },
		func(w http.ResponseWriter) {
			handler.Refused(t.Context(), errors.New("broken"))
			w.WriteHeader(http.StatusForbidden)
		},
		func(w http.ResponseWriter) {
			if _, err := handler.Connect(read(), target); err != nil {
				w.WriteHeader(http.StatusForbidden)
			}
		},
	} {
		_, n := l.record.last()
		w := httptest.NewRecorder()
		refused(w)
		if rec, after := l.record.last(); w.Code < 400 || after != n+1 || rec.Manifest != next.o.Strict.ManifestHash {
			t.Errorf("after the change: %d, %d records, %+v", w.Code, after-n, rec)
		}
	}
}

func TestLoadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := Load{Calls: 1, Session: Rate{PerSecond: 1, Burst: 3}, Host: Rate{PerSecond: 0.2, Burst: 4},
			Breaker: upstream.Breaker{Failures: 2, Pause: time.Minute}}
		l := newLoadRig(t, same)
		l.want(http.StatusCreated, 2, "", readA)
		l.pipeline = l.succeed(same, nil)
		l.refused("rate_limited", 20, "", readA) // the host
		l.refused("rate_limited", 1, "", readA)  // the session

		wider := same
		wider.Host.Burst, wider.Session = 50, Rate{PerSecond: 10, Burst: 50}
		l.pipeline = l.succeed(wider, nil)
		l.refused("rate_limited", 1, "", readA) // the session's use still counts
		time.Sleep(time.Second)
		l.want(http.StatusCreated, 3, "", readA) // another limit forgets the hosts

		l.answer = func(*http.Request) (int, error) { return http.StatusServiceUnavailable, nil }
		l.want(http.StatusServiceUnavailable, 2, "", readA)
		l.answer = func(*http.Request) (int, error) { return http.StatusCreated, nil }
		l.pipeline = l.succeed(wider, nil)
		l.refused("upstream_suspended", 60, "", readA)
		patient := wider
		patient.Breaker.Failures = 5
		l.pipeline = l.succeed(patient, nil)
		l.want(http.StatusCreated, 1, "", readA)

		// The only call that may be in flight belongs to the previous pipeline.
		inside := l.pipeline
		l.answer = func(*http.Request) (int, error) {
			l.pipeline = l.succeed(patient, nil)
			l.answer = func(*http.Request) (int, error) { return http.StatusCreated, nil }
			l.refused("overloaded", 1, "", readA)
			return http.StatusCreated, nil
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "https://a.example/x", nil)
		inside.ServeHTTP(w,
			r.WithContext(
				intercept.WithRoute(r.Context(),
					intercept.Route{Target: upstream.Target{Scheme: "https", Host: "a.example", Port: 443}})))
		l.want(http.StatusCreated, 1, "", readA)
	})
}
