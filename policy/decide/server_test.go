package decide_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
)

func TestClientAndServer(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	s := httptest.NewServer(decide.NewServer(w.engines()))
	defer s.Close()
	c := policy.NewClient(s.URL, s.Client())

	d, err := c.Decide(t.Context(), w.request())
	check.Must(t, err)
	_, err = evidence.Open(w.Verifier, evidence.PolicyDecisionKind(), d.PolicyDecision, w.Strict.Decision)
	check.Must(t, err)
	_, err = evidence.Open(w.Verifier, evidence.ActionGrantKind(), d.Grant, w.Strict.Grant)
	check.Must(t, err)

	// A refusal keeps its code and its sentence.
	_, err = c.Decide(t.Context(), w.request(func(r *request) { r.Call.Size = 5 << 20 }))
	check.WantCode(t, err, "policy_denied", "the rule no-huge-posts denies create_post on POST /posts?draft=1")
}

// TestDecidesForTheCaller: a process that another's key cannot name is decided for in its own name alone.
func TestDecidesForTheCaller(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	for runtime, code := range map[string]string{"worker-1": "", "worker-2": "runtime_foreign", "": "runtime_foreign"} {
		ctx := wire.WithCaller(t.Context(), wire.Caller{ID: "spiffe://example.org/" + runtime, Runtime: runtime})
		if _, err := w.engines().Decide(ctx, w.request()); code != "" {
			check.WantCode(t, err, code, `asks for the runtime "worker-1"`)
		} else {
			check.Must(t, err)
		}
	}
}

func TestServerRefusesMalformedRequests(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	h := decide.NewServer(w.engines())
	valid := jsonOf(t, w.request())
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"unknown member":   {`{"surprise": 1,` + valid[1:], http.StatusBadRequest, "query_malformed"},
		"duplicate member": {`{"runtimeId": "worker-2",` + valid[1:], http.StatusBadRequest, "query_malformed"},
		"two values":       {valid + valid, http.StatusBadRequest, "query_malformed"},
		"no JSON":          {"x", http.StatusBadRequest, "query_malformed"},
		"nothing":          {"", http.StatusBadRequest, "query_malformed"},
		"too large": {`{"runtimeId": "` + strings.Repeat("a", 1<<20) + `"}`, http.StatusBadRequest,
			"query_malformed"},
		"empty object": {"{}", http.StatusForbidden, "deployment_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/decide", strings.NewReader(c.body)))
			if rec.Code != c.status || rec.Header().Get("Content-Type") != problem.ContentType {
				t.Errorf("got %d %s", rec.Code, rec.Header().Get("Content-Type"))
			}
			check.WantCode(t, problem.Read(rec.Result()), c.code)
		})
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/decide", nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", rec.Code)
	}
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	check.Must(t, err)
	return string(raw)
}
