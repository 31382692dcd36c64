package vault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

func TestHealth(t *testing.T) {
	role, proxy := newSigning(t, time.Hour, time.Hour), server.NewProxy(t)
	s := open(t, vault.Options{Address: proxy.Address, Mount: role.mount, Refresh: time.Hour})
	if h := s.Health(); !h.CertificateUntil.IsZero() || len(h.Logins) != 0 {
		t.Errorf("before anything was asked: %+v", h)
	}
	k, err := s.Key(t.Context(), "k", role.auth)
	check.Must(t, err)
	want := func(reachable bool) {
		t.Helper()
		h := s.Health()
		if len(h.Logins) != 1 || h.Logins[0].For != "key k" || h.Logins[0].Reachable != reachable ||
			!h.Logins[0].Until.After(time.Now()) || !h.CertificateUntil.After(time.Now()) {
			t.Errorf("%+v", h)
		}
	}
	want(true)
	proxy.Set(t, vaulttest.Fault{Refuse: true})
	if k.Read(t.Context()) == nil {
		t.Error("it was read")
	}
	want(false)
	proxy.Set(t, vaulttest.Fault{})
	check.Must(t, k.Read(t.Context()))
	want(true)
	v, err := k.Current(t.Context())
	if err != nil || time.Since(v.Made()).Abs() > time.Hour {
		t.Errorf("the version was made at %s, %v", v.Made(), err)
	}
}

// A key that can be read but may not sign is not reachable, also while nobody asks for a signature.
func TestHealthDenied(t *testing.T) {
	const renew = `path "auth/token/renew-self" { capabilities = ["update"] }`
	for _, tt := range []struct {
		name         string
		strike, mend func(*testing.T, *vault.Key)
	}{
		{"a refused signature", func(t *testing.T, k *vault.Key) {
			if signOnce(t, k) == nil {
				t.Error("it signs")
			}
			check.Must(t, k.Read(t.Context()))
			k.Observe(t.Context(), time.Minute)
		}, func(t *testing.T, k *vault.Key) { check.Must(t, signOnce(t, k)) }},
		{"an observation", func(t *testing.T, k *vault.Key) { k.Observe(t.Context(), 0) },
			func(t *testing.T, k *vault.Key) { k.Observe(t.Context(), 0) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			role := newSigning(t, time.Hour, time.Hour)
			s := open(t, role.Options)
			k, err := s.Key(t.Context(), "k", role.auth)
			check.Must(t, err)
			k.Observe(t.Context(), 0)
			may := func(policy string) {
				server.Write(t, "sys/policies/acl/"+role.mount, map[string]any{"policy": policy + renew})
			}
			reachable := func() bool { return s.Health().Logins[0].Reachable }
			check.WantEqual(t, reachable(), true)
			may(strings.ReplaceAll(signPolicy(role.mount, "k"), role.mount+"/sign/", role.mount+"/hmac/"))
			tt.strike(t, k)
			check.WantEqual(t, reachable(), false)
			may(signPolicy(role.mount, "k"))
			tt.mend(t, k)
			check.WantEqual(t, reachable(), true)
		})
	}
}
