package inference_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/inference"
)

func TestTimes(t *testing.T) {
	// Each reading of the clock takes 1 ms.
	b := inference.Observe(mustRead(t, inference.OpenAIChat, smallest[inference.OpenAIChat]), start, options())
	httptrace.ContextClientTrace(b.Prepare(httptest.NewRequest("POST", "/", nil)).Context()).WroteHeaders()
	begin(b, http.StatusOK, http.Header{"Content-Type": {eventStream}})
	for _, piece := range []string{
		`data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n",
		`data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n", "\n",
		stream(`{"choices":[{"delta":{"content":"lo"}}]}`,
			`{"choices":[{"delta":{"content":" world"},"finish_reason":"stop"}]}`), stream(`[DONE]`),
	} {
		write(t, b, piece, 0)
	}
	b.End(io.EOF)
	in := b.Interaction()
	for _, tt := range []struct {
		name string
		got  time.Time
		want int
	}{{"received", in.Received, 0}, {"sent", in.Sent, 1}, {"head", in.Head, 2}, {"first", in.First, 5},
		{"end", in.End, 8}} {
		if got := tt.got.Sub(start).Milliseconds(); got != int64(tt.want) {
			t.Errorf("%s: %d ms, want %d ms", tt.name, got, tt.want)
		}
	}
	if got := fmt.Sprintf("%s %t", count(in.Deltas), in.Streamed); got != "3 observed true" {
		t.Errorf("deltas: %s", got)
	}
}

func TestSeries(t *testing.T) {
	in := observe(t, inference.OpenAIChat, eventStream,
		strings.Repeat(stream(`{"choices":[{"delta":{"content":"x"}}]}`), 3000), 100, options())
	if count(in.Deltas) != "3000 observed" || in.Said[0].Size != 3000 {
		t.Errorf("%s, %v", count(in.Deltas), in.Said)
	}
}

func TestManySaid(t *testing.T) {
	calls := make([]string, 300)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{"index":%d,"id":"call_%d","function":{"name":"f","arguments":"{}"}}`, i, i)
	}
	in := observe(t, inference.OpenAIChat, eventStream,
		stream(`{"choices":[{"delta":{"tool_calls":[`+strings.Join(calls, ",")+`]},"finish_reason":"tool_calls"}]}`), 0,
		options())
	if len(in.Said) != 256 || in.SaidAll {
		t.Errorf("%d blocks, all: %t", len(in.Said), in.SaidAll)
	}
	large := observe(t, inference.OpenAIChat, jsonType,
		`{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"`+strings.Repeat("x",
			70<<10)+
			`"}}]}}]}`, 0, options())
	if got := blocks(large.Said); got != "call c f 71680 unhashed\n" || !large.SaidAll {
		t.Errorf("large arguments: %s, all: %t", got, large.SaidAll)
	}
}

func TestMemoryOfArguments(t *testing.T) {
	for most, reason := range map[int]string{1 << 20: inference.ReasonNoMemory, 8 << 20: inference.ReasonNone} {
		taken := 0
		o := options()
		o.Take = func(n int) bool { taken += n; return taken <= most }
		var reader sync.WaitGroup
		o.Go = func(read func()) { reader.Go(read) }
		b := inference.Observe(mustRead(t, inference.OpenAIChat, smallest[inference.OpenAIChat]), start, o)
		begin(b, http.StatusOK, http.Header{"Content-Type": {eventStream}})
		for i := range 64 {
			write(t, b, stream(
				fmt.Sprintf(
					`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"call_%d","function":{"name":"f","arguments":%q}}]}}]}`, i,
					i, strings.Repeat("x", 60<<10))), 0)
			reader.Wait()
		}
		write(t, b, stream("[DONE]"), 0)
		b.End(io.EOF)
		if in := b.Interaction(); in.Reason != reason {
			t.Errorf("with %d bytes of memory the answer is followed: %q, want %q; it took %d", most, in.Reason, reason, taken)
		}
	}
}

