// Package tracing makes the spans of one process and sends them to an OpenTelemetry collector. A process does not wait
// for the collector: what the collector does not take in time is dropped and counted.
//
//	tracing.go  the tracer and its queue
//	http.go     traces across processes, with the W3C header traceparent
package tracing

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/otlp"
)

const (
	// maxQueued bounds the spans that wait; their attributes are bounded too.
	maxQueued = 4096
	// maxBatch bounds the spans of one request.
	maxBatch = 512
	// gather lets spans gather for one request.
	gather = time.Second
	// lastTimeout bounds the sending of what waits when a process ends.
	lastTimeout = 2 * time.Second
)

// limits bound a span. An agent chooses some of its attributes.
var limits = sdk.SpanLimits{AttributeValueLengthLimit: 256, AttributeCountLimit: 32, LinkCountLimit: 1,
	AttributePerLinkCountLimit: 1, EventCountLimit: 1, AttributePerEventCountLimit: 1}

// Options configure [New].
type Options struct {
	Service   string // the process's name for the collector
	Collector otlp.Collector
	Sample    float64 // the part of all traces that is recorded, above 0 and up to 1
	Log       *zap.Logger
	Metrics   prometheus.Registerer
}

// Tracing makes the spans of one process. It is the processor of those that have ended: its queue is bounded, and it
// needs no timer while there are none.
type Tracing struct {
	trace.Tracer
	client        *otlp.Client
	log           *zap.Logger
	spans         chan sdk.ReadOnlySpan
	sent, dropped prometheus.Counter
}

// New makes the tracer. Spans wait until Run.
func New(o Options) *Tracing {
	with := promauto.With(o.Metrics)
	t := &Tracing{client: otlp.NewClient(o.Collector), log: flood.Logger(o.Log),
		spans: make(chan sdk.ReadOnlySpan, maxQueued),
		sent: with.NewCounter(prometheus.CounterOpts{Name: "mediator_trace_spans_sent_total",
			Help: "Spans that the collector took."}),
		dropped: with.NewCounter(prometheus.CounterOpts{Name: "mediator_trace_spans_dropped_total",
			Help: "Spans that were dropped, because the collector refused them or was too slow or away."}),
	}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(t), sdk.WithRawSpanLimits(limits),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Sample))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Service))))
	t.Tracer = provider.Tracer("github.com/actionproof/mediator")
	return t
}

// OnStart does nothing.
func (t *Tracing) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd queues the span or drops it.
func (t *Tracing) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case t.spans <- s:
	default:
		t.dropped.Inc()
	}
}

// Shutdown does nothing: see Run.
func (t *Tracing) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing: see Run.
func (t *Tracing) ForceFlush(context.Context) error { return nil }

// Run sends spans until ctx ends, and then those that wait.
func (t *Tracing) Run(ctx context.Context) {
	defer t.client.Close()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTimeout, end) })()
	exporter := otlptrace.NewUnstarted(uploader{t.client})
	for life.Err() == nil && (ctx.Err() == nil || len(t.spans) > 0) {
		select {
		case first := <-t.spans:
			_ = every.Sleep(ctx, t.export(life, ctx.Done(), exporter, first))
		case <-ctx.Done():
		}
	}
}

// export sends spans: first, and those that end soon. If the process ends, it does not wait for more. It returns how
// long the collector asks to wait.
func (t *Tracing) export(ctx context.Context, ending <-chan struct{}, exporter *otlptrace.Exporter,
	first sdk.ReadOnlySpan) time.Duration {
	batch := []sdk.ReadOnlySpan{first}
	soon := time.NewTimer(gather)
	defer soon.Stop()
	for waiting := true; len(batch) < maxBatch && (waiting || len(t.spans) > 0); {
		select {
		case s := <-t.spans:
			batch = append(batch, s)
		case <-soon.C:
			waiting = false
		case <-ending:
			waiting, ending = false, nil
		}
	}
	dropped := 0.0
	err := exporter.ExportSpans(ctx, batch)
	if err != nil {
		dropped = float64(len(batch))
		if refused, ok := errors.AsType[*otlp.RejectedError](err); ok {
			dropped = min(dropped, float64(refused.Items))
		}
		t.log.Warn("spans were dropped", zap.Error(err))
	}
	t.dropped.Add(dropped)
	t.sent.Add(float64(len(batch)) - dropped)
	return otlp.WaitOf(err)
}

// uploader is an otlptrace.Client.
type uploader struct{ *otlp.Client }

// Start does nothing.
func (uploader) Start(context.Context) error { return nil }

// Stop does nothing.
func (uploader) Stop(context.Context) error { return nil }

// UploadTraces sends spans. TracesData and an ExportTraceServiceRequest have the same form on the wire.
func (u uploader) UploadTraces(ctx context.Context, spans []*proto.ResourceSpans) error {
	return u.Send(ctx, "/v1/traces", &proto.TracesData{ResourceSpans: spans})
}
