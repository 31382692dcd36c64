package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/trigger"
)

const stranger = "Basic c2VzX3g6eA==" // of no session

// unknown has every way in which a call can be refused before its session is known. Each returns the record's id in the
// answer.
var unknown = map[string]func(p *Pipeline, authorization string) string{
	"a call":                   calling("https://a.example/x"),
	"its next event":           calling(ownURL + "/v1/event"),
	"a page that is not there": calling(ownURL + "/nowhere"),
	"the CA":                   calling(ownURL + "/v1/ca.pem"),
	"a malformed request": func(p *Pipeline, authorization string) string {
		return served(p, "https://a.example/x", authorization, func(w http.ResponseWriter, r *http.Request) {
			p.Refuse(w, r, refusal.New("request_malformed", "it is malformed"))
		})
	},
	"a request without a route": func(p *Pipeline, authorization string) string {
		r := httptest.NewRequest(http.MethodGet, "https://a.example/x", nil)
		r.Header.Set("Proxy-Authorization", authorization)
		w := httptest.NewRecorder()
		p.Refuse(w, r, refusal.New("overloaded", "too many"))
		return postOf(w)
	},
	"a CONNECT": func(p *Pipeline, authorization string) string {
		return served(p, "https://b.elsewhere/", authorization, func(w http.ResponseWriter, r *http.Request) {
			_, err := p.Connect(r, upstream.Target{Scheme: "https", Host: "b.elsewhere", Port: 443})
			p.Refuse(w, r, err)
		})
	},
	"a tunnel": func(p *Pipeline, authorization string) string {
		target := upstream.Target{Scheme: "https", Host: "a.example", Port: 443}
		ctx := intercept.WithRoute(context.Background(),
			intercept.Route{Target: target, ProxyAuthorization: authorization})
		p.Refused(ctx, refusal.New("target_mismatch", "another host"))
		return ""
	},
}

func calling(url string) func(*Pipeline, string) string {
	return func(p *Pipeline, authorization string) string { return served(p, url, authorization, p.ServeHTTP) }
}

func served(p *Pipeline, url, authorization string, serve http.HandlerFunc) string {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	target := upstream.Target{Scheme: r.URL.Scheme, Host: r.URL.Hostname(), Port: 443}
	w := httptest.NewRecorder()
	serve(w, r.WithContext(
		intercept.WithRoute(r.Context(), intercept.Route{Target: target, ProxyAuthorization: authorization})))
	return postOf(w)
}

func postOf(w *httptest.ResponseRecorder) string { return refusalIn(w).Post }

// Unknown callers leave a few records and lines a minute, and the rest is counted. Known ones leave every record.
func TestUnknownCallers(t *testing.T) {
	for name, call := range unknown {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoadRig(t, Load{})
				l.sessions.CloseStanding("")
				credentials := l.open()
				core, logs := observer.New(zapcore.InfoLevel)
				registry := prometheus.NewRegistry()
				p := l.succeed(Load{Unknown: 3}, func(o *PipelineOptions) {
					o.Log = zap.New(core)
					var err error
					o.Metrics, err = NewMetrics(registry)
					must(t, err)
				})
				records := func() int { _, n := l.record.last(); return n }
				const calls = 50
				for i := range calls {
					id := call(p, stranger)
					if rec, n := l.record.last(); n != min(i+1, 3) || rec.Session != "" {
						t.Fatalf("%d records after %d calls, the last %+v", n, i+1, rec)
					} else if i >= 3 && id != "" {
						t.Fatalf("the answer names the record %s, which there is not", id)
					}
				}
				if n := logs.TakeAll(); len(n) != 3 {
					t.Errorf("%d lines", len(n))
				}
				if got := leftOut(t, registry); got != calls-3 {
					t.Errorf("%g were counted as left out, want %d", got, calls-3)
				}
				for range calls {
					call(p, credentials)
				}
				if rec, n := l.record.last(); n != 3+calls || rec.Session == "" || rec.Event != "evt_2" {
					t.Errorf("%d records, the last %+v", n-3, rec)
				}
				_ = logs.TakeAll()
				time.Sleep(flood.Window)
				synctest.Wait()
				if said := logs.TakeAll(); len(said) != 1 ||
					said[0].Message != "calls of unknown callers left no record" ||
					said[0].ContextMap()["calls"] != int64(calls-3) {
					t.Errorf("the log says %+v", said)
				}
				// a reload begins no new minute
				p = l.succeed(Load{Unknown: 3}, func(o *PipelineOptions) { o.After = p })
				before := records()
				call(p, stranger)
				call(p, stranger)
				p = l.succeed(Load{Unknown: 3}, func(o *PipelineOptions) { o.After = p })
				call(p, stranger)
				call(p, stranger)
				if n := records() - before; n != 3 {
					t.Errorf("%d records in the next minute", n)
				}
			})
		})
	}
}

