package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/verification/client"
)

func TestDialIsRefused(t *testing.T) {
	for _, kind := range []string{problem.ContentType, "application/problem+json",
		"Application/Problem+JSON;charset=UTF-8"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d := problem.ForAgent(refusal.New("target_mismatch", "the verification has another name than %q", r.Host), "")
			d.WriteAs(w, kind, d)
		}))
		defer s.Close()
		if _, err := client.Dial(t.Context(), s.URL, s.Client().Transport); err == nil ||
			!strings.Contains(err.Error(), "the verification has another name than ") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
