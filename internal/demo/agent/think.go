package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/actionproof/mediator/internal/trial"
)

const maxThoughts = 4

// think asks a model what to do, gives it the result of the tool that it wants, and posts its last words. The model and
// the tools are at the host of the post.
func (c Call) think(ctx context.Context) (answer trial.Answer, err error) {
	to, err := url.Parse(c.URL)
	if err != nil {
		return answer, err
	}
	model, tools := to.ResolveReference(&url.URL{Path: "/v1/messages"}), to.ResolveReference(&url.URL{Path: "/mcp"})
	ask := modelRequest{
		Model: ModelName, MaxTokens: 256,
		Tools:    []modelTool{{Name: "get_note", Schema: map[string]any{"type": "object"}}},
		Messages: []modelMessage{{"user", json.RawMessage(`"Read the note and post what it says."`)}},
	}
	for range maxThoughts {
		said, err := askModel(ctx, model.String(), ask)
		if err != nil {
			return answer, err
		}
		if said.Type != "tool_use" {
			body, err := json.Marshal(map[string]string{"title": "What the note says", "body": said.Text})
			if err != nil {
				return answer, err
			}
			return Call{Method: http.MethodPost, URL: c.URL, Body: string(body)}.send(ctx, nil)
		}
		result, err := useTool(ctx, tools.String(), said)
		if err != nil {
			return answer, err
		}
		for i, block := range []modelBlock{said, result} {
			content, err := json.Marshal([]modelBlock{block})
			if err != nil {
				return answer, err
			}
			ask.Messages = append(ask.Messages, modelMessage{[]string{"assistant", "user"}[i], content})
		}
	}
	return answer, errors.New("the model still wants to call tools")
}

func askModel(ctx context.Context, url string, ask modelRequest) (said modelBlock, err error) {
	resp, raw, err := post(ctx, url, http.Header{"Anthropic-Version": {"2023-06-01"}}, ask)
	if err != nil {
		return said, err
	}
	var answer modelAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return said, err
	}
	if resp.StatusCode != http.StatusOK || len(answer.Content) == 0 {
		return said, fmt.Errorf("the model answers %s", resp.Status)
	}
	return answer.Content[0], nil
}

func useTool(ctx context.Context, url string, want modelBlock) (modelBlock, error) {
	answer, result, err := sendTool(ctx, url, 1, &toolParams{Name: want.Name, Arguments: want.Input})
	if err != nil {
		return modelBlock{}, err
	}
	if result == nil {
		return modelBlock{}, fmt.Errorf("the tool %s is refused: %s", want.Name, answer.Code)
	}
	content, err := json.Marshal(result.Content)
	return modelBlock{Type: "tool_result", ToolUseID: want.ID, Content: string(content)}, err
}
