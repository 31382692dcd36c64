package vault_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
)

// tokenAPI makes and revokes user tokens like Terraform Cloud.
type tokenAPI struct {
	mu      sync.Mutex
	made    int
	deleted []string
}

func (a *tokenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/vnd.api+json")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/api/v2/users/user-1/authentication-tokens":
		a.made++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w,
			`{"data":{"id":"at-%d","type":"authentication-tokens","attributes":{"token":"token-%[1]d","description":""}}}`,
			a.made)
	case r.Method == http.MethodDelete:
		a.deleted = append(a.deleted, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (a *tokenAPI) took() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.deleted)
}

func TestLeasedSecret(t *testing.T) {
	tokens := &tokenAPI{}
	api := httptest.NewServer(tokens)
	t.Cleanup(api.Close)
	server.Terraform(t)
	server.Mount(t, "leased", "terraform", nil)
	server.Write(t, "leased/config", map[string]any{"address": api.URL, "token": "the-owner's"})
	server.Write(t, "leased/role/deploy", map[string]any{"user_id": "user-1", "ttl": "60s", "max_ttl": "120s"})

	const policy = selfPolicy + `path "leased/creds/deploy" { capabilities = ["read"] }`
	first := server.TokenFor(t, "leased", policy, time.Hour)
	file := write(t, first)
	c := &clock{t: time.Now()}
	all := open(t, vault.Options{Now: c.now}).Secrets(&vault.TokenFile{Path: file})
	s := all.Secret("leased/creds/deploy", 0)
	wantSecret(t, s, "token-1")
	c.add(54*time.Second - time.Nanosecond)
	wantSecret(t, s, "token-1")
	c.add(time.Nanosecond)
	wantSecret(t, s, "token-2")

	// Vault revokes the secrets with their token; the upstream then refuses them.
	check.Must(t, server.Client(t).Auth().Token().RevokeOrphanWithContext(t.Context(), first))
	for began := time.Now(); tokens.took() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Minute {
			t.Fatal("Vault does not take the secrets back")
		}
	}
	deliver := func() {
		check.Must(t, os.WriteFile(file, []byte(server.TokenFor(t, "leased", policy, time.Hour)), 0o600))
	}
	deliver()
	c.add(time.Second)
	s.Refused("token", "token-2")
	wantSecret(t, s, "token-3")

	deliver()
	check.Must(t, all.Login(t.Context()))
	wantSecret(t, s, "token-4")
	for i, refused := range []string{"token-4", "token-5", "token-5", "token-6"} {
		c.add(time.Second)
		s.Refused("token", refused)
		s.Refused("token", refused) // the answer to a concurrent call
		want := []string{"token-5", "token-5", "token-6", "token-6"}[i]
		wantSecret(t, s, want)
	}
}

// TestRefusedWhileRenewed: an upstream refuses a secret while its lease is renewed. The next use reads another one.
func TestRefusedWhileRenewed(t *testing.T) {
	var s *vault.Secret
	var made atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			made.Add(1)
		case strings.HasPrefix(r.URL.Path, "/v1/sys/leases/renew/"):
			s.Refused("token", "token-1")
		}
		fmt.Fprintf(w, `{"lease_id":"leased/creds/deploy/%d","lease_duration":600,"renewable":true,`+
			`"data":{"token":"token-%[1]d"}}`, made.Load())
	}))
	t.Cleanup(api.Close)
	c := &clock{t: time.Now()}
	from, err := vault.NewServer(vault.Options{Address: api.URL, Log: zap.NewNop(), Now: c.now})
	check.Must(t, err)
	t.Cleanup(func() { _ = from.Close() })
	s = from.Secrets(&vault.TokenFile{Path: write(t, "token")}).Secret("leased/creds/deploy", 0)
	wantSecret(t, s, "token-1")
	c.add(9 * time.Minute)
	wantSecret(t, s, "token-1")
	wantSecret(t, s, "token-2")
	wantSecret(t, s, "token-2")
}

// TestLeaseWhileVaultFails: a secret that Vault neither renews nor replaces is used to the end of its lease.
func TestLeaseWhileVaultFails(t *testing.T) {
	var fails atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"lease_id":"leased/1","lease_duration":600,"renewable":true,"data":{"token":"token-1"}}`)
	}))
	t.Cleanup(api.Close)
	c := &clock{t: time.Now()}
	from, err := vault.NewServer(vault.Options{Address: api.URL, Log: zap.NewNop(), Now: c.now})
	check.Must(t, err)
	t.Cleanup(func() { _ = from.Close() })
	s := from.Secrets(&vault.TokenFile{Path: write(t, "token")}).Secret("leased/creds/deploy", 0)
	wantSecret(t, s, "token-1")
	fails.Store(true)
	c.add(10*time.Minute - time.Nanosecond)
	wantSecret(t, s, "token-1")
	c.add(time.Nanosecond)
	if value, err := token(t.Context(), s); value != "" || !unavailable(err) {
		t.Errorf("after the lease: %q, %v", value, err)
	}
	fails.Store(false)
	wantSecret(t, s, "token-1")
}
