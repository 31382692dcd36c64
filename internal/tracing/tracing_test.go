package tracing_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	decode "google.golang.org/protobuf/proto"

	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/internal/tracing"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newTracing returns tracing to a collector that answers with status, and the spans that the collector has got. end
// waits until all spans are sent.
func newTracing(t *testing.T, sample float64, status int) (on *tracing.Tracing, r *prometheus.Registry,
	end func() []*proto.Span) {
	t.Helper()
	got := make(chan []*proto.Span, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var all proto.TracesData
		if err == nil {
			err = decode.Unmarshal(raw, &all)
		}
		if err != nil {
			t.Error(err)
		}
		for _, of := range all.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				got <- scope.Spans
			}
		}
		w.WriteHeader(status)
	}))
	r = prometheus.NewRegistry()
	on = tracing.New(tracing.Options{Service: "mediator-test", Collector: otlp.Collector{Endpoint: s.URL},
		Sample: sample, Log: zap.NewNop(), Metrics: r})
	return on, r, func() (all []*proto.Span) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		on.Run(ended)
		s.Close()
		close(got)
		for spans := range got {
			all = append(all, spans...)
		}
		return all
	}
}

func counter(t *testing.T, r *prometheus.Registry, name string, want float64) {
	t.Helper()
	all, err := r.Gather()
	check.Must(t, err)
	for _, f := range all {
		if f.GetName() == name {
			check.WantEqual(t, f.GetMetric()[0].GetCounter().GetValue(), want)
			return
		}
	}
	t.Errorf("there is no metric %s", name)
}

func TestSpansAreBounded(t *testing.T) {
	on, r, end := newTracing(t, 1, http.StatusOK)
	_, span := on.Start(t.Context(), "call")
	span.SetAttributes(attribute.String("long", strings.Repeat("x", 1<<20)))
	span.End()
	all := end()
	if len(all) != 1 || len(all[0].Attributes[0].Value.GetStringValue()) != 256 {
		t.Errorf("got %v", all)
	}
	counter(t, r, "mediator_trace_spans_sent_total", 1)
	counter(t, r, "mediator_trace_spans_dropped_total", 0)
}

// TestQueueIsBounded ends more spans than fit while nothing takes them.
// The bubble's clock stands still while spans are sent, which a process that ends does for two seconds.
func TestQueueIsBounded(t *testing.T) { synctest.Test(t, queueIsBounded) }

func queueIsBounded(t *testing.T) {
	on, r, end := newTracing(t, 1, http.StatusOK)
	for range 5000 {
		_, span := on.Start(t.Context(), "call")
		span.End()
	}
	check.WantEqual(t, len(end()), 4096)
	counter(t, r, "mediator_trace_spans_dropped_total", 5000-4096)
}

func TestCollectorRefuses(t *testing.T) {
	on, r, end := newTracing(t, 1, http.StatusServiceUnavailable)
	_, span := on.Start(t.Context(), "call")
	span.End()
	end()
	counter(t, r, "mediator_trace_spans_sent_total", 0)
	counter(t, r, "mediator_trace_spans_dropped_total", 1)
}

// TestSlowCollector has a collector that does not answer, and a process that ends.
func TestSlowCollector(t *testing.T) {
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer s.Close()
	defer close(end)
	r := prometheus.NewRegistry()
	on := tracing.New(tracing.Options{Service: "mediator-test", Collector: otlp.Collector{Endpoint: s.URL}, Sample: 1,
		Log: zap.NewNop(), Metrics: r})
	_, span := on.Start(t.Context(), "call")
	span.End()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	on.Run(ended)
	counter(t, r, "mediator_trace_spans_dropped_total", 1)
}

func TestAcrossProcesses(t *testing.T) {
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	caller, _, endCaller := newTracing(t, 1, http.StatusOK)
	callee, _, endCallee := newTracing(t, 0.000001, http.StatusOK) // the caller decides
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/things/{id}", func(w http.ResponseWriter, r *http.Request) {
		check.WantEqual(t, r.Header.Get("Tracestate"), "")
		w.WriteHeader(http.StatusTeapot)
		check.Must(t, http.NewResponseController(w).Flush())
	})
	s := httptest.NewServer(tracing.Handler(callee, mux))
	client := &http.Client{Transport: tracing.Transport(s.Client().Transport)}
	ask := func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/things/secret", nil)
		check.Must(t, err)
		req.Header.Set("Traceparent", theirs) // an agent's
		req.Header.Set("Tracestate", "a=b")
		resp, err := client.Do(req)
		check.Must(t, err, resp.Body.Close())
		check.WantEqual(t, resp.StatusCode, http.StatusTeapot)
	}
	ask(t.Context()) // leaves no span
	ctx, span := caller.Start(t.Context(), "call")
	ask(ctx)
	span.End()
	s.Close()
	parents, children := endCaller(), endCallee()
	if len(parents) != 1 || len(children) != 1 {
		t.Fatalf("got %v and %v", parents, children)
	}
	child := children[0]
	check.WantEqual(t, string(child.ParentSpanId), string(parents[0].SpanId))
	check.WantEqual(t, string(child.TraceId), string(parents[0].TraceId))
	check.WantEqual(t, child.Name, "POST /v1/things/{id}")
}

func TestCaller(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, lines := range [][]string{nil, {""}, {good, good}, {good + "-00"}, {strings.Repeat("0", 1<<16)},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01"}, {"ff" + good[2:]}} {
		if c := tracing.Caller(http.Header{"Traceparent": lines}); c.IsValid() {
			t.Errorf("%.80q is %v", lines, c)
		}
	}
	c := tracing.Caller(http.Header{"Traceparent": {good}, "Tracestate": {"a=b"}})
	if !c.IsValid() || !c.IsSampled() || c.TraceState().Len() != 0 {
		t.Errorf("got %+v", c)
	}
}

func FuzzCaller(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, text string) {
		c := tracing.Caller(http.Header{"Traceparent": {text}})
		if !c.IsValid() {
			return
		}
		h := make(http.Header)
		tracing.Inject(trace.SpanContext(c), h)
		if again := tracing.Caller(h); again.TraceID() != c.TraceID() || again.SpanID() != c.SpanID() {
			t.Errorf("%q becomes %q", text, h)
		}
	})
}
