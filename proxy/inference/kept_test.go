package inference_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/inference/kept"
	"github.com/actionproof/mediator/test/check"
)

// TestKept checks that a request may point to what an answer of the session made, at the same host, and to nothing
// else.
func TestKept(t *testing.T) {
	for name, tt := range map[string]struct {
		dialect     inference.Dialect
		answer      string
		then, other string // what may follow, and what another answer would have to make
	}{
		"an answer": {inference.OpenAIResponses, `{"id":"ID","output":[]}`, `{"input":"x","previous_response_id":"ID"}`,
			`{"input":"x","previous_response_id":"other"}`},
		"a streamed answer": {inference.OpenAIResponses, stream(`{"type":"response.created","response":{"id":"ID"}}`),
			`{"input":"x","previous_response_id":"ID"}`, `{"input":"x","conversation":{"id":"ID2"}}`},
		"an item": {inference.OpenAIResponses,
			stream(`{"type":"response.output_item.added","item":{"type":"reasoning","id":"ID"}}`),
			`{"input":[{"type":"item_reference","id":"ID"}]}`, `{"input":[{"type":"item_reference"}]}`},
		"reasoning": {inference.OpenAIResponses,
			`{"output":[{"type":"reasoning","id":"ID","summary":[]}]}`,
			`{"input":[{"type":"reasoning","id":"ID","summary":[]}]}`,
			`{"input":[{"type":"reasoning","id":"x","summary":[],"encrypted_content":""}]}`},
		"reasoning of a whole answer that ends a stream": {inference.OpenAIResponses, // some servers name it anew there
			stream(`{"type":"response.output_item.done","item":{"type":"reasoning","id":"first","summary":[]}}`,
				`{"type":"response.completed","response":{"output":[{"type":"reasoning","id":"ID","summary":[]}]}}`),
			`{"input":[{"type":"reasoning","id":"ID","summary":[]}]}`,
			`{"input":[{"type":"reasoning","id":"x","summary":[]}]}`},
		"a file": {inference.OpenAIResponses,
			`{"output":[{"type":"message","content":[{"type":"output_text","annotations":[{"file_id":"ID"}]}]}]}`,
			`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"ID"}]}]}`,
			`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"x"}]}]}`},
		"audio": {inference.OpenAIChat, `{"choices":[{"message":{"audio":{"id":"ID"}}}]}`,
			`{"messages":[{"role":"assistant","audio":{"id":"ID"}}]}`,
			`{"messages":[{"role":"assistant","type":"message","audio":{"id":"x"}}]}`},
		"a thread": {inference.AnthropicMessages, `{"id":"ID","content":[]}`,
			`{"messages":[],"thread":{"type":"continue","previous_message_id":"ID"}}`,
			`{"messages":[],"thread":{"type":"create","previous_message_id":"x"}}`},
		"a container": {inference.AnthropicMessages,
			"event: message_start\n" + stream(`{"type":"message_start","message":{"container":{"id":"ID"}}}`),
			`{"messages":[],"container":"ID"}`, `{"messages":[],"container":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			var seen kept.Set
			read := func(host, body string) (*inference.Request, error) {
				return inference.Read(inference.Rule{Dialect: tt.dialect},
					inference.Call{Host: host, Body: []byte(body), Key: key, Kept: &seen})
			}
			answer := func(status int) {
				r, err := read("a", smallest[tt.dialect])
				check.Must(t, err)
				b := inference.Observe(r, start, options())
				kind := eventStream
				if strings.HasPrefix(tt.answer, "{") {
					kind = jsonType
				}
				begin(b, status, http.Header{"Content-Type": {kind}})
				write(t, b, tt.answer, 0)
				b.End(io.EOF)
				b.Interaction()
			}
			refused := func(when, host, body string) {
				if _, err := read(host, body); check.CodeOf(err) != "model_state_unseen" {
					t.Errorf("%s: %v", when, err)
				}
			}
			refused("before the answer", "a", tt.then)
			answer(http.StatusBadRequest)
			refused("after an error", "a", tt.then)
			answer(http.StatusOK)
			if _, err := read("a", tt.then); err != nil {
				t.Error(err)
			}
			refused("at another host", "b", tt.then)
			refused("another", "a", tt.other)
		})
	}
}

// TestSettle checks that a client may point to an answer whose end the mediator has not seen or read yet.
func TestSettle(t *testing.T) {
	for kind, answer := range map[string]string{
		eventStream: stream(`{"type":"response.created","response":{"id":"ID"}}`), jsonType: `{"id":"ID","output":[]}`,
	} {
		var seen kept.Set
		read := func(body string) (*inference.Request, error) {
			return inference.Read(inference.Rule{Dialect: inference.OpenAIResponses},
				inference.Call{Body: []byte(body), Key: key, Kept: &seen})
		}
		r, err := read(smallest[inference.OpenAIResponses])
		check.Must(t, err)
		b := inference.Observe(r, start, options())
		begin(b, http.StatusOK, http.Header{"Content-Type": {kind}})
		write(t, b, answer, 0)
		var ends sync.WaitGroup
		if kind == jsonType {
			ends.Go(func() { b.End(io.EOF); b.Interaction() })
		}
		seen.Settle(t.Context())
		if _, err := read(`{"input":"x","previous_response_id":"ID"}`); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		ends.Wait()
		b.Interaction()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		seen.Settle(gone)
	}
}

// TestManyKept checks that a session's first ids are forgotten, and no later ones.
func TestManyKept(t *testing.T) {
	var seen kept.Set
	read := func(body string) (*inference.Request, error) {
		return inference.Read(inference.Rule{Dialect: inference.OpenAIResponses},
			inference.Call{Body: []byte(body), Key: key, Kept: &seen})
	}
	for page := range 5 {
		var items []string
		for i := range 1000 {
			items = append(items, fmt.Sprintf(`{"type":"reasoning","id":"rs_%d"}`, 1000*page+i))
		}
		r, err := read(smallest[inference.OpenAIResponses])
		check.Must(t, err)
		b := inference.Observe(r, start, options())
		begin(b, http.StatusOK, http.Header{"Content-Type": {jsonType}})
		write(t, b, `{"output":[`+strings.Join(items, ",")+`]}`, 0)
		b.End(io.EOF)
		b.Interaction()
	}
	for id, known := range map[int]bool{0: false, 903: false, 904: true, 4999: true} {
		_, err := read(fmt.Sprintf(`{"input":[{"type":"item_reference","id":"rs_%d"}]}`, id))
		if (err == nil) != known {
			t.Errorf("rs_%d: %v", id, err)
		}
	}
}

func TestUnknownMembers(t *testing.T) {
	all := inference.Rule{Dialect: inference.OpenAIChat, AllowUnknown: true}
	for body, want := range map[string]string{
		`"shiny":1,"sparkle":{}`:                                "[shiny sparkle]",
		`"shiny":null`:                                          "[]",
		`"shiny":{"page":"https://x"}`:                          "model_hosted_tool",
		`"model":"m:online"`:                                    "model_hosted_tool",
		`"web_search_options":{}`:                               "model_hosted_tool",
		`"webSearchOptions":{}`:                                 "model_member_unknown",
		`"Tools":[{"type":"web_search"}]`:                       "model_member_unknown",
		`"mcp_servers":[{}]`:                                    "model_member_unknown", // of another API
		`"a b":1`:                                               "model_member_unknown",
		`"tools":[{"type":"teleport"}]`:                         "model_member_unknown",
		`"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1`:       "[a b c d e f g h]",
		`"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1`: "model_member_unknown",
	} {
		r, err := inference.Read(all, inference.Call{Body: []byte(`{"messages":[],` + body + `}`), Key: key})
		if got := check.CodeOf(err); err == nil && fmt.Sprint(r.Unknown) != want || err != nil && got != want {
			t.Errorf("%s: %v %v, want %s", body, r, err, want)
		}
	}
	_, err := inference.Read(inference.Rule{Dialect: inference.BedrockConverse, AllowUnknown: true}, inference.Call{
		Key: key, Body: []byte(`{"messages":[],"additionalModelRequestFields":{"tools":[{"type":"web_search_20250305"}]}}`)})
	if check.CodeOf(err) != "model_member_unknown" {
		t.Errorf("tools among the fields of a model: %v", err)
	}
	_, err = inference.Read(inference.Rule{Dialect: inference.OpenAIChat}, inference.Call{Key: key,
		Body: []byte(`{"messages":[],"shiny":1,"sparkle":1,"plugins":[1],"tools":[{"type":"teleport"}]}`)})
	for _, name := range []string{"shiny", "sparkle", "plugins", "teleport"} {
		if !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("the refusal does not name %s: %v", name, err)
		}
	}
}

