package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/trigger"
)

const generateURL = "http://mediator.internal/v1/generate"

// newGenerateRig has one model of each dialect, named after it. answer is the models' server.
func newGenerateRig(t testing.TB, answer http.HandlerFunc) *postRig {
	t.Helper()
	return newPostRig(t, answer, func(o *PipelineOptions, actions []rules.Action) {
		var egress []rules.Egress
		for _, d := range generate.Dialects {
			egress = append(egress, rules.Egress{
				Name: string(d), Match: matchAt(actions[0], modelPaths[d], "POST"), Credential: actions[0].Credential,
				Observe:  &inference.Rule{Dialect: d},
				Generate: &generate.Rule{Models: []string{"model-" + string(d)}, MaxTokens: 100},
			})
		}
		o.Rules = rulesFor(t, actions, egress)
	})
}

func TestGenerate(t *testing.T) {
	const ask = `{"model":"model-%s","prompt":"` + secretText +
		`","system":"be brief","maxTokens":50,"temperature":0.5}`
	sent := map[inference.Dialect]string{
		inference.OpenAIChat: `{"model":"model-openai-chat","messages":[{"role":"system","content":"be brief"},` +
			`{"role":"user","content":"` + secretText + `"}],"max_completion_tokens":50,"temperature":0.5}`,
		inference.OpenAIResponses: `{"model":"model-openai-responses","input":"` + secretText +
			`","instructions":"be brief","max_output_tokens":50,"temperature":0.5,"store":false}`,
		inference.AnthropicMessages: `{"model":"model-anthropic-messages","messages":[{"role":"user","content":"` +
			secretText + `"}],"system":"be brief","max_tokens":50,"temperature":0.5}`,
	}
	for _, d := range generate.Dialects {
		t.Run(string(d), func(t *testing.T) {
			p := newGenerateRig(t, answerModels)
			resp, answer := p.send("POST", generateURL, fmt.Sprintf(ask, d), "Authorization", "Bearer mine", "X-Mine", "1")
			m := p.wantModel(t)
			rec, n := p.record.last()
			if answer != fmt.Sprintf(`{"record":"%s","model":"gpt-5-2025","output":"%s","finishReason":"stop",`+
				`"usage":{"inputTokens":9,"outputTokens":6}}`+"\n", rec.ID, secretText) {
				t.Errorf("the answer is %s", answer)
			}
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" ||
				resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %v", resp.StatusCode, resp.Header)
			}
			// It leaves the same record as a call to the host itself.
			if n != 1 || rec.Flow != flowEgress || rec.Rule != string(d) || rec.Path != modelPaths[d] ||
				rec.Host != at(0, p.upstream) || rec.State != ledger.StateForwarded || rec.Session != p.session.ID ||
				rec.Message != "generate" {
				t.Errorf("%d records: %+v", n, rec)
			}
			if m.Model != "model-"+string(d) || m.Outcome != "complete" || m.Streamed || m.Output.N != 6 {
				t.Errorf("observed: %+v", m)
			}
			var got, want map[string]any
			must(t, json.Unmarshal([]byte(p.body[0]), &got))
			must(t, json.Unmarshal([]byte(sent[d]), &want))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the model is asked %v, want %v", got, want)
			}
			h := p.sent[0].Header
			version := ""
			if d == inference.AnthropicMessages {
				version = "2023-06-01"
			}
			if h.Get("Authorization") != "Bearer "+secretToken || h.Get("X-Mine") != "" ||
				h.Get("Anthropic-Version") != version || h.Get("Content-Type") != "application/json" {
				t.Errorf("the header is %v", h)
			}
		})
	}
}

func TestGenerateDefaults(t *testing.T) {
	p := newGenerateRig(t, answerModels)
	p.want(200, "POST", generateURL, `{"prompt":"hi","model":null}`)
	if p.body[0] !=
		`{"model":"model-openai-chat","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":100}` {
		t.Errorf("the model is asked %s", p.body[0])
	}
}

