package vault_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/test/vaulttest"
)

func unavailable(err error) bool { return check.CodeOf(err) == "custody_unavailable" }

// TestFaultsLeaveNothing: network faults, impatient callers and a close leave no goroutine.
func TestFaultsLeaveNothing(t *testing.T) {
	proxy := server.NewProxy(t)
	role := newSigning(t, time.Hour, time.Hour)
	before := goleak.IgnoreCurrent()
	s := open(t, vault.Options{Address: proxy.Address, Mount: role.mount})
	k, err := s.Key(t.Context(), "k", role.auth)
	check.Must(t, err)
	for name, f := range map[string]vaulttest.Fault{
		"none": {}, "slow": {Delay: 300 * time.Millisecond}, "500": {Status: http.StatusInternalServerError},
		"429": {Status: http.StatusTooManyRequests},
		"403": {Status: http.StatusForbidden}, "reset": {Reset: true}, "half-closed": {HalfClose: true},
		"expired": {Expired: true}, "refused": {Refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := k.Current(t.Context())
			// after a fault that a reading met
			for began := time.Now(); err != nil && time.Since(began) < time.Minute; {
				time.Sleep(10 * time.Millisecond)
				v, err = k.Current(t.Context())
			}
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
					if healthy := name == "none" || name == "slow"; err == nil != healthy && patience == time.Minute ||
						err != nil && !unavailable(err) {
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
	leaktest.None(t, before)
}

// TestARefusedSecretIDIsNotTriedAgain: five failures would lock the role out.
func TestARefusedSecretIDIsNotTriedAgain(t *testing.T) {
	role := newSigning(t, time.Hour, time.Hour)
	role.auth.Wrapped = false
	proxy := server.NewProxy(t)
	s := open(t, vault.Options{Address: proxy.Address, Mount: role.mount})
	role.deliver(t, role.secretID(t))
	proxy.Set(t, vaulttest.Fault{Status: http.StatusBadRequest}) // a load balancer's
	if _, err := s.Key(t.Context(), "k", role.auth); !unavailable(err) {
		t.Errorf("got %v", err)
	}
	proxy.Set(t, vaulttest.Fault{})
	_, err := s.Key(t.Context(), "k", role.auth)
	for began := time.Now(); err != nil && time.Since(began) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
		_, err = s.Key(t.Context(), "k", role.auth)
	}
	check.Must(t, err)
	role.deliver(t, "00000000-0000-0000-0000-000000000000")
	s = open(t, vault.Options{Mount: role.mount})
	for i := range 10 {
		_, err := s.Key(t.Context(), "k", role.auth)
		if want := map[bool]string{true: "refuses the login", false: "not tried again"}[i == 0]; !unavailable(err) ||
			!strings.Contains(err.Error(), want) {
			t.Fatalf("got %v", err)
		}
	}
	role.deliver(t, role.secretID(t))
	if _, err := s.Key(t.Context(), "k", role.auth); err != nil {
		t.Errorf("the good secret id does not log in: %v", err)
	}
}

func TestNotOpen(t *testing.T) {
	s := open(t, vault.Options{Address: "http://127.0.0.1:1", Timeout: time.Second})
	key := s.Prepare("key", &vault.TokenFile{Path: filepath.Join(t.TempDir(), "none")})
	if v, err := key.Versions(t.Context()); !unavailable(err) {
		t.Errorf("Versions: %v, %v", v, err)
	}
	if v, err := key.Current(t.Context()); !unavailable(err) {
		t.Errorf("Current: %v, %v", v, err)
	}
	if !key.Properties().Exportable {
		t.Error("Properties: not exportable")
	}
	for _, l := range key.Observe(t.Context(), 0) {
		if l.Result == look.Holds {
			t.Errorf("Observe: %+v", l)
		}
	}
}

// A node of a cluster answers this while the cluster elects its active one.
func TestNoActiveNode(t *testing.T) {
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"errors":["local node not active but active cluster node not found"]}`,
			http.StatusInternalServerError)
	}))
	t.Cleanup(fake.Close)
	_, err := open(t, vault.Options{Address: fake.URL}).Key(t.Context(), "k",
		&vault.TokenFile{Path: write(t, "a token")})
	check.WantCode(t, err, "custody_unavailable", "no node of Vault is active")
}
