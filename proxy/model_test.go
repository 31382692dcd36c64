package proxy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/rules"
)

var modelPaths = map[inference.Dialect]string{
	inference.OpenAIChat: "/v1/chat/completions", inference.OpenAIResponses: "/v1/responses",
	inference.AnthropicMessages: "/v1/messages",
}

var chat = &inference.Rule{Dialect: inference.OpenAIChat}

// secretText is said to and by models, and must be in no record.
const secretText = "the launch code is 0000"

// newModelRig observes calls to models.
func newModelRig(t testing.TB, answer http.HandlerFunc, hosted ...string) *postRig {
	t.Helper()
	return newPostRig(t, answer, func(o *PipelineOptions, actions []rules.Action) {
		o.Load.Bodies = 16 << 20
		var egress []rules.Egress
		for d, path := range modelPaths {
			egress = append(egress, rules.Egress{Name: string(d), Match: matchAt(actions[0], path, "POST"),
				Observe: &inference.Rule{Dialect: d, Hosted: hosted}})
		}
		o.Rules = rulesFor(t, actions, egress)
	})
}

// wantModel waits for the record of a model call.
func (p *postRig) wantModel(t testing.TB) ledger.ModelCall {
	t.Helper()
	var rec ledger.Record
	eventually(t, func() bool {
		p.record.mu.Lock()
		defer p.record.mu.Unlock()
		for _, rec = range p.record.posts {
			if rec.Model != nil {
				return true
			}
		}
		return false
	}, "no call to a model is recorded")
	raw, err := json.Marshal(rec)
	must(t, err)
	if strings.Contains(string(raw), "launch") {
		t.Errorf("the record has what was said: %s", raw)
	}
	return *rec.Model
}

// answerModels answers in the shapes that the providers' SDKs read.
func answerModels(w http.ResponseWriter, r *http.Request) {
	var ask struct{ Stream bool }
	_ = json.NewDecoder(r.Body).Decode(&ask)
	var events []string
	whole := ""
	switch inference.Dialect(dialectAt(r.URL.Path)) {
	case inference.OpenAIChat:
		text := func(object, rest string) string {
			return `{"id":"chatcmpl-1","object":"` + object + `","created":1,"model":"gpt-5-2025","choices":[` + rest + `}`
		}
		piece := func(delta, finish string) string {
			return text("chat.completion.chunk", `{"index":0,"delta":`+delta+`,"finish_reason":`+finish+`}]`)
		}
		const usage = `],"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15,` +
			`"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}`
		whole = text("chat.completion", `{"index":0,"message":{"role":"assistant","content":"`+secretText+
			`","refusal":null},"logprobs":null,"finish_reason":"stop"}`+usage)
		events = []string{
			piece(`{"role":"assistant","content":""}`, "null"), piece(`{"content":"`+secretText+`"}`, "null"),
			piece(`{}`, `"stop"`), text("chat.completion.chunk", usage), `[DONE]`,
		}
	case inference.OpenAIResponses:
		whole = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"gpt-5-2025",` +
			`"output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant",` +
			`"content":[{"type":"output_text","text":"` + secretText + `","annotations":[]}]}],` +
			`"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":2},"output_tokens":6,` +
			`"output_tokens_details":{"reasoning_tokens":1},"total_tokens":15}}`
		events = []string{
			`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response",` +
				`"status":"in_progress","model":"gpt-5-2025","output":[]}}`,
			`{"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_1","output_index":0,` +
				`"content_index":0,"delta":"` + secretText + `"}`,
			`{"type":"response.completed","sequence_number":2,"response":` + whole + `}`,
		}
	case inference.AnthropicMessages:
		whole = `{"id":"msg_1","type":"message","role":"assistant","model":"gpt-5-2025","content":[{"type":"text","text":"` +
			secretText +
			`"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"cache_read_input_tokens":2,` +
			`"output_tokens":6,"output_tokens_details":{"thinking_tokens":1}}}`
		events = []string{
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"gpt-5-2025",` +
				`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"cache_read_input_tokens":2,` +
				`"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + secretText + `"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":6,` +
				`"output_tokens_details":{"thinking_tokens":1}}}`,
			`{"type":"message_stop"}`,
		}
	}
	if !ask.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		var typed struct{ Type string }
		if json.Unmarshal([]byte(e), &typed) == nil && typed.Type != "" {
			fmt.Fprintf(w, "event: %s\n", typed.Type)
		}
		fmt.Fprintf(w, "data: %s\n\n", e)
		flush(w)
	}
}

