package policy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

func TestClient(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decide", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"policyDecision":"x","grant":"y"}`)
	})
	refused := false
	mux.HandleFunc("POST /v1/manifests", func(w http.ResponseWriter, _ *http.Request) {
		if refused {
			problem.Write(w, refusal.New("not_ready", "not yet"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"manifests":["a","b"]}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c := policy.NewClient(s.URL, s.Client())
	d, err := c.Decide(t.Context(), policy.Request{})
	if check.Must(t, err); d != (policy.Decision{PolicyDecision: "x", Grant: "y"}) {
		t.Errorf("got %+v", d)
	}
	manifests, err := c.Manifests(t.Context())
	if check.Must(t, err); !slices.Equal(manifests, []string{"a", "b"}) {
		t.Errorf("got %q", manifests)
	}
	refused = true
	manifests, err = c.Manifests(t.Context())
	if check.WantCode(t, err, "not_ready"); manifests != nil {
		t.Errorf("beside the refusal there are %q", manifests)
	}
}

// TestClientAsksOtherReplicas: one replica of the control plane has a changed manifest, and one not yet; one ends.
func TestClientAsksOtherReplicas(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n := asked.Add(1); {
		case n == 0:
			panic(http.ErrAbortHandler)
		case n < 3:
			problem.Write(w, refusal.New("deployment_mismatch", "not this manifest"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"policyDecision":"x","grant":"y"}`)
	}))
	defer s.Close()
	c := policy.NewClient(s.URL, s.Client())
	_, err := c.Decide(t.Context(), policy.Request{})
	check.Must(t, err)
	asked.Store(-1)
	_, err = c.Decide(t.Context(), policy.Request{})
	check.Must(t, err)
	asked.Store(-1000)
	_, err = c.Decide(t.Context(), policy.Request{})
	check.WantCode(t, err, "deployment_mismatch", "not this manifest")
}

func TestClientWithoutAControlPlane(t *testing.T) {
	answer := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	for name, h := range map[string]http.Handler{
		"no problem document": answer(http.StatusBadGateway, "<html>"),
		"no JSON":             answer(http.StatusOK, "<html>"),
		"no grant":            answer(http.StatusOK, `{"policyDecision":"x"}`),
		"no decision":         answer(http.StatusOK, `{"grant":"x"}`),
		"a long grant":        answer(http.StatusOK, `{"policyDecision":"x","grant":"`+strings.Repeat("y", 17<<10)+`"}`),
		"another status":      answer(http.StatusAccepted, `{"policyDecision":"x","grant":"y"}`),
		"broken off":          http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(h)
			defer s.Close()
			d, err := policy.NewClient(s.URL, s.Client()).Decide(t.Context(), policy.Request{})
			check.WantCode(t, err, "process_unavailable", "the control plane")
			if d != (policy.Decision{}) {
				t.Errorf("got %+v", d)
			}
		})
	}
	s := httptest.NewServer(nil)
	s.Close()
	_, err := policy.NewClient(s.URL, s.Client()).Decide(t.Context(), policy.Request{})
	check.WantCode(t, err, "process_unavailable", "does not answer")
	if d := problem.DetailsOf(err); d.Status != http.StatusServiceUnavailable || d.RetryAfter == 0 {
		t.Errorf("the agent would get %+v", d)
	}
}
