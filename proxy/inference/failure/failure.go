// Package failure writes refusals in the forms of the model APIs' own errors, which their SDKs read.
package failure

import (
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/inference"
)

// Write answers in the form of the API's errors. It adds the members of a problem document.
func Write(w http.ResponseWriter, api inference.Dialect, d problem.Details) {
	failed := failure{Message: d.Detail, Code: d.Code}
	switch api {
	case inference.AnthropicMessages:
		d.Type, failed.Type = "error", anthropicTypes[d.Status]
		if d.Code == "model_state_unseen" && strings.Contains(d.Detail, `"thread"`) {
			// the official SDK then sends the whole conversation
			failed.Details = map[string]string{"error_code": "thread_not_found"}
		}
	case inference.Gemini:
		failed.Code, failed.Status = d.Status, googleStatuses[d.Status]
	case inference.BedrockConverse:
		w.Header().Set("X-Amzn-ErrorType", amazonTypes[d.Status])
		d.WriteAs(w, contentJSON, struct {
			problem.Details
			Message string `json:"message"`
		}{d, d.Detail})
		return
	case inference.OllamaChat:
		d.WriteAs(w, contentJSON, struct {
			problem.Details
			Error string `json:"error"`
		}{d, d.Detail})
		return
	default:
		failed.Type = "invalid_request_error"
	}
	d.WriteAs(w, contentJSON, struct {
		problem.Details
		Error failure `json:"error"`
	}{d, failed})
}

const contentJSON = "application/json" // some SDKs read errors of no other type

// failure is the member error of OpenAI, Anthropic and Google.
type failure struct {
	Type    string            `json:"type,omitempty"`
	Code    any               `json:"code"` // a text, or Google's number
	Status  string            `json:"status,omitempty"`
	Message string            `json:"message"`
	Details map[string]string `json:"details,omitempty"`
}

// The names that the APIs have for a status; others have none.
var (
	anthropicTypes = map[int]string{http.StatusBadRequest: "invalid_request_error",
		http.StatusForbidden: "permission_error", http.StatusTooManyRequests: "rate_limit_error"}
	googleStatuses = map[int]string{http.StatusBadRequest: "INVALID_ARGUMENT",
		http.StatusForbidden: "PERMISSION_DENIED", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED"}
	amazonTypes = map[int]string{http.StatusBadRequest: "ValidationException",
		http.StatusForbidden: "AccessDeniedException", http.StatusTooManyRequests: "ThrottlingException"}
)
