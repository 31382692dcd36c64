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

// TestHostileCanary: a user pastes no canary into a shell that runs what it says.
func TestHostileCanary(t *testing.T) {
	for output, want := range map[string]string{`{"canary": "canary-0123456789abcdef"}`: "canary-0123456789abcdef",
		`{"canary": "$(touch /tmp/y)"}`: "", `{"canary": "x\nresult    passed"}`: "", `{}`: ""} {
		if got := (client.Call{Output: output}).Canary(); got != want {
			t.Errorf("%s: got %q", output, got)
		}
	}
}
