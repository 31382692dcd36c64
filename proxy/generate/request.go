package generate

import (
	"net/http"
	"strings"

	json2 "github.com/go-json-experiment/json"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// Path is the mediator's own endpoint for prompts.
const Path = "/v1/generate"

// MaxRequest bounds the body of a request, in bytes.
const MaxRequest = 1 << 20

const maxTemperature = 2

// Request is an agent's request.
type Request struct {
	Prompt      string   `json:"prompt"`
	Probe       string   `json:"probe"` // the id of a probe; the probe's prompt replaces Prompt
	System      string   `json:"system"`
	Model       string   `json:"model"` // empty for the default
	MaxTokens   *int     `json:"maxTokens"`
	Temperature *float64 `json:"temperature"`
}

func malformed(format string, args ...any) error {
	return refusal.New("query_malformed", "the request to "+Path+" "+format, args...)
}

// Read reads a request strictly. Its errors quote nothing.
func Read(body []byte) (*Request, error) {
	if _, err := jsonread.Strict(body, 0); err != nil {
		return nil, malformed("is not one JSON object in UTF-8 without duplicate members")
	}
	r := new(Request)
	if err := json2.Unmarshal(body, r, json2.RejectUnknownMembers(true)); err != nil {
		return nil, malformed(
			"has an unknown member, or one of another type: prompt, probe, system and model are texts, maxTokens and " +
				"temperature numbers")
	}
	switch {
	case r.Probe != "" && (r.Prompt != "" || r.System != "" || r.MaxTokens != nil || r.Temperature != nil):
		return nil, malformed("has other members than probe and model: a probe is sent unchanged")
	case r.Probe == "" && strings.TrimSpace(r.Prompt) == "":
		return nil, malformed("has no prompt")
	case r.MaxTokens != nil && *r.MaxTokens < 1:
		return nil, malformed("asks for no tokens: maxTokens is at least 1")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > maxTemperature):
		return nil, malformed("has a temperature that is not between 0 and %d", maxTemperature)
	}
	return r, nil
}

// Put asks for a probe's prompt. The temperature is 0, so that the model answers it alike each time.
func (r *Request) Put(prompt string) { r.Prompt, r.Temperature = prompt, new(float64) }

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type asked struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages,omitzero"`
	Input         string    `json:"input,omitzero"`
	System        string    `json:"system,omitzero"`
	Instructions  string    `json:"instructions,omitzero"`
	MaxTokens     int       `json:"max_tokens,omitzero"`
	MaxCompletion int       `json:"max_completion_tokens,omitzero"`
	MaxOutput     int       `json:"max_output_tokens,omitzero"`
	Temperature   *float64  `json:"temperature,omitzero"`
	Store         *bool     `json:"store,omitzero"`
}

func (r *Request) to(m Model) (http.Header, []byte, error) {
	tokens := m.MaxTokens
	if r.MaxTokens != nil {
		tokens = *r.MaxTokens
	}
	if tokens > m.MaxTokens {
		return nil, nil, malformed("asks for more than the %d tokens that the egress rule allows", m.MaxTokens)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	out := asked{Model: m.Name, Temperature: r.Temperature}
	user := message{"user", r.Prompt}
	switch m.Dialect {
	case inference.OpenAIChat:
		out.MaxCompletion = tokens
		if r.System != "" {
			out.Messages = append(out.Messages, message{"system", r.System})
		}
		out.Messages = append(out.Messages, user)
	case inference.OpenAIResponses:
		out.MaxOutput, out.Input, out.Instructions = tokens, r.Prompt, r.System
		out.Store = new(bool) // otherwise the provider keeps the conversation
	case inference.AnthropicMessages:
		out.MaxTokens, out.System, out.Messages = tokens, r.System, []message{user}
		header.Set("Anthropic-Version", "2023-06-01")
	}
	body, err := json2.Marshal(out)
	return header, body, err
}
