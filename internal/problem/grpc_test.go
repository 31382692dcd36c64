package problem_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
)

func TestAnswerToGRPC(t *testing.T) {
	for _, tt := range []struct {
		kind    string
		major   int
		details problem.Details
		status  string // of gRPC; empty for a document
	}{
		{"application/grpc", 2, problem.Details{Status: http.StatusForbidden}, "7"},
		{"application/grpc+proto", 2, problem.Details{Status: http.StatusProxyAuthRequired}, "16"},
		{"application/grpc;x=y", 2, problem.Details{Status: http.StatusServiceUnavailable, RetryAfter: 5}, "14"},
		{"application/grpc", 2, problem.Details{Status: http.StatusBadGateway}, "2"}, // perhaps sent: not again
		{"application/grpc", 1, problem.Details{Status: http.StatusForbidden}, ""},
		{"application/grpc-web", 2, problem.Details{Status: http.StatusForbidden}, ""},
		{"application/json", 2, problem.Details{Status: http.StatusForbidden}, ""},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "https://a.test/s.S/M", http.NoBody)
		r.ProtoMajor = tt.major
		r.Header.Set("Content-Type", tt.kind)
		tt.details.Code, tt.details.Detail, tt.details.Remedy = "policy_denied", "50 % of é", "Ask."
		tt.details.Answer(w, r)
		if tt.status == "" {
			if w.Code != tt.details.Status || w.Header().Get("Content-Type") != problem.ContentType {
				t.Errorf("%s: %d %v", tt.kind, w.Code, w.Header())
			}
			continue
		}
		const said = "The mediator answers this call itself (policy_denied): 50 %25 of %C3%A9. What to do: Ask."
		got := w.Header().Get("Grpc-Message")
		if w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "application/grpc" ||
			w.Header().Get("Grpc-Status") != tt.status || got[:min(len(got), len(said))] != said {
			t.Errorf("%s: %d %v", tt.kind, w.Code, w.Header())
		}
	}
}
