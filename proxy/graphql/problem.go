package graphql

import (
	"net/http"

	"github.com/actionproof/mediator/internal/problem"
)

// WriteProblem answers a request with a refusal as GraphQL clients show it: the problem document with its own status, and the
// same once more as the errors of a GraphQL answer, and as the message that gh and Octokit show of an answer that is no 2xx.
// It is application/json, because clients hand out any other type as bytes.
func WriteProblem(w http.ResponseWriter, d problem.Details) {
	type failure struct {
		Message    string            `json:"message"`
		Extensions map[string]string `json:"extensions"`
	}
	message := d.Code + ": " + d.Detail
	d.WriteAs(w, "application/json", struct {
		problem.Details
		Message string    `json:"message"`
		Errors  []failure `json:"errors"`
	}{d, message, []failure{{message, map[string]string{"code": d.Code}}}})
}
