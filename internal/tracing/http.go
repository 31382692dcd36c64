package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// header reads and writes traceparent (w3.org/TR/trace-context).
var header propagation.TraceContext

// Transport adds the context of a recorded span to requests to another process. It removes any other: an agent may
// have written it.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip makes the request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	recorded := trace.SpanContextFromContext(r.Context()).IsSampled()
	if !recorded && r.Header["Traceparent"] == nil && r.Header["Tracestate"] == nil {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	delete(r.Header, "Traceparent")
	delete(r.Header, "Tracestate")
	if recorded {
		Inject(trace.SpanContextFromContext(r.Context()), r.Header)
	}
	return t.next.RoundTrip(r)
}

// Handler makes a span of each request whose caller records its own. Callers must be the deployment's processes.
func Handler(t trace.Tracer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := Caller(r.Header)
		if !caller.IsSampled() {
			next.ServeHTTP(w, r)
			return
		}
		ctx, span := t.Start(trace.ContextWithRemoteSpanContext(r.Context(), caller), r.Method,
			trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", r.Method)))
		defer span.End()
		r = r.WithContext(ctx)
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if r.Pattern != "" { // of the mux
				span.SetName(r.Pattern)
			}
			span.SetAttributes(attribute.Int("http.response.status_code", answer.status))
			if answer.status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, "")
			}
		}()
		next.ServeHTTP(answer, r)
	})
}

// Caller returns the span context in a header, or an invalid one if there is not exactly one well-formed traceparent.
// It leaves out the tracestate, which may be large.
func Caller(h http.Header) trace.SpanContext {
	if len(h["Traceparent"]) != 1 {
		return trace.SpanContext{}
	}
	ctx := header.Extract(context.Background(), propagation.MapCarrier{"traceparent": h["Traceparent"][0]})
	return trace.SpanContextFromContext(ctx)
}

// Inject sets traceparent, and removes the tracestate of another trace.
func Inject(of trace.SpanContext, h http.Header) {
	delete(h, "Tracestate")
	header.Inject(trace.ContextWithSpanContext(context.Background(), of), propagation.HeaderCarrier(h))
}

// answer notes the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Flush implements [http.Flusher], for handlers that stream.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
