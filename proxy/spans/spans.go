// Package spans makes the spans of calls for OpenTelemetry: one for each call, and below it one for each of its steps.
// Attributes have the names of its semantic conventions, or begin with mediator. They hold no path, query or content,
// where secrets may be.
package spans

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/actionproof/mediator/internal/tracing"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

// Call is the trace of a call.
type Call struct {
	tracer trace.Tracer
	call   trace.Span
	step   trace.Span // of the step that runs; its name is known at its end
}

// Begin begins the trace of a call with this header, which may be nil. An agent's own trace is only linked, because the
// agent must neither choose which calls are recorded nor write into other traces.
func Begin(t trace.Tracer, h http.Header, began time.Time) *Call {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(began),
		trace.WithSpanKind(trace.SpanKindServer)}
	if agent := tracing.Caller(h); agent.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: agent}))
	}
	c := &Call{tracer: t}
	_, c.call = t.Start(context.Background(), "call", options...)
	c.next(began)
	return c
}

// next begins the span of the next step.
func (c *Call) next(at time.Time) {
	if c.call.IsRecording() {
		_, c.step = c.tracer.Start(trace.ContextWithSpan(context.Background(), c.call), "", trace.WithTimestamp(at))
	}
}

// Step ends the span of a step.
func (c *Call) Step(step string, at time.Time) {
	if c.call.IsRecording() {
		c.step.SetName(step)
		c.step.End(trace.WithTimestamp(at))
		c.next(at)
	}
}

// Context is for requests to other processes in the current step.
func (c *Call) Context(ctx context.Context) context.Context {
	if !c.call.IsRecording() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, c.step)
}

// Propagate puts the call's trace into a request to an upstream, in place of the agent's.
func (c *Call) Propagate(h http.Header) {
	span := c.call
	if c.call.IsRecording() {
		span = c.step
	}
	tracing.Inject(span.SpanContext(), h)
}

// Exemplar links a metric to the trace; it is nil for a trace that is not recorded.
func (c *Call) Exemplar() prometheus.Labels {
	if !c.call.IsRecording() {
		return nil
	}
	return prometheus.Labels{"trace_id": c.call.SpanContext().TraceID().String()}
}

// End ends the trace of a call that is over.
func (c *Call) End(r *ledger.Record) {
	if !c.call.IsRecording() {
		return
	}
	method := r.Method
	if !slices.Contains(knownMethods, method) {
		method = "_OTHER"
	}
	c.call.SetName(strings.TrimSpace(method + " " + r.Rule))
	host, port := r.Host, ""
	if i := strings.LastIndexByte(r.Host, ':'); i >= 0 {
		host, port = strings.Trim(r.Host[:i], "[]"), r.Host[i+1:]
	}
	for _, a := range [...]struct{ key, value string }{
		{"http.request.method", method}, {"url.scheme", r.Scheme}, {"server.address", host}, {"error.type", r.Code},
		{"session.id", r.Session}, {"mediator.record.id", r.ID}, {"mediator.flow", r.Flow},
		{"mediator.state", string(r.State)}, {"mediator.rule", r.Rule}, {"mediator.step", r.Step},
	} {
		if a.value != "" {
			c.call.SetAttributes(text(a.key, a.value))
		}
	}
	if n, err := strconv.Atoi(port); err == nil {
		c.call.SetAttributes(attribute.Int("server.port", n))
	}
	if r.Status != 0 {
		c.call.SetAttributes(attribute.Int("http.response.status_code", r.Status))
	}
	c.call.SetAttributes(mcpAttributes(r.MCP)...)
	c.call.SetAttributes(modelAttributes(r.Model)...)
	if r.Code != "" {
		c.call.SetStatus(codes.Error, r.Code)
	}
	c.call.End(trace.WithTimestamp(r.Finished))
}

// knownMethods has the methods of RFC 9110 and RFC 5789; others are reported as _OTHER.
var knownMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch}

// text makes an attribute. A batch with anything but UTF-8 cannot be sent.
func text(key, value string) attribute.KeyValue {
	return attribute.String(key, strings.ToValidUTF8(value, "\ufffd"))
}

func mcpAttributes(m *ledger.MCPMessage) (all []attribute.KeyValue) {
	if m == nil || m.Method == "" {
		return nil
	}
	all = append(all, text("mcp.method.name", m.Method))
	if m.Tool != "" {
		all = append(all, text("gen_ai.operation.name", "execute_tool"),
			text("gen_ai.tool.name", m.Tool))
	}
	return all
}

func modelAttributes(m *ledger.ModelCall) []attribute.KeyValue {
	if m == nil {
		return nil
	}
	of := conventions[inference.Dialect(m.API)]
	all := []attribute.KeyValue{text("gen_ai.operation.name", cmp.Or(of.operation, "chat")),
		text("gen_ai.provider.name", cmp.Or(of.provider, "openai")),
		text("gen_ai.request.model", m.Model), text("gen_ai.response.model", m.AnsweredBy)}
	if m.Input != nil {
		all = append(all, attribute.Int64("gen_ai.usage.input_tokens", m.Input.N))
	}
	if m.Output != nil {
		all = append(all, attribute.Int64("gen_ai.usage.output_tokens", m.Output.N))
	}
	return slices.DeleteFunc(all, func(a attribute.KeyValue) bool { return a.Value.String() == "" })
}

// conventions are the operations and providers of models' APIs as OpenTelemetry names them, where they are not chat and
// openai.
var conventions = map[inference.Dialect]struct{ operation, provider string }{
	inference.OpenAIEmbeddings:  {operation: "embeddings"},
	inference.OpenAICompletions: {operation: "text_completion"},
	inference.AnthropicMessages: {provider: "anthropic"},
	inference.Gemini:            {operation: "generate_content", provider: "gcp.gemini"},
	inference.BedrockConverse:   {provider: "aws.bedrock"},
	inference.OllamaChat:        {provider: "ollama"},
}