func TestGenerateRefused(t *testing.T) {
	p := newGenerateRig(t, answerModels)
	for _, tt := range []struct{ code, body string }{
		{"query_malformed", `{`},
		{"query_malformed", `[]`},
		{"query_malformed", `{"prompt":"x"} {}`},
		{"query_malformed", `{"prompt":"x","prompt":"y"}`},
		{"query_malformed", `{"prompt":"x","Prompt":"y"}`},
		{"query_malformed", "{\"prompt\":\"\xff\"}"},
		{"query_malformed", `{}`},
		{"query_malformed", `{"prompt":" "}`},
		{"query_malformed", `{"prompt":["x"]}`},
		{"query_malformed", `{"probe":"p","prompt":"x"}`},
		{"query_malformed", `{"probe":"p","system":"x"}`},
		{"query_malformed", `{"probe":"p","maxTokens":1}`},
		{"query_malformed", `{"probe":"p","temperature":0}`},
		{"not_found", `{"probe":"p"}`},
		{"query_malformed", `{"prompt":"x","tools":[{"type":"web_search"}]}`},
		{"query_malformed", `{"prompt":"x","maxTokens":0}`},
		{"query_malformed", `{"prompt":"x","maxTokens":101}`},
		{"query_malformed", `{"prompt":"x","maxTokens":1.5}`},
		{"query_malformed", `{"prompt":"x","temperature":2.1}`},
		{"query_malformed", `{"prompt":"x","stream":true}`},
		{"generate_model", `{"prompt":"x","model":"another"}`},
		{"content_malformed", ``},
		{"content_too_large", `{"prompt":"` + strings.Repeat("x", generate.MaxRequest) + `"}`},
	} {
		p.wantRefused(tt.code, "POST", generateURL, tt.body)
		if rec, _ := p.record.last(); rec.Flow != flowInternal || rec.Model != nil ||
			strings.Contains(rec.Reason, "web_search") {
			t.Errorf("%s: the record is %+v", tt.body, rec)
		}
	}
	// beside JSON's
	p.wantRefused("content_malformed", "POST", generateURL, `{"prompt":"x"}`, "Content-Type", "text/plain")
	p.wantRefused("not_found", "PUT", generateURL, `{"prompt":"x"}`)
	p.sessions.CloseStanding("")
	p.wantRefused("session_required", "POST", generateURL, `{"prompt":"x"}`)
	none := newModelRig(t, answerModels)
	none.wantRefused("generate_model", "POST", generateURL, `{"prompt":"x"}`)
}

func TestGenerateLimits(t *testing.T) {
	for name, load := range map[string]Load{"session": {Session: Rate{PerSecond: 0.001, Burst: 1}},
		"host": {Host: Rate{PerSecond: 0.001, Burst: 1}}} {
		t.Run(name, func(t *testing.T) {
			p := newPostRig(t, answerModels, func(o *PipelineOptions, actions []rules.Action) {
				o.Rules = rulesFor(t, nil,
					[]rules.Egress{{Name: "m", Match: matchAt(actions[0], "/v1/messages", "POST"),
						Observe:  &inference.Rule{Dialect: inference.AnthropicMessages},
						Generate: &generate.Rule{Models: []string{"m"}, MaxTokens: 1}}})
				o.Load = load
			})
			p.want(200, "POST", generateURL, `{"prompt":"x"}`)
			p.wantRefused("rate_limited", "POST", generateURL, `{"prompt":"x"}`)
		})
	}
}

