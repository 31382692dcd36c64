package gate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

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
		mux.Handle("/down",
			s.Middleware(made,
				gate.Protect{Bind: bind, Refused: refused,
					InTransaction: func(context.Context) (gate.Transaction, error) {
						return nil, errors.New(inside)
					}}))
		mux.Handle("/silent", s.Middleware(made, gate.Protect{Bind: bind}))
	})
	send := func(capability, path string) (int, string) {
		resp, err := a.server.Client().Do(a.request(t, capability, path, gatetest.Content))
		check.Must(t, err)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		return resp.StatusCode, string(raw)
	}
	once := a.earn(t, bound("POST /once", gatetest.Content))
	if status, _ := send(once, "/once"); status != http.StatusCreated || len(take()) > 0 {
		t.Fatalf("the first post is refused: %d", status)
	}
	for _, tt := range []struct{ capability, path, code, hidden string }{
		{once, "/once", "replayed", "has been used before"},
		{a.earn(t, bound("POST /down", gatetest.Content)), "/down", "internal", "10.1.2.3"},
		{once, "/silent", "artifacts_mismatch", "the capability is for another"},
	} {
		_, answer := send(tt.capability, tt.path)
		if !strings.Contains(answer, `"code":"`+tt.code+`"`) || strings.Contains(answer, tt.hidden) {
			t.Errorf("%s: the answer is %s", tt.path, answer)
		}
		if got := take(); tt.path != "/silent" &&
			(len(got) != 1 || !strings.HasPrefix(got[0], tt.path) || !strings.Contains(got[0], tt.hidden)) {
			t.Errorf("%s: the API is told %q", tt.path, got)
		}
	}
}

// TestNewerVersionIsRefusedForNow: while the bundle is older than a rotation, 503 with Retry-After.
func TestNewerVersionIsRefusedForNow(t *testing.T) {
	a := newAPI(t)
	capability := a.earn(t, bound("POST /posts", gatetest.Content))
	ask := func(chain, proof string) (statuses []int) {
		t.Helper()
		ch, err := a.client.Challenge(t.Context(), bound("POST /posts", gatetest.Content))
		check.Must(t, err)
		r := a.kit.Over(t, gatetest.Plan{Binding: bound("POST /posts", gatetest.Content)}, ch)
		r.Binding = *ch.Binding
		_, err = a.client.Admit(t.Context(), r)
		if chain == "" && err != nil {
			t.Errorf("the chain is refused: %v", err)
		} else if chain != "" {
			gatetest.WantCode(t, err, chain)
			statuses = append(statuses, problem.DetailsOf(err).Status, problem.DetailsOf(err).RetryAfter)
		}
		resp, err := a.server.Client().Do(a.request(t, capability, "/posts", gatetest.Content))
		check.Must(t, err)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(raw), proof) {
			t.Errorf("%s, %v, want %s", raw, err, proof)
		}
		wait, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return append(statuses, resp.StatusCode, wait)
	}
	a.kit.Rotate(t, evidence.PurposeActionGrant)
	a.kit.Rotate(t, evidence.PurposeRequestProof)
	if got := ask("trust_stale", "trust_stale"); !slices.Equal(got, []int{503, 2, 503, 2}) {
		t.Errorf("before the API knows the new versions: statuses and waits %v", got)
	}
	for _, purpose := range []string{evidence.PurposeActionGrant, evidence.PurposeRequestProof} {
		fresh := a.kit.Vouch(t, a.kit.Key(t, purpose), purpose, a.kit.Issuer(purpose))
		a.kit.Verifier.SetTrust(a.kit.TrustWithout(t, purpose))
		if purpose == evidence.PurposeRequestProof {
			if got := ask("", "key_unknown"); !slices.Equal(got, []int{403, 0}) {
				t.Errorf("without any version of the key: statuses and waits %v", got)
			}
		}
		a.kit.Certificates[purpose] = fresh
		a.kit.Verifier.SetTrust(a.kit.Trust(t))
	}
	if got := ask("", ""); !slices.Equal(got, []int{201, 0}) {
		t.Errorf("once the API knows the new versions: statuses and waits %v", got)
	}
}