func leftOut(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "mediator_records_left_out_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

// A call refused before step 1 still belongs to its session.
func TestOverloadIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Calls: 1, Unknown: 1})
		session, going := l.open(), make(chan struct{})
		l.answer = func(*http.Request) (int, error) { <-going; return http.StatusOK, nil }
		done := make(chan struct{})
		go func() { defer close(done); l.call(session, "GET https://a.example/x") }()
		synctest.Wait()
		for range 20 {
			l.refused("overloaded", 1, session, "GET https://a.example/x")
		}
		close(going)
		<-done
	})
}

// TestFloodOfASession bounds what refused calls of a session, and of all sessions, write. A post still leaves its
// record.
func TestFloodOfASession(t *testing.T) {
	for _, tt := range []struct {
		name            string
		sessions, calls int
		wantRecords     int
	}{
		{"one session", 1, 1000, 50},
		{"all sessions together", 20, 45, 500},
	} {
		for _, line := range []string{"DELETE https://a.example/x", "GET http://" + InternalHost + "/v1/event",
			"POST https://a.example/elsewhere"} {
			t.Run(tt.name+" "+line, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLoadRig(t, Load{})
					core, logs := observer.New(zapcore.InfoLevel)
					registry := prometheus.NewRegistry()
					l.pipeline = l.succeed(Load{Refused: 50}, func(o *PipelineOptions) {
						o.Log = zap.New(core)
						var err error
						o.Metrics, err = NewMetrics(registry)
						must(t, err)
					})
					var last string
					for range tt.sessions {
						last = l.open()
						for range tt.calls {
							l.call(last, line)
						}
					}
					_, n := l.record.last()
					if lines := logs.TakeAll(); n != tt.wantRecords || len(lines) != n {
						t.Errorf("%d records and %d lines, want %d", n, len(lines), tt.wantRecords)
					}
					if strings.Contains(l.call(last, line).Body.String(), `"post":"post_`) {
						t.Error("the answer names a record that there is not")
					}
					l.want(http.StatusCreated, 1, last, postA)
					if rec, after := l.record.last(); after != n+1 || rec.Flow != flowPost {
						t.Errorf("the post left %d records, the last %+v", after-n, rec)
					}
					_ = logs.TakeAll()
					time.Sleep(flood.Window)
					synctest.Wait()
					var said int64
					for _, line := range logs.TakeAll() {
						said += line.ContextMap()["calls"].(int64)
					}
					if left := leftOut(t, registry); int64(left) != said || said < int64(tt.sessions*tt.calls-n) {
						t.Errorf("%d calls were left out, the log says %d and the metric %g", tt.sessions*tt.calls-n,
							said, left)
					}
				})
			})
		}
	}
}