// TestNotFollowed checks that nothing is measured, and that Write still succeeds.
func TestNotFollowed(t *testing.T) {
	chat := stream(`{"id":"c","choices":[{"delta":{"content":"a secret"},"finish_reason":"stop"}]}`)
	no := func(o *inference.Options) { o.Take = func(int) bool { return false } }
	for _, tt := range []struct {
		name, kind, encoding, body string
		change                     func(*inference.Options)
		reason                     string
	}{
		{"more at once than the reader may be behind", eventStream, "", strings.Repeat(chat, 20_000), nil,
			inference.ReasonBehind},
		{"no memory for the queue", eventStream, "", strings.Repeat(chat, 1000), no, inference.ReasonNoMemory},
		{"no memory for JSON", jsonType, "", `{"choices":[]}`, no, inference.ReasonNoMemory},
		{"JSON that is too large", jsonType, "", `{"choices":[],"x":"` + strings.Repeat("x", 5<<20) + `"}`, nil,
			inference.ReasonTooLarge},
		{"type", "text/html", "", "<html>", nil, inference.ReasonType},
		{"no type", "", "", "{}", nil, inference.ReasonType},
		{"brotli", jsonType, "br", "{}", nil, inference.ReasonEncoding},
		{"twice", jsonType, "gzip, gzip", "{}", nil, inference.ReasonEncoding},
		{"by a second header", jsonType, "identity|gzip", `{"choices":[]}`, nil, inference.ReasonEncoding},
		{"gzip that is none", jsonType, "gzip", "{}", nil, inference.ReasonEncoding},
		{"two texts of gzip", jsonType, "gzip", compress(t, `{"choices":`) + compress(t, `[]}`), nil,
			inference.ReasonEncoding},
		{"gzip of too much", jsonType, "gzip", compress(t, strings.Repeat(" ", 17<<20)), nil, inference.ReasonTooLarge},
		{"an event that is too large", eventStream, "gzip", compress(t, "data: "+strings.Repeat("x", 2<<20)), nil,
			inference.ReasonTooLarge},
		{"not JSON", jsonType, "", "<html>", nil, inference.ReasonFormat},
		{"event that is not JSON", eventStream, "", "data: hello\n\n", nil, inference.ReasonFormat},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			if tt.change != nil {
				tt.change(&o)
			}
			freed := 0
			o.Free = func() { freed++ }
			b := inference.Observe(mustRead(t, inference.OpenAIChat, smallest[inference.OpenAIChat]), start, o)
			begin(b, http.StatusOK, http.Header{"Content-Type": {tt.kind},
				"Content-Encoding": strings.Split(tt.encoding, "|")})
			write(t, b, tt.body, 0)
			b.End(io.EOF)
			in := b.Interaction()
			if in.Outcome != inference.OutcomeUnread || in.Reason != tt.reason || in.Said != nil ||
				in.Output.State != "" || in.End.IsZero() {
				t.Errorf("%+v", in)
			}
			if b.Interaction(); freed != 1 {
				t.Errorf("memory was given back %d times", freed)
			}
		})
	}
}