func dialectAt(path string) inference.Dialect {
	for d, p := range modelPaths {
		if p == path {
			return d
		}
	}
	return ""
}

func TestModelCalls(t *testing.T) {
	for d, path := range modelPaths {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%t", d, stream), func(t *testing.T) {
				p := newModelRig(t, answerModels)
				ask := `{"model":"gpt-5","max_tokens":100,"messages":[{"role":"user","content":"` + secretText + `"}]`
				if d == inference.OpenAIResponses {
					ask = `{"model":"gpt-5","input":"` + secretText + `"`
				}
				if answer := p.want(200, "POST", path, fmt.Sprintf(`%s,"stream":%t}`, ask, stream)); !strings.Contains(answer,
					secretText) {
					t.Errorf("the answer is %s", answer)
				}
				m := p.wantModel(t)
				got := fmt.Sprint(m.API, m.Model, m.AnsweredBy, m.Outcome, m.Streamed, *m.Input, *m.Output, *m.Cached, *m.Reasoning,
					*m.Calls)
				want := fmt.Sprint(d, "gpt-5", "gpt-5-2025", "complete", stream,
					"{9 declared}{6 declared}{2 declared}{1 declared}{0 observed}")
				if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
					t.Errorf("the record has %s, want %s", got, want)
				}
				if (m.First != nil) != stream || m.Sent == nil || m.Head == nil || m.End == nil || m.Sent.N > m.Head.N ||
					m.Head.N > m.End.N || stream && (m.First.N < m.Head.N || m.First.N > m.End.N) {
					t.Errorf("times: %+v %+v %+v %+v", m.Sent, m.Head, m.First, m.End)
				}
			})
		}
	}
}

// TestModelHosted refuses tools that the provider would run by itself, unless the rule lists them.
func TestModelHosted(t *testing.T) {
	const body = `{"model":"gpt-5","input":"` + secretText + `","tools":[{"type":"web_search"}]}`
	p := newModelRig(t, answerModels)
	p.wantRefused("model_hosted_tool", "POST", "/v1/responses", body)
	p.wantRefused("model_hosted_tool", "POST", "/v1/responses", `{"model":"gpt-5","input":"x","background":true}`)
	p.wantRefused("model_hosted_tool", "POST", "/v1/messages",
		`{"model":"m","max_tokens":1,"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`)
	p.wantRefused("message_ambiguous", "POST", "/v1/responses", `{"model":"gpt-5","input":"x","input":"y"}`)
	p.wantRefused("message_ambiguous", "POST", "/v1/chat/completions",
		`{"messages":[],"tools":[],"Tools":[{"type":"web_search"}]}`)
	p.wantRefused("message_malformed", "POST", "/v1/chat/completions", `{"messages":`)
	p.wantRefused("message_malformed", "POST", "/v1/chat/completions", "")
	for _, rec := range p.record.posts {
		if rec.Model != nil || rec.State != ledger.StateRefused {
			t.Errorf("a refused call has the record %+v", rec)
		}
	}
	allowed := newModelRig(t, answerModels, "web_search")
	if resp, _ := allowed.send("POST", "/v1/responses", body); resp.StatusCode != 200 || allowed.body[0] != body {
		t.Errorf("a listed tool: %d, %q was sent", resp.StatusCode, allowed.body)
	}
	if m := allowed.wantModel(t); fmt.Sprint(m.Hosted) != "[web_search]" {
		t.Errorf("what could not be seen: %v", m.Hosted)
	}
}

