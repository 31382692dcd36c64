package vault_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
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

// TestVersionsWithoutEnd lets a Vault that was taken over name other versions each time, which a process remembers.
func TestVersionsWithoutEnd(t *testing.T) {
	last := 0
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		versions := make(map[string]any)
		for range 1 << 13 {
			last++
			versions[strconv.Itoa(last)] = map[string]string{"public_key": base64.StdEncoding.EncodeToString(make([]byte, 32))}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"type": "ed25519", "keys": versions}})
	}))
	t.Cleanup(fake.Close)
	k, err := open(t, vault.Options{Address: fake.URL, Timeout: time.Hour}).Key(t.Context(), "runtime-key",
		&vault.TokenFile{Path: write(t, "a token")})
	check.Must(t, err)
	check.Must(t, k.Read(t.Context()))
	check.WantCode(t, k.Read(t.Context()), "custody_unavailable")
}