func compress(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.WriteString(w, text)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGzip(t *testing.T) {
	for _, tt := range corpus(t, "answers.txtar") {
		b := inference.Observe(mustRead(t, tt.dialect, smallest[tt.dialect]), start, options())
		begin(b, http.StatusOK, http.Header{"Content-Type": {tt.kind()}, "Content-Encoding": {"gzip"}})
		write(t, b, compress(t, tt.body), 10)
		b.End(io.EOF)
		in := b.Interaction()
		if got := figures(in); got != tt.want || !in.First.IsZero() ||
			in.Deltas.State != "" {
			t.Errorf("%s: got\n%s, want\n%s; first %v, deltas %v", tt.name, got, tt.want, in.First, in.Deltas)
		}
	}
}

func TestEnds(t *testing.T) {
	const four = `{"choices":[{"delta":{"content":"four"}}]}`
	const finished = `{"choices":[{"delta":{"content":"four"},"finish_reason":"stop"}]}`
	const usage = `{"choices":[],"usage":{"completion_tokens":9}}`
	for _, tt := range []struct {
		name    string
		status  int
		kind    string
		body    string
		end     error
		outcome inference.Outcome
		output  string
	}{
		{"no answer", 0, "", "", io.ErrUnexpectedEOF, inference.OutcomeCut, "0 not_measured"},
		{"JSON that broke off", 200, jsonType, `{"choices":[{"mess`, io.ErrUnexpectedEOF, inference.OutcomeCut,
			"0 not_measured"},
		{"whole JSON, and no end of the body", 200, jsonType, `{"choices":[]}`, io.ErrUnexpectedEOF,
			inference.OutcomeCut, "0 not_measured"},
		{"stream that broke off", 200, eventStream, stream(four), io.ErrUnexpectedEOF, inference.OutcomeCut,
			"0 not_measured"},
		{"body that ends before its stream", 200, eventStream, stream(four), io.EOF, inference.OutcomeCut,
			"0 not_measured"},
		{"body that ends after the finish reason", 200, eventStream, stream(finished), io.EOF, inference.OutcomeCut,
			"0 not_measured"},
		{"client that leaves after the finish reason", 200, eventStream, stream(finished), context.Canceled,
			inference.OutcomeCut, "0 not_measured"},
		{"client that leaves after the usage", 200, eventStream, stream(finished, usage), context.Canceled,
			inference.OutcomeCut, "0 not_measured"},
		{"end of the stream, and no end of the body", 200, eventStream, stream(finished, usage, "[DONE]"),
			io.ErrUnexpectedEOF, inference.OutcomeCut, "0 not_measured"},
		{"client that leaves after the end", 200, eventStream, stream(finished, "[DONE]"), context.Canceled,
			inference.OutcomeComplete, "1 estimated"},
		{"client that leaves after usage and end", 200, eventStream, stream(finished, usage, "[DONE]"),
			context.Canceled, inference.OutcomeComplete, "9 declared"},
		{"usage twice, of which the last counts", 200, eventStream,
			stream(finished, `{"choices":[],"usage":{"completion_tokens":1}}`, usage, "[DONE]"), io.EOF,
			inference.OutcomeComplete, "9 declared"},
		{"429", 429, jsonType, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, io.EOF,
			inference.OutcomeFailed, "0 not_measured"},
		{"302 with an answer", 302, jsonType, `{"choices":[{"message":{"content":"x"}}]}`, io.EOF,
			inference.OutcomeFailed, "0 not_measured"},
		{"502 of a gateway", 502, "text/html", `<html>`, io.EOF, inference.OutcomeFailed, "0 not_measured"},
		{"500 with a stream", 500, eventStream, stream(`{"choices":[]}`), io.EOF, inference.OutcomeFailed,
			"0 not_measured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := inference.Observe(mustRead(t, inference.OpenAIChat, smallest[inference.OpenAIChat]), start, options())
			if tt.status > 0 {
				begin(b, tt.status, http.Header{"Content-Type": {tt.kind}})
			}
			write(t, b, tt.body, 0)
			b.End(tt.end)
			b.End(io.EOF)
			in := b.Interaction()
			if in.Outcome != tt.outcome || count(in.Output) != tt.output || tt.status > 299 && in.SaidAll {
				t.Errorf("%s, output %s, all said: %t", in.Outcome, count(in.Output), in.SaidAll)
			}
		})
	}
}

