package vault_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
)

func TestUselessAnswers(t *testing.T) {
	nothing := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for _, err := io.WriteString(w, `{"data":"`); err == nil; _, err = io.WriteString(w, strings.Repeat("x", 1<<20)) {
		}
	}
	for _, at := range []string{"/v1/auth/token/lookup-self", "/v1/sys/capabilities-self"} {
		for what, answer := range map[string]http.HandlerFunc{"200": nothing(200), "204": nothing(204), "endless": endless} {
			t.Run(at+" "+what, func(t *testing.T) {
				fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == at {
						answer(w, r)
						return
					}
					fmt.Fprint(w, `{"data":{"policies":["default"]}}`)
				}))
				t.Cleanup(fake.Close)
				s := open(t, vault.Options{Address: fake.URL, Timeout: time.Hour})
				of := s.Secrets(&vault.TokenFile{Path: write(t, "a token")}, "key")
				if seen := of.Look(t.Context(), 0); seen.Result != look.NotObserved {
					t.Errorf("seen: %+v", seen)
				}
			})
		}
	}
}
