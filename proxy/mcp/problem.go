package mcp

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/actionproof/mediator/internal/problem"
)

// errorCodes are the JSON-RPC codes defined by the protocol. Other refusals use their HTTP status, in a range left to
// applications.
var errorCodes = map[string]int{
	"mcp_header_mismatch": -32020, "mcp_version_unsupported": -32022, "message_malformed": -32600,
	"message_ambiguous":  -32600,
	"mcp_method_refused": -32601,
}

// WriteProblem refuses a message with a JSON-RPC error that has the problem document as its data. The official SDKs
// show an error only in an answer 200, so a request gets that, unless the protocol demands 400. Other answers have the
// problem's own status, because clients look at nothing else.
func WriteProblem(w http.ResponseWriter, d problem.Details, m *Message) {
	var id ID
	if m != nil && m.IsRequest() {
		id = m.ID
	}
	status := d.Status
	if id != "" && status != http.StatusBadRequest {
		status = http.StatusOK
	}
	code, ok := errorCodes[d.Code]
	if !ok {
		code = d.Status
	}
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	var data any = d
	if d.Code == "mcp_version_unsupported" {
		data = struct {
			problem.Details
			Supported []string `json:"supported"`
		}{d, Versions}
	}
	body, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   failure         `json:"error"`
	}{"2.0", json.RawMessage(id), failure{code, d.Code + ": " + d.Detail, data}})
	if err != nil {
		d.Write(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(d.RetryAfter))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
