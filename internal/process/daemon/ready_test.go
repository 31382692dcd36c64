package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

// TestReadyAfterCredential: a credential that cannot be read makes a process unready only while Vault answers nothing
// else either, and no call has to read it again.
func TestReadyAfterCredential(t *testing.T) {
	var away atomic.Bool
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		may := map[string]any{}
		var ask struct{ Paths []string }
		switch _ = json.NewDecoder(r.Body).Decode(&ask); {
		case away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasPrefix(r.URL.Path, "/v1/kv/"):
			w.WriteHeader(http.StatusForbidden)
		}
		for _, path := range ask.Paths {
			may[path] = []string{"deny"}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": may})
	}))
	defer at.Close()
	token := filepath.Join(t.TempDir(), "token")
	check.Must(t, os.WriteFile(token, []byte("token"), 0o600))
	keys, err := keystore.Open(secrets.Custody{Vault: &secrets.Vault{Address: at.URL,
		Auth: secrets.VaultAuth{TokenFile: token}}}, zap.NewNop())
	check.Must(t, err)
	defer keys.Close()
	role, err := keystore.Secrets(keys, "api_credential")
	check.Must(t, err)
	p := &Process{Keys: keys}
	p.Observer.Store(&Observer{Plan: Plan{Extra: func(ctx context.Context, maxAge time.Duration) []look.Observation {
		return []look.Observation{role.Look(ctx, maxAge)}
	}}})
	for _, is := range []bool{true, false, false} { // twice within the age of an observation
		away.Store(is)
		if _, err := role.Secret("kv/api", 0).Read(t.Context()); err == nil {
			t.Error("the credential is read")
		}
		if err := p.signs(t.Context()); (err != nil) != is {
			t.Errorf("Vault is away: %v; the process is not ready: %v", is, err)
		}
	}
	away.Store(true)
	_, _ = role.Secret("kv/api", 0).Read(t.Context())
	p.Observer.Store(&Observer{}) // a reload has removed the credential
	check.WantEqual(t, p.signs(t.Context()) != nil, true)
	role.Rest()
	check.Must(t, p.signs(t.Context()))
}
