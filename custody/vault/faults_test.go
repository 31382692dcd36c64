package vault_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

func unavailable(err error) bool {
	refusal := (*custody.Error)(nil)
	return errors.As(err, &refusal) && refusal.Code() == "custody_unavailable"
}

// TestFaultsLeaveNothing: network faults, impatient callers and a close leave no goroutine.
func TestFaultsLeaveNothing(t *testing.T) {
	proxy := server.NewProxy(t)
	role := newAppRole(t)
	role.deliver(t)
	before := goleak.IgnoreCurrent()
	s := open(t, server, vault.Options{Address: proxy.Address, Mount: role.name, Timeout: time.Minute})
	k, err := s.Key(t.Context(), "key", role)
	check.Must(t, err)
	for name, f := range map[string]vaulttest.Fault{
		"none": {}, "slow": {Delay: 300 * time.Millisecond}, "500": {Status: http.StatusInternalServerError},
		"429": {Status: http.StatusTooManyRequests},
		"403": {Status: http.StatusForbidden}, "reset": {Reset: true}, "half-closed": {HalfClose: true},
		"expired": {Expired: true}, "refused": {Refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := k.Current(t.Context())
			check.Must(t, err)
			proxy.Set(t, f)
			var callers sync.WaitGroup
			for i := range 32 {
				callers.Go(func() {
					patience := time.Minute
					if i%4 == 0 {
						patience = time.Millisecond
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_, err := v.Sign(ctx, []byte("message"))
					if healthy := name == "none" || name == "slow"; err == nil != healthy && patience == time.Minute || err != nil &&
						!unavailable(err) {
						t.Errorf("got %v", err)
					}
				})
			}
			callers.Wait()
			proxy.Set(t, vaulttest.Fault{})
			if _, err := v.Sign(t.Context(), []byte("message")); err != nil {
				t.Errorf("it does not sign again: %v", err)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	proxy.Close()
	goleak.VerifyNone(t, before)
}

// TestARefusedSecretIDIsNotTriedAgain: five failures would lock the role out.
func TestARefusedSecretIDIsNotTriedAgain(t *testing.T) {
	role := newAppRole(t)
	check.Must(t, os.WriteFile(role.SecretIDFile, []byte("00000000-0000-0000-0000-000000000000"), 0o600))
	s := open(t, server, vault.Options{Mount: role.name})
	for i := range 10 {
		_, err := s.Key(t.Context(), "key", role)
		if want := map[bool]string{true: "refuses the login", false: "not tried again"}[i == 0]; !unavailable(err) ||
			!strings.Contains(err.Error(), want) {
			t.Fatalf("got %v", err)
		}
	}
	role.deliver(t)
	if _, err := s.Key(t.Context(), "key", role); err != nil {
		t.Errorf("the good secret id does not log in: %v", err)
	}
}

type appRole struct {
	*vault.AppRole
	name string
}

func newAppRole(t *testing.T) appRole {
	t.Helper()
	name := strings.ToLower(rand.Text())
	server.Mount(t, name, "transit", nil)
	server.Write(t, name+"/keys/key", map[string]any{"type": "ed25519"})
	server.TokenFor(t, name, signPolicy(name, "key"), time.Hour) // for its policy
	server.Write(t, "sys/auth/"+name, map[string]any{"type": "approle"})
	server.Write(t, "auth/"+name+"/role/r", map[string]any{"token_policies": name})
	id, err := server.Client(t).Logical().Read("auth/" + name + "/role/r/role-id")
	check.Must(t, err)
	return appRole{
		&vault.AppRole{Mount: name, RoleIDFile: write(t, id.Data["role_id"].(string)),
			SecretIDFile: filepath.Join(t.TempDir(), "secret-id")}, name}
}

func (r appRole) deliver(t *testing.T) {
	t.Helper()
	id := server.Write(t, "auth/"+r.name+"/role/r/secret-id", nil)
	check.Must(t, os.WriteFile(r.SecretIDFile, []byte(id.Data["secret_id"].(string)), 0o600))
}
