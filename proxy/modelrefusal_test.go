package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/rules"
)

// TestModelRefusals checks that each API's clients can read a refusal.
func TestModelRefusals(t *testing.T) {
	for d, tt := range map[inference.Dialect]struct{ path, body, want string }{
		inference.OpenAIChat: {"/v1/chat/completions", `{"messages":[],"plugins":[1],"shiny":1}`,
			`"error":{"type":"invalid_request_error","code":"model_hosted_tool","message":"\"plugins\" would make `},
		inference.AnthropicMessages: {"/v1/messages", `{"messages":[],"shiny":1}`,
			`"error":{"type":"permission_error","code":"model_member_unknown","message":"\"shiny\" is unknown`},
		inference.Gemini: {"/v1beta/models/m:generateContent", `{"contents":[],"cachedContent":"x"}`,
			`"error":{"code":403,"status":"PERMISSION_DENIED","message":"\"cachedContent\" points to`},
		inference.BedrockConverse: {"/model/m/converse", `{"messages":[],"shiny":1}`,
			`"message":"\"shiny\" is unknown`},
		inference.OllamaChat: {"/api/chat", `{"messages":[],"shiny":1}`, `"error":"\"shiny\" is unknown`},
	} {
		p := newPostRig(t, answerModels, func(o *PipelineOptions, actions []rules.Action) {
			o.Rules = rulesFor(t, actions, []rules.Egress{{Name: "model", Match: matchAt(actions[0], tt.path, "POST"),
				Observe: &inference.Rule{Dialect: d}}})
		})
		resp, body := p.send("POST", tt.path, tt.body)
		isError := strings.Contains(body, `"type":"error"`)
		kind := resp.Header.Get("Content-Type")
		if resp.StatusCode != http.StatusForbidden || kind != "application/json" || !strings.Contains(body, tt.want) ||
			isError != (d == inference.AnthropicMessages) {
			t.Errorf("%s: %s, %s, %s", d, resp.Status, kind, body)
		}
		if name := resp.Header.Get("X-Amzn-Errortype"); (name == "AccessDeniedException") !=
			(d == inference.BedrockConverse) {
			t.Errorf("%s: the error's type is %q", d, name)
		}
	}
	p := newModelRig(t, answerModels)
	_, body := p.send("POST", "/v1/messages",
		`{"messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}`)
	if !strings.Contains(body, `"details":{"error_code":"thread_not_found"}`) { // the SDK's cue to send everything
		t.Errorf("the refusal of a thread is %s", body)
	}
}