// TestModels checks names by which a provider searches the web, or reads instructions that it keeps.
func TestModels(t *testing.T) {
	const hosted, unseen = "model_hosted_tool", "model_state_unseen"
	for body, want := range map[string]string{
		`"model":"m:online"`: hosted, `"model":"M:Online "`: hosted, `"model":"m:online:nitro"`: hosted,
		`"model":"m","models":["n","n:online"]`: hosted, `"models":["n\u003aonline"]`: hosted,
		`"model":"gpt-4o-search-preview-2025-03-11"`: hosted, `"model":"gpt-5-search-api"`: hosted,
		`"model":"perplexity/sonar-pro"`: hosted, `"model":"groq/compound-mini"`: hosted,
		`"model":"@preset/p"`: unseen, `"model":"m@preset/p"`: unseen, `"models":["@Preset/p"]`: unseen,
		`"models":{"a":"m:online"}`: "message_malformed", `"models":[["m:online"]]`: "message_malformed",
		`"model":"m","models":["n"]`: "", `"models":null`: "", `"model":"online-compounds"`: "",
	} {
		for _, d := range []inference.Dialect{inference.OpenAIChat, inference.AnthropicMessages} {
			_, err := inference.Read(inference.Rule{Dialect: d, AllowUnknown: true},
				inference.Call{Body: []byte(`{"messages":[],` + body + `}`), Key: key})
			if err == nil && want != "" || err != nil && check.CodeOf(err) != want {
				t.Errorf("%s %s: %v, want %q", d, body, err, want)
			}
		}
	}
}