// TestEndOfTheBody checks that an answer without a mark at its end is complete only with its body: other candidates, or
// the usage, may follow.
func TestEndOfTheBody(t *testing.T) {
	const usage = `,"usageMetadata":{"candidatesTokenCount":1}}`
	const said = `{"candidates":[{"content":{"parts":[{"text":"one"}]},"finishReason":"STOP"}]` + usage
	for _, tt := range []struct {
		name    string
		dialect inference.Dialect
		body    string
		end     error
		outcome inference.Outcome
		output  string
		saidAll bool
	}{
		{"gemini, left after the first of two candidates", inference.Gemini, stream(said), context.Canceled,
			inference.OutcomeCut, "0 not_measured", true},
		{"gemini, an event that Google's client drops", inference.Gemini, "id: 1\n" + stream(said), io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, an event with a comment", inference.Gemini, ": x\n" + stream(said), io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, an event after a comment", inference.Gemini, ": x\n\n" + stream(said), io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, an event after an id", inference.Gemini, "id: 1\n\n" + stream(said), io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, an event after an empty line", inference.Gemini, "\n" + stream(said), io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, an event with two ends of lines", inference.Gemini, "data: " + said + "\r\n\n", io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, whole with the other end of lines", inference.Gemini, "data: " + said + "\r\n\r\n", io.EOF,
			inference.OutcomeComplete, "1 declared", true},
		{"gemini, an event without a space", inference.Gemini, "data:" + said + "\n\n", io.EOF,
			inference.OutcomeComplete, "1 declared", false},
		{"gemini, an event at which it fails", inference.Gemini,
			stream(`{"candidates":[{"finishReason":"STOP"}]` + "\ndata: " + usage),
			io.EOF, inference.OutcomeComplete, "1 declared", false},
		{"gemini, whole", inference.Gemini, stream(said), io.EOF,
			inference.OutcomeComplete, "1 declared", true},
		{"gemini, cut in an event", inference.Gemini, stream(said) + `data: {"cand`, io.EOF,
			inference.OutcomeCut, "0 not_measured", false},
		{"converse, left before the usage", inference.BedrockConverse,
			frame("contentBlockDelta {\"delta\":{\"text\":\"one\"}}\nmessageStop {\"stopReason\":\"end_turn\"}"),
			context.Canceled, inference.OutcomeCut, "0 not_measured", true},
		{"converse, cut in a message", inference.BedrockConverse,
			frame("messageStop {\"stopReason\":\"end_turn\"}") + frame("metadata {}")[:20],
			io.EOF, inference.OutcomeCut, "0 not_measured", false},
		{"converse, whole", inference.BedrockConverse,
			frame("messageStop {\"stopReason\":\"end_turn\"}\nmetadata {\"usage\":{\"outputTokens\":3}}"),
			io.EOF, inference.OutcomeComplete, "3 declared", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := inference.Observe(mustRead(t, tt.dialect, smallest[tt.dialect]), start, options())
			kind := eventStream
			if tt.dialect == inference.BedrockConverse {
				kind = "application/vnd.amazon.eventstream"
			}
			begin(b, http.StatusOK, http.Header{"Content-Type": {kind}})
			write(t, b, tt.body, 0)
			b.End(tt.end)
			if in := b.Interaction(); in.Outcome != tt.outcome || count(in.Output) != tt.output ||
				in.SaidAll != tt.saidAll {
				t.Errorf("%s, output %s, all said: %t", in.Outcome, count(in.Output), in.SaidAll)
			}
		})
	}
}

// TestSeveralChoices checks that an answer whose client leaves after some of its choices is not complete, and that the
// sample is of the first choice alone, though a stream mixes them.
func TestSeveralChoices(t *testing.T) {
	event := func(choice int, text, finish string) string {
		return fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":%q},"finish_reason":%s}]}`, choice, text, finish)
	}
	for _, tt := range []struct {
		name, n, body string
		outcome       inference.Outcome
		sample        string
	}{
		{"one of one", `null`, stream(event(0, "one", `"stop"`), "[DONE]"), inference.OutcomeComplete, "one"},
		{"one of two", `2`, stream(event(0, "one", `null`), event(1, "two", `null`), event(0, " more", `"stop"`)),
			inference.OutcomeCut, "one more"},
		{"the first of two in turn", `2`, stream(event(0, "one", `"stop"`)), inference.OutcomeCut, "one"},
		{"one twice", `2`, stream(event(1, "two", `"stop"`), event(1, "", `"stop"`)), inference.OutcomeCut, ""},
		{"two of two", `2`,
			stream(event(0, "o", `null`), event(1, "tw", `null`), event(0, "ne", `"stop"`), event(1, "o", `"stop"`), "[DONE]"),
			inference.OutcomeComplete, "one"},
		{"all, as its last event says", `3`, stream(event(0, "one", `"stop"`), "[DONE]"), inference.OutcomeComplete, "one"},
		{"all, without the end", `2`, stream(event(0, "one", `"stop"`), event(1, "two", `"stop"`)), inference.OutcomeCut,
			"one"},
		{"a number that is not read", `1.5`, stream(event(0, "one", `"stop"`)), inference.OutcomeCut, "one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.Measure, o.Sample = &inference.Measure{Known: func(inference.Block) bool { return false }}, 100
			b := inference.Observe(mustRead(t, inference.OpenAIChat, `{"n":`+tt.n+`,"messages":[]}`), start, o)
			begin(b, http.StatusOK, http.Header{"Content-Type": {eventStream}})
			write(t, b, tt.body, 0)
			b.End(context.Canceled)
			if in := b.Interaction(); in.Outcome != tt.outcome || string(in.Sample) != tt.sample {
				t.Errorf("%s, sample %q; want %s, %q", in.Outcome, in.Sample, tt.outcome, tt.sample)
			}
		})
	}
}