// TestRecordsHoldNoRequest: records wait for the ledger in memory, so they keep no texts of their requests alive.
func TestRecordsHoldNoRequest(t *testing.T) {
	const calls, long = 100, 60 << 10
	l := newLoadRig(t, Load{})
	call := func() {
		r := httptest.NewRequest(http.MethodGet, "https://a.example/x?name=1&"+strings.Repeat("y", long), nil)
		r.Header.Set("Content-Type", "text/plain; x="+strings.Repeat("z", long))
		target, err := upstream.ParseOrigin(r.URL.Scheme, r.URL.Host)
		must(t, err)
		l.pipeline.ServeHTTP(httptest.NewRecorder(),
			r.WithContext(intercept.WithRoute(r.Context(), intercept.Route{Target: target})))
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools keep is gone after the second
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	call()
	before := heap()
	for range calls {
		call()
	}
	after := heap()
	rec, n := l.record.last()
	if n != 1+calls || rec.Path != "/x" || rec.Carries != "text/plain" || len(rec.QueryNames) != 1 {
		t.Fatalf("%d records, the last %+v", n, rec)
	}
	if grown := (int64(after) - int64(before)) / calls; grown > long/4 {
		t.Errorf("a record keeps %d bytes", grown)
	}
}

// TestPodsShare: an agent in a pod of its own has one share, also of the calls of its earlier sessions, which may go on,
// and before its first one. Another pod still gets its event and makes its calls.
func TestPodsShare(t *testing.T) {
	for name, tt := range map[string]struct {
		url      string
		sessions int
	}{
		"one session":      {"https://a.example/x", 1},
		"sessions in turn": {"https://a.example/x", 5},
		"no session":       {ownURL + "/v1/event/next?wait=60s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoadRig(t, Load{Calls: 16})
				handler, going := NewHandler(l.pipeline), make(chan struct{})
				call := func(pod, url string) *httptest.ResponseRecorder {
					r := httptest.NewRequest(http.MethodGet, url, nil)
					target, err := upstream.ParseOrigin(r.URL.Scheme, r.URL.Host)
					must(t, err)
					route := intercept.Route{Target: target, Agent: pod}
					if party := handler.Party(route); party != pod {
						t.Errorf("a tunnel counts for %q", party)
					}
					w := httptest.NewRecorder()
					l.pipeline.ServeHTTP(w, r.WithContext(intercept.WithRoute(r.Context(), route)))
					return w
				}
				l.answer = func(*http.Request) (int, error) { <-going; return http.StatusOK, nil }
				asks, _ := l.sessions.Turn(t.Context(), "pod/a", 0)
				var calls sync.WaitGroup
				for i := range max(1, tt.sessions) {
					if tt.sessions > 0 {
						l.sessions.OpenStanding(trigger.Event{ID: fmt.Sprint("evt_", i)}, "worker-1", "pod/a")
					}
					for range 16 {
						calls.Go(func() { call("pod/a", tt.url) })
					}
					synctest.Wait()
				}
				if held, _ := l.pipeline.load.InFlight(); held != 8 {
					t.Errorf("pod/a holds %d of 16 calls", held)
				}
				if w := call("pod/b", ownURL+"/v1/event/next?wait=0s"); w.Code != http.StatusOK {
					t.Errorf("pod/b gets no event: %d %s", w.Code, w.Body)
				}
				asks()
				close(going)
				calls.Wait()
			})
		})
	}
}

// TestPodsShareAHost: a pod's sessions in turn, one for each event, are one party at a host. They neither take all of
// its rate nor suspend it for another pod.
func TestPodsShareAHost(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Load
		answer int
	}{
		"its rate":    {Load{Host: Rate{PerSecond: 8}}, http.StatusOK}, // 16 in two seconds
		"its breaker": {Load{Breaker: upstream.Breaker{Failures: 3}}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoadRig(t, tt.limits)
				l.answer = func(*http.Request) (int, error) { return tt.answer, nil }
				call := func(pod string) int {
					r := httptest.NewRequest(http.MethodPost, "https://a.example/posts", strings.NewReader("{}"))
					r.Header.Set("Content-Type", "application/json")
					target, err := upstream.ParseOrigin(r.URL.Scheme, r.URL.Host)
					must(t, err)
					w := httptest.NewRecorder()
					l.pipeline.ServeHTTP(w, r.WithContext(intercept.WithRoute(r.Context(),
						intercept.Route{Target: target, Agent: pod})))
					return w.Code
				}
				for i := range 5 {
					l.sessions.OpenStanding(trigger.Event{ID: fmt.Sprint("evt_", i)}, "worker-1", "pod/a")
					for range 16 {
						call("pod/a")
					}
				}
				l.answer = func(*http.Request) (int, error) { return http.StatusOK, nil }
				l.sessions.OpenStanding(trigger.Event{ID: "evt_b"}, "worker-1", "pod/b")
				if got := call("pod/b"); got != http.StatusOK {
					t.Errorf("pod/b gets %d", got)
				}
			})
		})
	}
}
