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
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.ForAgent(refusal.New("target_mismatch", "the verification has another name than %q", r.Host), "").Write(w)
	}))
	defer s.Close()
	if _, err := client.Dial(t.Context(), s.URL, s.Client().Transport); err == nil ||
		!strings.Contains(err.Error(), "the verification has another name than ") {
		t.Fatal(err)
	}
}
