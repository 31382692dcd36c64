package spans_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/spans"
	"github.com/actionproof/mediator/test/check"
)

const agents = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func recording(sampler sdk.Sampler) (trace.Tracer, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(r), sdk.WithSampler(sdk.ParentBased(sampler))).Tracer("test"), r
}

// attributes returns a span's attributes as text.
func attributes(s sdk.ReadOnlySpan) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestTree(t *testing.T) {
	tracer, recorder := recording(sdk.AlwaysSample())
	began := time.Now()
	c := spans.Begin(tracer, http.Header{"Traceparent": {agents}, "Tracestate": {"a=b"}}, began)
	asked := trace.SpanContextFromContext(c.Context(t.Context()))
	c.Step("trigger", began.Add(time.Second))
	out := http.Header{"Traceparent": {agents}, "Tracestate": {"a=b"}}
	c.Propagate(out)
	c.Step("upstream", began.Add(3*time.Second))
	exemplar := c.Exemplar()
	c.End(&ledger.Record{ID: "post_1", Flow: "post", State: ledger.StateRefused, Rule: "create", Method: "POST",
		Scheme: "https", Host: "[2001:db8::1]:8443", Path: "/secret", Reason: "secret", Status: 500, Session: "ses_1",
		Code: "policy_denied", Step: "decision", QueryNames: []string{"secret"}, Finished: began.Add(4 * time.Second)})
	all := recorder.Ended()
	if len(all) != 3 {
		t.Fatalf("%d spans", len(all))
	}
	first, second, call := all[0], all[1], all[2]
	check.WantEqual(t, first.Name()+" "+second.Name(), "trigger upstream")
	check.WantEqual(t, first.SpanContext().SpanID(), asked.SpanID())
	check.WantEqual(t, second.EndTime().Sub(second.StartTime()), 2*time.Second)
	check.WantEqual(t, out.Get("Traceparent"), fmt.Sprintf("00-%s-%s-01", call.SpanContext().TraceID(),
		second.SpanContext().SpanID()))
	check.WantEqual(t, len(out), 1)
	for _, s := range []sdk.ReadOnlySpan{first, second} {
		check.WantEqual(t, s.Parent().SpanID(), call.SpanContext().SpanID())
	}
	check.WantEqual(t, call.Name(), "POST create")
	check.WantEqual(t, call.Parent().IsValid(), false)
	if links := call.Links(); len(links) != 1 || links[0].SpanContext.TraceState().Len() > 0 ||
		links[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("the agent's trace is linked as %+v", links)
	}
	check.WantEqual(t, fmt.Sprint(attributes(call)), fmt.Sprint(map[string]string{
		"http.request.method": "POST", "url.scheme": "https", "server.address": "2001:db8::1", "server.port": "8443",
		"http.response.status_code": "500", "error.type": "policy_denied", "session.id": "ses_1",
		"mediator.record.id": "post_1", "mediator.flow": "post", "mediator.state": "refused", "mediator.rule": "create",
		"mediator.step": "decision",
	}))
	check.WantEqual(t, exemplar["trace_id"], call.SpanContext().TraceID().String())
	if said := fmt.Sprintf("%+v %+v", attributes(call), call.Status()); strings.Contains(said, "secret") {
		t.Error(said)
	}
}

func TestConventions(t *testing.T) {
	for name, test := range map[string]struct {
		record ledger.Record
		want   map[string]string
	}{
		"a tool": {ledger.Record{MCP: &ledger.MCPMessage{Method: "tools/call", Tool: "send"}}, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "send"}},
		"a list of tools": {ledger.Record{MCP: &ledger.MCPMessage{Method: "tools/list"}},
			map[string]string{"mcp.method.name": "tools/list"}},
		"an event stream": {ledger.Record{MCP: &ledger.MCPMessage{}}, nil},
		"a model": {ledger.Record{Model: &ledger.ModelCall{API: "anthropic-messages", Model: "claude-haiku-4-5",
			AnsweredBy: "claude", Input: &ledger.Figure{N: 7}, Output: &ledger.Figure{N: 8}}}, map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.response.model": "claude",
			"gen_ai.request.model": "claude-haiku-4-5", "gen_ai.usage.input_tokens": "7",
			"gen_ai.usage.output_tokens": "8"}},
		"no UTF-8": {ledger.Record{MCP: &ledger.MCPMessage{Method: "a\xff"}},
			map[string]string{"mcp.method.name": "a\ufffd"}},
		"embeddings": {ledger.Record{Model: &ledger.ModelCall{API: "openai-embeddings"}}, map[string]string{
			"gen_ai.operation.name": "embeddings", "gen_ai.provider.name": "openai"}},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, recorder := recording(sdk.AlwaysSample())
			spans.Begin(tracer, nil, time.Now()).End(&test.record)
			got := attributes(recorder.Ended()[0])
			check.WantEqual(t, got["http.request.method"], "_OTHER")
			delete(got, "http.request.method")
			if len(got)+len(test.want) > 0 {
				check.WantEqual(t, fmt.Sprint(got), fmt.Sprint(test.want))
			}
		})
	}
}

// TestUnrecorded has a trace that is not recorded, although the agent asks for it.
func TestUnrecorded(t *testing.T) {
	never, recorder := recording(sdk.NeverSample())
	for name, tracer := range map[string]trace.Tracer{"not sampled": never, "off": noop.NewTracerProvider().Tracer("")} {
		c := spans.Begin(tracer, http.Header{"Traceparent": {agents}}, time.Now())
		ctx := c.Context(t.Context())
		c.Step("upstream", time.Now())
		out := http.Header{"Traceparent": {agents}, "Tracestate": {"a=b"}}
		c.Propagate(out)
		c.End(&ledger.Record{})
		if ctx != t.Context() || c.Exemplar() != nil || out.Get("Tracestate") != "" ||
			name == "not sampled" && !strings.HasSuffix(out.Get("Traceparent"), "-00") {
			t.Errorf("%s: %v %v %v", name, ctx, c.Exemplar(), out)
		}
	}
	check.WantEqual(t, len(recorder.Started()), 0)
}
