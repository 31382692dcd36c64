package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/actionproof/mediator/internal/problem"
)

// errorCodes are defined by the protocol. Other refusals use their HTTP status, in a range left to applications.
var errorCodes = map[string]int{
	"mcp_header_mismatch": -32020, "mcp_version_unsupported": -32022, "message_malformed": -32600,
	"message_ambiguous":  -32600,
	"mcp_method_refused": -32601,
}

// WriteProblem refuses a message with a JSON-RPC error that has the problem document as its data. The official SDKs
// show an error only in an answer 200, so a request gets that, unless the protocol demands 400. Otherwise clients look
// at nothing but the status.
func WriteProblem(w http.ResponseWriter, d problem.Details, m *Message) {
	var id ID
	if m != nil && m.IsRequest() {
		id = m.ID
	}
	code, ok := errorCodes[d.Code]
	if !ok {
		code = d.Status
	}
	var data any = d
	if d.Code == "mcp_version_unsupported" {
		data = struct {
			problem.Details
			Supported []string `json:"supported"`
		}{d, Versions}
	}
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	document := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   failure         `json:"error"`
	}{"2.0", json.RawMessage(id), failure{code, d.Code + ": " + d.Detail, data}}
	if id != "" && d.Status != http.StatusBadRequest {
		d.Status = http.StatusOK
	}
	d.WriteAs(w, "application/json", document)
}
