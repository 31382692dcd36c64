package gate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestMiddlewareTellsTheAgentLittle: the mediator brings what the middleware answers to the agent, and why it refused only the API learns.
func TestMiddlewareTellsTheAgentLittle(t *testing.T) {
	const inside = "dial tcp 10.1.2.3:5432: connection refused"
	var mu sync.Mutex
	var told []string
	refused := func(r *http.Request, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.URL.Path+": "+err.Error())
	}
	take := func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { told = nil }()
		return told
	}
	made := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	a := newAPI(t, func(_ *api, s *gate.Server, mux *http.ServeMux) {
		mux.Handle("/once", s.Middleware(made, gate.Protect{Bind: bind, Refused: refused}))
		mux.Handle("/down", s.Middleware(made, gate.Protect{Bind: bind, Refused: refused, InTransaction: func(context.Context) (gate.Transaction, error) { return nil, errors.New(inside) }}))
		mux.Handle("/silent", s.Middleware(made, gate.Protect{Bind: bind}))
	})
	send := func(capability, path string) (int, string) {
		resp, err := a.server.Client().Do(a.request(t, capability, path, gatetest.Content))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
	once := a.earn(t, bound("POST /once", gatetest.Content))
	if status, _ := send(once, "/once"); status != http.StatusCreated || len(take()) > 0 {
		t.Fatalf("the first post is refused: %d", status)
	}
	for _, tt := range []struct{ capability, path, code, hidden string }{
		{once, "/once", "replayed", "has been used before"},
		{a.earn(t, bound("POST /down", gatetest.Content)), "/down", "internal", "10.1.2.3"},
		{once, "/silent", "capability_binding_mismatch", "the capability is for another"},
	} {
		_, answer := send(tt.capability, tt.path)
		if !strings.Contains(answer, `"code":"`+tt.code+`"`) || strings.Contains(answer, tt.hidden) {
			t.Errorf("%s: the answer is %s", tt.path, answer)
		}
		if got := take(); tt.path != "/silent" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.path) || !strings.Contains(got[0], tt.hidden)) {
			t.Errorf("%s: the API is told %q", tt.path, got)
		}
	}
}