// Every answer comes through unchanged, readable or not.
func TestModelBytes(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"`+secretText+`"},"finish_reason":"stop"}]}`)
	must(t, w.Close())
	large := strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\""+secretText+"\"}}]}\r\n\r\n", 40_000)
	for _, tt := range []struct {
		name, kind, encoding, body string
		budget                     int // room for answers, in bytes
		outcome, unread            string
	}{
		{"stream", "text/event-stream", "",
			": hi\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: " +
				"[DONE]\r\n\r\n", 1 << 20, "complete", ""},
		{"stream that is none", "text/event-stream", "", "data: \x00\xff {\n\ndata: {}\n\n", 1 << 20, "not_measured",
			"malformed"},
		{"gzip", "application/json", "gzip", zipped.String(), 1 << 20, "complete", ""},
		{"another encoding", "application/json", "br", "\x01\x02\x03", 1 << 20, "not_measured", "encoding"},
		{"text", "text/plain", "", secretText, 1 << 20, "not_measured", "type"},
		{"too large", "application/json", "", strings.Repeat("x", 5<<20), 64 << 20, "not_measured", "too_large"},
		{"no memory is left", "application/json", "", strings.Repeat("x", 1<<20), 100, "not_measured", "no_memory"},
		{"no memory is left for a stream", "text/event-stream", "", large, 0, "not_measured", "no_memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newModelRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				if tt.encoding != "" {
					w.Header().Set("Content-Encoding", tt.encoding)
				}
				_, _ = io.WriteString(w, tt.body)
			})
			taken := p.pipeline.bodies.Answers(p.session.ID)
			must(t, taken.Take((64<<20-tt.budget)/2)) // a session may hold half
			defer taken.Free()
			resp, got := p.send("POST", "/v1/chat/completions",
				`{"messages":[{"role":"user","content":"`+secretText+`"}]}`, "Accept-Encoding", "gzip, br")
			if got != tt.body || resp.Header.Get("Content-Encoding") != tt.encoding {
				t.Errorf("the answer has %d bytes, want %d; encoding %q", len(got), len(tt.body),
					resp.Header.Get("Content-Encoding"))
			}
			if asked := p.sent[0].Header.Values("Accept-Encoding"); fmt.Sprint(asked) != "[identity]" {
				t.Errorf("the upstream is asked for %v", asked)
			}
			if m := p.wantModel(t); m.Outcome != tt.outcome || m.Unread != tt.unread {
				t.Errorf("outcome %s %q, want %s %q", m.Outcome, m.Unread, tt.outcome, tt.unread)
			}
		})
	}
}

// A slow reader does not delay the answer; the rest is not measured.
func TestModelBehind(t *testing.T) {
	const events = 40_000 // more than may wait for the reader
	large := strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\""+secretText+"\"}}]}\n\n", events) +
		"data: [DONE]\n\n"
	p := newModelRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, large)
	})
	blocked := make(chan struct{})
	p.pipeline.follow = func(read func()) {
		go func() { <-blocked; read() }()
	}
	resp := p.start(t.Context(), "POST", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"x"}],"stream":true}`)
	got := make([]byte, len(large))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != large {
		t.Errorf("the answer is not what was sent: %v", err)
	}
	close(blocked)
	if n, err := resp.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF { //nolint:errorlint // io.Reader's contract
		t.Errorf("after the answer come %d bytes and %v", n, err)
	}
	if m := p.wantModel(t); m.Outcome != "not_measured" || m.Unread != "behind" || m.Output != nil || m.Calls != nil {
		t.Errorf("measured: %+v", m)
	}
}

func TestModelBodyIsFreed(t *testing.T) {
	answer := make(chan struct{})
	p := newModelRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		<-answer
	})
	defer close(answer)
	large := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 5<<20) + `"}]}` // a session has 8 MiB
	for i := range 3 {
		if resp := p.start(t.Context(), "POST", "/v1/chat/completions", large); resp.StatusCode != http.StatusOK {
			t.Fatalf("call %d is answered %d", i, resp.StatusCode)
		}
	}
}

func TestModelRules(t *testing.T) {
	m := matching(t, "https://api.example.com/v1", "POST")
	a, b, plain := rules.Egress{Name: "a", Match: m, Observe: chat}, rules.Egress{Name: "b", Match: m, Observe: chat},
		rules.Egress{Name: "plain", Match: m}
	if _, err := rules.New(nil, []rules.Egress{a, b}, nil); err == nil ||
		!strings.Contains(err.Error(), "observes the same URL") {
		t.Errorf("%v", err)
	}
	if _, err := rules.New(nil, []rules.Egress{a, plain}, nil); err == nil {
		t.Error("a rule that does not look takes the same calls")
	}
}
