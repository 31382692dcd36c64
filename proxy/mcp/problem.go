package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/actionproof/mediator/internal/problem"
)

// errorCodes are defined by the protocol. Other refusals use their HTTP status, in a range left to applications.
var errorCodes = map[string]int{
	"mcp_header_mismatch": -32020, "mcp_version_unsupported": -32022, "message_malformed": -32600,
	"message_ambiguous": -32600, "mcp_transport_unsupported": -32600,
	"mcp_method_refused": -32601,
}

// WriteProblem refuses a message. A refused tool call is a result with isError, because models read results and only
// few clients show them errors. Everything else, and what the protocol calls an error, is a JSON-RPC error with the
// problem document as its data. The official SDKs look into an answer 200 alone, so a request gets that, unless the
// protocol demands 400.
func WriteProblem(w http.ResponseWriter, d problem.Details, m *Message) {
	if _, ofProtocol := errorCodes[d.Code]; !ofProtocol && m != nil && m.IsCall() {
		result := callResult{"complete", []textContent{{"text", d.Advice()}}, true,
			map[string]problem.Details{ProblemMember: d}}
		d.Status = http.StatusOK
		d.WriteAs(w, "application/json", answerTo{"2.0", json.RawMessage(m.ID), &result, nil})
		return
	}
	document, isRequest := failure(d, m)
	if isRequest && d.Status != http.StatusBadRequest {
		d.Status = http.StatusOK
	}
	d.WriteAs(w, "application/json", document)
}

// WriteEvent ends a stream of events with the error of the request m, which may be nil.
func WriteEvent(w http.ResponseWriter, d problem.Details, m *Message) {
	document, isRequest := failure(d, m)
	if text, err := json.Marshal(document); isRequest && err == nil {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
		_ = http.NewResponseController(w).Flush()
	}
}

// failure returns a JSON-RPC error, and whether it answers a request.
func failure(d problem.Details, m *Message) (document any, isRequest bool) {
	code, ofProtocol := errorCodes[d.Code]
	var id ID
	if m != nil && m.IsRequest() {
		id = m.ID
	}
	if !ofProtocol {
		code = d.Status
	}
	var data any = d
	if d.Code == "mcp_version_unsupported" {
		data = struct {
			problem.Details
			Supported []string `json:"supported"`
		}{d, Versions}
	}
	return answerTo{"2.0", json.RawMessage(id), nil, &rpcError{code, d.Code + ": " + d.Detail, data}}, id != ""
}

// answerTo is a JSON-RPC message to a client.
type answerTo struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  *callResult     `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

type callResult struct {
	Type    string                     `json:"resultType"` // of revision 2026-07-28; others ignore it
	Content []textContent              `json:"content"`
	IsError bool                       `json:"isError"`
	Meta    map[string]problem.Details `json:"_meta"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// ProblemMember is the member of a refused tool call's _meta that holds the problem document.
const ProblemMember = "github.com/actionproof/mediator/problem"
