package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/preset"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// presetRules are the rules of presets, with the secrets that they name.
func presetRules(t *testing.T, mcp string) string {
	t.Helper()
	rules := "upstreams:\n"
	for host, address := range map[string]string{
		"api.openai.com": "UPSTREAM", "api.anthropic.com": "UPSTREAM", "slack.com": "UPSTREAM", "api.github.com": "UPSTREAM",
		"api.githubcopilot.com": mcp,
	} {
		rules += fmt.Sprintf("  - {host: \"%s:443\", address: \"%s\", networks: [127.0.0.0/8], ca: api-ca.pem}\n", host,
			address)
	}
	for _, name := range []string{"vercel-ai", "github", "slack"} {
		p, err := preset.Find(name)
		check.Must(t, err)
		raw, err := p.Merge([]byte(rules), func(string) bool { return true })
		check.Must(t, err)
		rules = string(raw)
	}
	return rules
}

// vendors answers as OpenAI, Anthropic and Slack do. A streamed answer goes on only after the client has seen the first
// event, so it fails if the mediator holds it back.
type vendors struct {
	*kit.Rig
	seen chan struct{}
}

func (v *vendors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var ask struct{ Stream bool }
	_ = json.Unmarshal(raw, &ask)
	header := func(name, want string) bool { return slices.Equal(r.Header.Values(name), []string{want}) }
	switch call := r.Method + " " + r.Host + r.URL.Path; {
	case call == "GET api.github.com/seen":
		v.seen <- struct{}{}
	case call == "POST api.openai.com/v1/chat/completions" && header("Authorization", "Bearer secret-openai-key"):
		if ask.Stream {
			v.stream(w, `{"choices":[{"index":0,"delta":{"content":"hello "}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"world"}}]}`, `[DONE]`)
			return
		}
		kit.AnswerJSON(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello world"}}]}`)
	case call == "POST api.openai.com/v1/responses" && header("Authorization", "Bearer secret-openai-key"):
		v.stream(w, `{"type":"response.output_text.delta","delta":"hello "}`,
			`{"type":"response.output_text.delta","delta":"world"}`,
			`{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}`)
	case call == "POST api.anthropic.com/v1/messages" && header("X-Api-Key", "secret-anthropic-key"):
		if ask.Stream {
			v.stream(w,
				`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],`+
					`"usage":{"input_tokens":1,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello "}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"world"}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
				`{"type":"message_stop"}`)
			return
		}
		kit.AnswerJSON(w, `{"id":"m1","type":"message","role":"assistant","content":[{"type":"text","text":"hello world"}]}`)
	case call == "POST slack.com/api/chat.postMessage" && header("Authorization", "Bearer secret-slack-token") &&
		r.Header.Get("Idempotency-Key") != "":
		v.Posts.Add(1)
		kit.AnswerJSON(w, fmt.Sprintf(`{"ok":true,"channel":"C1","ts":"%d.1"}`, len(raw)))
	case call == "GET api.github.com/repos/acme/site" && header("Authorization", "Bearer secret-github-token"):
		kit.AnswerJSON(w, `{}`)
	case call == "POST api.github.com"+kit.Comments && header("Authorization", "Bearer secret-github-token"):
		v.Posts.Add(1)
		w.WriteHeader(http.StatusCreated)
	default:
		http.Error(w, "unexpected: "+call, http.StatusTeapot)
	}
}

// stream sends the events up to the first that contains hello, and the others once the client has seen that.
func (v *vendors) stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		var typed struct{ Type string }
		if json.Unmarshal([]byte(e), &typed) == nil && typed.Type != "" {
			fmt.Fprintf(w, "event: %s\n", typed.Type)
		}
		fmt.Fprintf(w, "data: %s\n\n", e)
		_ = http.NewResponseController(w).Flush()
		if !strings.Contains(e, "hello") {
			continue
		}
		select {
		case <-v.seen:
		case <-time.After(kit.Patience):
			panic(http.ErrAbortHandler) // the client did not get the event: break the stream
		}
	}
}

func TestSDKs(t *testing.T) {
	t.Parallel()
	node := kit.NodeJS(t)
	var mcp *kit.NodeServer
	hosts := []string{"api.openai.com", "api.anthropic.com", "slack.com", "api.github.com", "api.githubcopilot.com"}
	r := kit.NewRig(t, hosts, func(r *kit.Rig) (http.Handler, string) {
		mcp = kit.StartNode(t, r, "mcp-server.mjs")
		for _, name := range []string{"github-token", "slack-token", "openai-key", "anthropic-key"} {
			kit.Write(t, r.In("secrets/"+name), "secret-"+name)
		}
		return &vendors{Rig: r, seen: make(chan struct{})}, presetRules(t, mcp.Address)
	})
	for _, tt := range []struct{ name, script, what, want, rule, state string }{
		{"OpenAI streams a chat", "openai.mjs", "chat", "hello world", "openai-chat", "forwarded"},
		{"OpenAI streams a response", "openai.mjs", "responses", "hello world", "openai-responses", "forwarded"},
		{"OpenAI answers at once", "openai.mjs", "plain", "hello world", "openai-chat", "forwarded"},
		{"OpenAI is refused another call", "openai.mjs", "files", "403 action_unmatched 403 no action rule names DELETE", "",
			"refused"},
		{"Anthropic streams", "anthropic.mjs", "stream", "hello world", "anthropic-messages", "forwarded"},
		{"Anthropic answers at once", "anthropic.mjs", "plain", "hello world", "anthropic-messages", "forwarded"},
		{"Anthropic is refused another call", "anthropic.mjs", "batch", "403 action_unmatched", "", "refused"},
		{"Slack posts", "slack.mjs", "message", "ok ", "slack-message", "forwarded"},
		{"Slack is refused another call", "slack.mjs", "delete", "403 action_unmatched", "", "refused"},
		{"Octokit reads", "octokit.mjs", "read", "200", "github-reads", "forwarded"},
		{"Octokit posts", "octokit.mjs", "comment", "201", "github-comment", "forwarded"},
		{"Octokit is refused another call", "octokit.mjs", "milestone", "403 action_unmatched", "", "refused"},
		{"gRPC is refused", "grpc.mjs", "",
			"7 The mediator answers this call itself (action_unmatched): no action rule names", "", "refused"},
		{"MCP holds a session", "mcp.mjs", "", "issue_read echo: hello told", "github-tool-reads", "forwarded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := r.Posts.Load()
			out, err := r.AsAgent(t, kit.With(node, kit.Scripts+"node/"+tt.script, tt.what, "https://api.github.com")...)
			if err != nil || !strings.HasPrefix(out, tt.want) {
				t.Fatalf("got %q, %v; want %q", out, err, tt.want)
			}
			if strings.Contains(out, "secret-") {
				t.Error("the agent saw a credential")
			}
			posts := r.Records(t, "limit=1000&state="+tt.state)
			i := slices.IndexFunc(posts, func(p ledger.Record) bool { return p.Rule == tt.rule })
			if i < 0 {
				t.Errorf("no call by rule %q is recorded as %s", tt.rule, tt.state)
			}
			model := tt.state == "forwarded" && (tt.script == "openai.mjs" || tt.script == "anthropic.mjs")
			if i >= 0 && model &&
				(posts[i].Model == nil || posts[i].Model.Outcome != "complete" || posts[i].Model.API != tt.rule) {
				t.Errorf("of the call to the model is recorded %+v", posts[i].Model)
			}
			want := int64(0)
			if strings.HasSuffix(tt.name, " posts") {
				want = 1
			}
			if posted := r.Posts.Load() - before; posted != want {
				t.Errorf("%d posts arrived, not %d", posted, want)
			}
		})
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if mcp.Seen(method+" Bearer secret-github-token") == 0 {
			t.Errorf("no %s with the injected credential reached the MCP server", method)
		}
	}
}