// The model API's error goes to the agent and not into the record.
func TestGenerateFailures(t *testing.T) {
	answer := func(status int, kind, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const jsonType = "application/json"
	for name, tt := range map[string]struct {
		answer   http.HandlerFunc
		code     string
		upstream string // the API's error in the answer
	}{
		"an error of OpenAI": {
			answer(429, jsonType,
				`{"error":{"message":"slow down, `+secretText+`","type":"requests","code":"rate_limit_exceeded"}}`,
				"Retry-After",
				"7"), "generate_refused", `{"status":429,"code":"rate_limit_exceeded","message":"slow down, ` +
				secretText + `"}`},
		"an error of Anthropic": {
			answer(529, jsonType, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			"generate_refused", `{"status":529,"code":"overloaded_error","message":"Overloaded"}`},
		"an error as a text": {answer(404, jsonType, `{"error":"model \u001b[31mnot found"}`), "generate_refused",
			`{"status":404,"message":"model  [31mnot found"}`},
		"an error page": {answer(502, "text/html", `<html>`), "generate_refused", `{"status":502}`},
		"a long error": {answer(400, jsonType, `{"error":{"message":"`+strings.Repeat("é", 600)+`"}}`),
			"generate_refused", `{"status":400,"message":"` + strings.Repeat("é", 512) + `"}`},
		"an error without end": {answer(500, jsonType, strings.Repeat("x", 1<<20)), "generate_refused",
			`{"status":500}`},
		"no content": {answer(204, jsonType, ""), "generate_refused", `{"status":204}`},
		"a redirect": {answer(307, jsonType, "", "Location", "https://elsewhere.example.com/"),
			"generate_refused", `{"status":307}`},
		"the credential": {answer(401, jsonType, `{"error":{"message":"`+secretToken+` is wrong"}}`),
			"generate_refused", `{"status":401}`},
		"the credential, echoed": {
			answer(200, jsonType, `{"choices":[{"message":{"content":"`+secretToken+`"},"finish_reason":"stop"}]}`),
			"answer_withheld", ""},
		"a page":    {answer(200, "text/html", `<html>`), "generate_refused", ""},
		"no JSON":   {answer(200, jsonType, `{"choices":`), "generate_refused", ""},
		"too large": {answer(200, jsonType, strings.Repeat(" ", 5<<20)), "generate_refused", ""},
		"a stream":  {answer(200, "text/event-stream", "data: [DONE]\n\n"), "generate_refused", ""},
		"an error with status 200": {
			answer(200, jsonType, `{"status":"failed","error":{"message":"`+secretText+`","code":"server_error"}}`),
			"generate_refused", `{"status":200,"code":"server_error"}`},
		"nothing at all": {answer(200, jsonType, ""), "generate_refused", ""},
		"a JSON text cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "upstream_lost", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newGenerateRig(t, tt.answer)
			resp, answer := p.send("POST", generateURL, `{"prompt":"`+secretText+`"}`)
			var d problem.Details
			must(t, json.Unmarshal([]byte(answer), &d))
			if d.Code != tt.code || resp.StatusCode != 502 || string(d.Upstream) != tt.upstream {
				t.Errorf("the answer is %d %s", resp.StatusCode, answer)
			}
			if strings.HasPrefix(name, "an error of OpenAI") && resp.Header.Get("Retry-After") != "7" {
				t.Errorf("the header is %v", resp.Header)
			}
			p.wantModel(t)
			if rec, n := p.record.last(); n != 1 || rec.Code != tt.code || d.Post != rec.ID ||
				strings.Contains(answer, secretToken) {
				t.Errorf("%d records, %+v; the answer is %s", n, rec, answer)
			}
			if free := p.pipeline.bodies.Answers("other"); free.Take(32<<20) != nil {
				t.Error("memory is not given back")
			}
		})
	}
}

func TestGenerateAgentLeaves(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	p := newGenerateRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		flush(w, `{"choices":[{"message":{"content":"a"}}]}`)
		close(asked)
		<-r.Context().Done()
		close(ended)
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req := p.request(ctx, "POST", generateURL, `{"prompt":"x"}`)
	go func() { <-asked; leave() }()
	if resp, err := p.client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	<-ended
	p.wantModel(t)
	if rec, _ := p.record.last(); rec.Code != "client_gone" {
		t.Errorf("the record says %s: %s", rec.Code, rec.Reason)
	}
}

