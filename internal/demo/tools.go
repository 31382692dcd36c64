package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/actionproof/mediator/internal/problem"
)

// toolRevision is the revision of the Model Context Protocol that the demo's MCP server and its client speak.
const toolRevision = "2026-07-28"

// toolMessage is what the demo reads and writes of the protocol.
type toolMessage struct {
	Version string      `json:"jsonrpc"`
	ID      int         `json:"id"`
	Method  string      `json:"method,omitempty"`
	Params  *toolParams `json:"params,omitempty"`
	Result  *toolResult `json:"result,omitempty"`
	Error   *toolError  `json:"error,omitempty"`
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
}

type toolError struct {
	Message string          `json:"message"`
	Data    problem.Details `json:"data"`
}

// serveTools is an MCP server with any tool. The tool called ask wants a human's answer first.
func serveTools(w http.ResponseWriter, r *http.Request) {
	var m toolMessage
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&m); err != nil || m.Params == nil {
		http.Error(w, "the body is no call of a tool", http.StatusBadRequest)
		return
	}
	result := &toolResult{Type: "complete", Content: []any{map[string]any{"type": "text", "text": m.Params.Name + " is done"}}}
	if m.Params.Name == "ask" && m.Params.InputResponses == nil {
		question := map[string]any{"message": "Really?", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}}
		result = &toolResult{Type: "input_required", InputRequests: map[string]any{"really": map[string]any{"method": "elicitation/create", "params": question}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(toolMessage{Version: "2.0", ID: m.ID, Result: result})
}

// callTool calls a tool. Where the server asks a human, it answers as one.
func (c Call) callTool(ctx context.Context) (Answer, error) {
	params := &toolParams{Meta: map[string]any{"io.modelcontextprotocol/protocolVersion": toolRevision}, Name: c.Tool, Arguments: map[string]any{"title": "Agent update"}}
	answer, result, err := c.sendTool(ctx, 1, params)
	if err != nil || result == nil || result.Type != "input_required" {
		return answer, err
	}
	params.InputResponses = make(map[string]any)
	for key := range result.InputRequests {
		params.InputResponses[key] = map[string]any{"action": "accept"}
	}
	answer, _, err = c.sendTool(ctx, 2, params)
	return answer, err
}

func (c Call) sendTool(ctx context.Context, id int, params *toolParams) (Answer, *toolResult, error) {
	header := map[string]string{"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": toolRevision, "Mcp-Method": "tools/call", "Mcp-Name": c.Tool}
	resp, raw, err := post(ctx, c.URL, header, toolMessage{Version: "2.0", ID: id, Method: "tools/call", Params: params})
	if err != nil {
		return Answer{}, nil, err
	}
	var m toolMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return Answer{}, nil, fmt.Errorf("the answer %s is no message: %w", resp.Status, err)
	}
	answer := Answer{Status: resp.StatusCode, Post: resp.Header.Get("ActionProof-Post")}
	if m.Error != nil {
		answer.Code, answer.Detail, answer.Post = m.Error.Data.Code, m.Error.Message, m.Error.Data.Post
	}
	return answer, m.Result, nil
}
