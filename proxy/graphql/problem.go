package graphql

import (
	"net/http"

	"github.com/actionproof/mediator/internal/problem"
)

// WriteProblem adds the errors member that GraphQL clients read and the message that gh and Octokit show. The type is
// application/json, because clients treat any other type as opaque bytes.
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