// Two sessions ask at once, and one ends in the middle. Each gets its whole answer; the ended session gets no other.
func TestGenerateSessions(t *testing.T) {
	going, both := make(chan struct{}), make(chan struct{})
	var asked sync.WaitGroup
	asked.Add(2)
	p := newGenerateRig(t, func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Messages []struct{ Content string } }
		_ = json.NewDecoder(r.Body).Decode(&ask)
		w.Header().Set("Content-Type", "application/json")
		flush(w, fmt.Sprintf(`{"choices":[{"message":{"content":"%s...`, ask.Messages[0].Content))
		asked.Done()
		<-going
		_, _ = io.WriteString(w, ` more"},"finish_reason":"stop"}]}`)
	})
	other, password, err := p.sessions.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil)
	must(t, err)
	go func() { asked.Wait(); close(both) }()
	ask := func(name string, header ...string) *http.Request {
		return p.request(t.Context(), "POST", generateURL, `{"prompt":"`+name+`"}`, header...)
	}
	credentials := []string{"Proxy-Authorization", basic(other.ID, password)}
	var wait sync.WaitGroup
	for name, header := range map[string][]string{"standing": nil, "other": credentials} {
		req := ask(name, header...)
		wait.Go(func() {
			resp, err := p.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			var d struct{ Output string }
			if err := json.NewDecoder(resp.Body).Decode(&d); d.Output != name+"... more" || err != nil {
				t.Errorf("%s gets %q, %v", name, d.Output, err)
			}
		})
	}
	<-both
	p.sessions.Close(other.ID)
	close(going)
	wait.Wait()
	resp, err := p.client.Do(ask("other", credentials...))
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusProxyAuthRequired {
		t.Errorf("a session that has ended is answered %d", resp.StatusCode)
	}
	p.wait(3)
	owners := map[string]int{}
	for _, rec := range p.record.posts {
		owners[rec.Session]++
	}
	if owners[p.session.ID] != 1 || owners[other.ID] != 1 {
		t.Errorf("the records belong to %v", owners)
	}
}

func TestGenerateRules(t *testing.T) {
	rule := func(path string, models ...string) rules.Egress {
		return rules.Egress{Name: path, Match: matching(t, "https://api.example.com"+path, "POST"), Observe: chat,
			Generate: &generate.Rule{Models: models, MaxTokens: 1}}
	}
	unobserved, tokenless := rule("/v1", "x"), rule("/v1", "x")
	unobserved.Observe, tokenless.Generate.MaxTokens = nil, 0
	for _, tt := range []struct {
		rules []rules.Egress
		want  string
	}{
		{[]rules.Egress{rule("/v1", "x", "y")}, "<nil>"},
		{[]rules.Egress{unobserved}, "needs observe"},
		{[]rules.Egress{rule("/v1")}, "list at least one"},
		{[]rules.Egress{rule("/v1", "a model")}, "is not the name of a model"},
		{[]rules.Egress{rule("/v1", "x", "x")}, "listed twice"},
		{[]rules.Egress{tokenless}, "not positive"},
		{[]rules.Egress{rule("/v1/{name}", "x")}, "has a {name}"},
		{[]rules.Egress{rule("/v1", "x"), rule("/v2", "x")}, "rule /v2: generate: another rule offers"},
	} {
		if _, err := rules.New(nil, tt.rules, nil); !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestGenerateSaysItsReceipt(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	r.ok(t, "POST", issueURL, "")
	previous := ""
	for i, answer := range []string{
		r.ok(t, "POST", generateURL, `{"prompt":"x"}`), r.ok(t, "POST", generateURL, `{"prompt":"y"}`),
	} {
		var got struct {
			Receipt     string                    `json:"receipt"`
			ReceiptHash string                    `json:"receipt_hash"`
			Timing      interaction.Timing        `json:"timing"`
			Chain       interaction.ChainLink     `json:"chain"`
			Challenge   *interaction.ChallengeRef `json:"challenge"`
		}
		must(t, json.Unmarshal([]byte(answer), &got))
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(got.Receipt, ".")[1])
		must(t, err)
		var said, says map[string]any
		must(t, errors.Join(json.Unmarshal([]byte(answer), &said), json.Unmarshal(payload, &says)))
		for _, member := range []string{"timing", "chain", "challenge"} {
			if !reflect.DeepEqual(said[member], says[member]) {
				t.Errorf("the answer says of %s %v, and its receipt %v", member, said[member], says[member])
			}
		}
		signed := r.chain(t, 2)[i]
		if got.Timing != signed.Timing || got.Timing.LLMEnd == 0 || got.Chain != signed.Chain ||
			got.Chain.SequenceNumber != int64(i+1) || got.Chain.PreviousReceiptHash != previous ||
			signed.Session.Calls != int64(i+1) || signed.Session.CallsObserved != int64(i+1) { // its own call too
			t.Errorf("%s, and the receipt has %+v", answer, signed)
		}
		if got.Challenge == nil || got.Challenge.ChallengeNonce != nonce ||
			got.ReceiptHash != evidence.HashToken(got.Receipt) {
			t.Errorf("%s", answer)
		}
		previous = got.ReceiptHash
	}
}