func TestNoText(t *testing.T) {
	const secret = "the launch code is 0000"
	for d, with := range map[inference.Dialect]string{
		inference.OpenAIChat: `{"model":"m","messages":[{"role":"` + secret + `","content":"` + secret +
			`"},{"role":"assistant","content":"x","tool_calls":[{"id":"` + secret + `","function":{"name":"` + secret +
			`","arguments":"` + secret + `"}}]}]}`,
		inference.OpenAIResponses: `{"model":"` + secret + `","instructions":"` + secret + `","input":"` + secret +
			`","tools":[{"type":"function","name":"` + secret + `"}]}`,
		inference.AnthropicMessages: `{"model":"` + secret + `","system":"` + secret +
			`","messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"` + secret +
			`"}},{"type":"tool_result","tool_use_id":"` + secret + `","content":"` + secret + `"}]}]}`,
	} {
		for _, tt := range corpus(t, "answers.txtar") {
			if tt.dialect != d {
				continue
			}
			b := inference.Observe(mustRead(t, d, with), start, options())
			begin(b, http.StatusOK, http.Header{"Content-Type": {tt.kind()}})
			body := tt.body
			for _, said := range []string{"Let's", "look", "hello", "hm", "world", "select 1", "the text of it", "Hello"} {
				body = strings.ReplaceAll(body, said, secret)
			}
			write(t, b, body, 0)
			b.End(io.EOF)
			in := b.Interaction()
			for _, printed := range []string{fmt.Sprintf("%+v %#v %+v", in, in, *in.Request), fmt.Sprint(in)} {
				if strings.Contains(printed, "launch") {
					t.Errorf("%s/%s: %s", d, tt.name, printed)
				}
			}
		}
		for _, body := range []string{`{"` + secret + `":1}`, `{"messages":"` + secret + `"}`,
			`{"input":[{"type":"` + secret + `"}]}`, `{"` + secret, `{"model":"` + secret + `","model":1}`,
			`{"tools":[{"type":"` + secret + `"}]}`} {
			if _, err := inference.Read(inference.Rule{Dialect: d}, inference.Call{Body: []byte(body), Key: key}); err == nil ||
				strings.Contains(err.Error(), "launch") {
				t.Errorf("%s %s: %v", d, body, err)
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	first := corpus(t, "answers.txtar")[0]
	done := make(chan string)
	for range 20 {
		go func() {
			o := options()
			o.Now = time.Now
			b := inference.Observe(mustRead(t, inference.OpenAIChat, smallest[inference.OpenAIChat]), time.Now(), o)
			httptrace.ContextClientTrace(b.Prepare(httptest.NewRequest("POST", "/", nil)).Context()).WroteHeaders()
			begin(b, http.StatusOK, http.Header{"Content-Type": {eventStream}})
			write(t, b, first.body, 50)
			b.End(io.EOF)
			done <- figures(b.Interaction())
		}()
	}
	for range 20 {
		if got := <-done; got != first.want {
			t.Errorf("%s", got)
		}
	}
}
