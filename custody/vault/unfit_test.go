package vault_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

func remake(t *testing.T, path string, how map[string]any) {
	t.Helper()
	server.Write(t, path+"/config", map[string]any{"deletion_allowed": true})
	if _, err := server.Client(t).Logical().Delete(path); err != nil {
		t.Fatal(err)
	}
	server.Write(t, path, how)
}

func TestUnfit(t *testing.T) {
	for name, how := range map[string]map[string]any{
		"is not the same key as before": {"type": "ed25519"}, "has the type ecdsa-p256": {"type": "ecdsa-p256"},
		"has the type aes256-gcm96":                       {"type": "aes256-gcm96"},
		"has the type ed25519 and is not a plain ed25519": {"type": "ed25519", "derived": true},
	} {
		t.Run(name, func(t *testing.T) {
			role, proxy := newSigning(t, time.Hour, time.Hour), server.NewProxy(t)
			s := open(t, vault.Options{Address: proxy.Address, Mount: role.mount, Refresh: time.Hour})
			k, err := s.Key(t.Context(), "k", role.auth)
			check.Must(t, err)
			before, err := k.Current(t.Context())
			check.Must(t, err)
			remake(t, role.mount+"/keys/k", maps.Clone(how))
			if _, err := before.Sign(t.Context(), []byte("message")); !unavailable(err) {
				t.Errorf("the version before signs, or says %v", err)
			}
			for _, f := range []vaulttest.Fault{{}, {Refuse: true}} {
				proxy.Set(t, f)
				if err := k.Read(t.Context()); err == nil {
					t.Error("it is read as if nothing was")
				}
				_, err := k.Current(t.Context())
				if !custody.IsUnfit(err) || !strings.Contains(err.Error(), name) {
					t.Errorf("got %v", err)
				}
				if l := k.Observe(t.Context(), 0)[0]; l.Result != look.Contradicts || !strings.Contains(l.Seen, name) {
					t.Errorf("seen: %+v", l)
				}
			}
			proxy.Set(t, vaulttest.Fault{})
			if _, err := s.Key(t.Context(), "k", role.auth); custody.IsUnfit(err) !=
				(how["derived"] != nil || how["type"] != "ed25519") {
				t.Errorf("another start: %v", err) // a new key for its registry
			}
		})
	}
}

// TestTokenThatMayMore: a token that could make another login, or change what itself may do, is no role's own.
func TestTokenThatMayMore(t *testing.T) {
	role := newSigning(t, time.Hour, time.Hour)
	role.auth.Roles = []string{"signer", "another"}
	k, err := open(t, role.Options).Key(t.Context(), "k", role.auth)
	check.Must(t, err)
	login := "auth/" + role.mount + "/role/"
	for _, path := range []string{"", "sys/policy/*", "sys/audit/*", "sys/raw/*", "auth/token/create/*",
		"auth/token/roles/*", "identity/entity", "identity/entity/id/*", "identity/group/id/*", login + "+/secret-id",
		login + "another/secret-id",
		login + "signer", role.mount + "/keys/+/rotate"} {
		policy := signPolicy(role.mount, "k") + `path "auth/token/renew-self" { capabilities = ["update"] }`
		want := look.Holds
		if path != "" {
			policy, want = policy+"\n"+`path "`+path+`" { capabilities = ["update"] }`, look.Contradicts
		}
		server.Write(t, "sys/policies/acl/"+role.mount, map[string]any{"policy": policy})
		if l := k.Observe(t.Context(), 0)[1]; l.Name != look.Apart || l.Result != want {
			t.Errorf("%s: %+v", path, l)
		}
	}
}