// TestPath checks what the path of a call says.
func TestPath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1beta/models/gemini-3:streamGenerateContent":                                        "gemini-3 true",
		"/v1beta/models/gemini-3:generateContent":                                              "gemini-3 false",
		"/model/amazon.nova-v1%3A0/converse-stream":                                            "amazon.nova-v1:0 true",
		"/model/amazon.nova-v1%3A0/converse":                                                   "amazon.nova-v1:0 false",
		"/model/claude-x/invoke-with-response-stream":                                          "claude-x true",
		"/projects/p/locations/us-east5/publishers/anthropic/models/claude-x:streamRawPredict": "claude-x true",
		"/openai/deployments/small/chat/completions":                                           "small false",
	} {
		d := inference.Gemini
		switch {
		case strings.Contains(path, "converse"):
			d = inference.BedrockConverse
		case strings.Contains(path, "claude"):
			d = inference.AnthropicMessages
		case strings.Contains(path, "chat"):
			d = inference.OpenAIChat
		}
		r, err := inference.Read(inference.Rule{Dialect: d},
			inference.Call{Path: path, Body: []byte(smallest[d]), Key: key})
		if check.Must(t, err); fmt.Sprintf("%s %t", r.Model, r.Stream) != want {
			t.Errorf("%s: %s %t", path, r.Model, r.Stream)
		}
	}
}
