package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// ModelName is the one model of the provider.
const ModelName = "demo-model"

// The part of Anthropic's Messages API that the demo uses.
type (
	modelRequest struct {
		Model     string         `json:"model"`
		MaxTokens int            `json:"max_tokens"`
		Messages  []modelMessage `json:"messages"`
		Tools     []modelTool    `json:"tools,omitempty"`
	}
	modelMessage struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"` // a text or a list of blocks
	}
	modelTool struct {
		Name   string         `json:"name"`
		Schema map[string]any `json:"input_schema"`
	}
	modelBlock struct {
		Type      string         `json:"type"`
		Text      string         `json:"text,omitempty"`
		ID        string         `json:"id,omitempty"`
		Name      string         `json:"name,omitempty"`
		Input     map[string]any `json:"input,omitempty"`
		ToolUseID string         `json:"tool_use_id,omitempty"`
		Content   string         `json:"content,omitempty"`
	}
	modelAnswer struct {
		ID         string       `json:"id"`
		Type       string       `json:"type"`
		Role       string       `json:"role"`
		Model      string       `json:"model"`
		Content    []modelBlock `json:"content"`
		StopReason string       `json:"stop_reason"`
		Usage      modelUsage   `json:"usage"`
	}
	modelUsage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
)

// ServeModel is the provider of a model, which calls the first offered tool and then repeats the tool's result. It
// never streams.
func ServeModel(w http.ResponseWriter, r *http.Request) {
	var ask modelRequest
	err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&ask)
	if err != nil || ask.Model != ModelName || len(ask.Messages) == 0 {
		WriteJSON(w, http.StatusBadRequest, map[string]any{"type": "error", "error": map[string]string{
			"type": "invalid_request_error", "message": "this is not a request to demo-model",
		}})
		return
	}
	said, stop := modelBlock{Type: "text", Text: "A mediator lets a post out only with its evidence."}, "end_turn"
	var blocks []modelBlock
	_ = json.Unmarshal(ask.Messages[len(ask.Messages)-1].Content, &blocks) // a text has none
	switch {
	case len(blocks) > 0 && blocks[0].Type == "tool_result":
		said.Text = "I have read the note, and it says: " + blocks[0].Content
	case len(ask.Tools) > 0:
		said, stop = modelBlock{
			Type: "tool_use", ID: "toolu_demo", Name: ask.Tools[0].Name, Input: map[string]any{"title": "Agent update"},
		}, "tool_use"
	}
	WriteJSON(w, http.StatusOK, modelAnswer{
		ID: "msg_demo", Type: "message", Role: "assistant", Model: ModelName, Content: []modelBlock{said},
		StopReason: stop, Usage: modelUsage{Input: 20 * len(ask.Messages), Output: 1 + len(strings.Fields(said.Text))},
	})
}

// WriteJSON answers with a document.
func WriteJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}
