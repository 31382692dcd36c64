package vault_test

import (
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
