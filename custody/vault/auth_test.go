package vault_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
)

func TestAppRole(t *testing.T) {
	t.Run("a wrapped secret id is unwrapped once and used again", func(t *testing.T) {
		s := newSigning(t, time.Hour, time.Hour)
		k := s.mustKey(t)
		for range 3 {
			s.revoke(t)
			check.Must(t, signOnce(t, k))
		}
		s.await(t, "logged in to Vault", 4)
		// The next process needs another secret id: this one was good once.
		wantRefused(t, s, "was unwrapped before")
	})
	t.Run("a wrapping that was stolen", func(t *testing.T) {
		s := newSigning(t, time.Hour, time.Hour)
		stolen, err := os.ReadFile(s.auth.SecretIDFile)
		check.Must(t, err)
		if _, err := server.Client(t).Logical().UnwrapWithContext(t.Context(), string(stolen)); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, s,
			"the wrapped secret id in "+s.auth.SecretIDFile+
				" has expired or was unwrapped before: deliver another one, and unless this process did "+
				"that at an earlier start, find out who did")
		s.deliver(t, s.wrapped(t, "auth/"+s.mount+"/role/signer/secret-id"))
		s.mustKey(t)
	})
	t.Run("a wrapping that was exchanged", func(t *testing.T) {
		s := newSigning(t, time.Hour, time.Hour)
		for _, path := range []string{"auth/" + s.mount + "/role/another/secret-id", "sys/wrapping/wrap"} {
			s.deliver(t, s.wrapped(t, path))
			wantRefused(t, s, "was not made for this role: somebody has exchanged it")
		}
	})
	t.Run("not a wrapping at all", func(t *testing.T) {
		s := newSigning(t, time.Hour, time.Hour)
		s.deliver(t, "8f2a-not-a-wrapping-token")
		wantRefused(t, s, "has expired or was unwrapped before")
		s.deliver(t, " \n")
		wantRefused(t, s, "is empty")
		s.deliver(t, strings.Repeat("x", 70<<10))
		wantRefused(t, s, "is larger than")
		check.Must(t, os.Remove(s.auth.SecretIDFile))
		wantRefused(t, s, "no such file")
	})
	t.Run("a secret id that is not wrapped", func(t *testing.T) {
		s := newSigning(t, time.Hour, time.Hour)
		s.auth.Wrapped = false
		s.deliver(t, s.secretID(t))
		s.mustKey(t)
		s.deliver(t, "8f2a-not-a-secret-id")
		wantRefused(t, s, "Vault refuses the login for key k (400): check its role and what it logs in with")
	})
	t.Run("a secret id that was destroyed, and another one delivered", func(t *testing.T) {
		s := newSigning(t, time.Hour, time.Hour)
		k := s.mustKey(t)
		all, err := server.Client(t).Logical().ListWithContext(t.Context(), "auth/"+s.mount+"/role/signer/secret-id")
		check.Must(t, err)
		for _, accessor := range all.Data["keys"].([]any) {
			server.Write(t, "auth/"+s.mount+"/role/signer/secret-id-accessor/destroy",
				map[string]any{"secret_id_accessor": accessor})
		}
		s.revoke(t)
		if err := signOnce(t, k); err == nil {
			t.Error("signed with a secret id that was destroyed")
		}
		s.deliver(t, s.wrapped(t, "auth/"+s.mount+"/role/signer/secret-id"))
		s.await(t, "logged in to Vault", 2) // the second time by itself
		if err := signOnce(t, k); err != nil {
			t.Error(err)
		}
	})
}

func wantRefused(t *testing.T, s *signing, want string) {
	t.Helper()
	_, err := s.key(t)
	check.WantCode(t, err, "custody_unavailable", want)
	if raw, err2 := os.ReadFile(s.auth.SecretIDFile); err2 == nil && len(strings.TrimSpace(string(raw))) > 0 &&
		strings.Contains(err.Error(), strings.TrimSpace(string(raw))) {
		t.Errorf("it quotes the secret: %v", err)
	}
}
