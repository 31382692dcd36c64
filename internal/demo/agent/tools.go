package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/proxy/mcp"
)

const toolRevision = "2026-07-28"

type toolMessage struct {
	Version string      `json:"jsonrpc"`
	ID      int         `json:"id"`
	Method  string      `json:"method,omitempty"`
	Params  *toolParams `json:"params,omitempty"`
	Result  *toolResult `json:"result,omitempty"`
}

type toolParams struct {
	Meta           map[string]any `json:"_meta"`
	Name           string         `json:"name"`
	Arguments      map[string]any `json:"arguments"`
	InputResponses map[string]any `json:"inputResponses,omitempty"`
}

type toolResult struct {
	Type          string         `json:"resultType"`
	Content       []any          `json:"content,omitempty"`
	InputRequests map[string]any `json:"inputRequests,omitempty"`

	Meta map[string]problem.Details `json:"_meta,omitempty"` // of a refused call
}

// ServeTools is an MCP server that has every tool. The tool ask first wants a human's answer.
func ServeTools(w http.ResponseWriter, r *http.Request) {
	var m toolMessage
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&m); err != nil || m.Params == nil {
		http.Error(w, "the body is no call of a tool", http.StatusBadRequest)
		return
	}
	done := map[string]any{"type": "text", "text": m.Params.Name + " is done"}
	result := &toolResult{Type: "complete", Content: []any{done}}
	if m.Params.Name == "ask" && m.Params.InputResponses == nil {
		schema := map[string]any{"type": "object", "properties": map[string]any{}}
		result = &toolResult{Type: "input_required", InputRequests: map[string]any{"really": map[string]any{
			"method": "elicitation/create", "params": map[string]any{"message": "Really?", "requestedSchema": schema},
		}}}
	}
	WriteJSON(w, http.StatusOK, toolMessage{Version: "2.0", ID: m.ID, Result: result})
}

// callTool calls a tool. It answers as a human if the server asks one.
func (c Call) callTool(ctx context.Context) (trial.Answer, error) {
	params := &toolParams{Name: c.Tool, Arguments: map[string]any{"title": "Agent update"}}
	answer, result, err := sendTool(ctx, c.URL, 1, params)
	if err != nil || result == nil || result.Type != "input_required" {
		return answer, err
	}
	params.InputResponses = make(map[string]any)
	for key := range result.InputRequests {
		params.InputResponses[key] = map[string]any{"action": "accept"}
	}
	answer, _, err = sendTool(ctx, c.URL, 2, params)
	return answer, err
}

func sendTool(ctx context.Context, url string, id int, params *toolParams) (trial.Answer, *toolResult, error) {
	params.Meta = map[string]any{"io.modelcontextprotocol/protocolVersion": toolRevision}
	header := http.Header{
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {toolRevision}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {params.Name},
	}
	resp, raw, err := post(ctx, url, header, toolMessage{Version: "2.0", ID: id, Method: "tools/call", Params: params})
	if err != nil {
		return trial.Answer{}, nil, err
	}
	var m toolMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return trial.Answer{}, nil, fmt.Errorf("the answer %s is not a message: %w", resp.Status, err)
	}
	answer := trial.Answer{Status: resp.StatusCode, Post: resp.Header.Get("ActionProof-Post")}
	if m.Result != nil {
		if refused, ok := m.Result.Meta[mcp.ProblemMember]; ok {
			answer.Code, answer.Detail, answer.Post = refused.Code, refused.Detail, refused.Post
		}
	}
	return answer, m.Result, nil
}
