package vault_test

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func secrets(t *testing.T, c *clock, name, policy string) *vault.Secrets {
	t.Helper()
	auth := &vault.TokenFile{Path: write(t, server.TokenFor(t, name, policy, time.Hour))}
	return open(t, vault.Options{Now: c.now}).Secrets(auth, "request-proof-key")
}

const selfPolicy = `
path "auth/token/lookup-self" { capabilities = ["read"] }
path "sys/capabilities-self" { capabilities = ["update"] }
`

func wantSecret(t *testing.T, s *vault.Secret, want string) {
	t.Helper()
	if got, err := token(t.Context(), s); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func token(ctx context.Context, s *vault.Secret) (string, error) {
	got, err := s.Read(ctx)
	if err != nil {
		return "", err
	}
	return got.Field("token")
}

func TestSecret(t *testing.T) {
	server.Mount(t, "kv-secret", "kv", map[string]string{"version": "2"})
	put := func(token string) {
		server.Write(t, "kv-secret/data/api", map[string]any{"data": map[string]any{"token": token}})
	}
	c := &clock{t: time.Now()}
	s := secrets(t, c, "kv-secret",
		selfPolicy+`path "kv-secret/data/api" { capabilities = ["read"] }`).Secret("kv-secret/data/api", 0)
	put("one")
	wantSecret(t, s, "one")
	put("two")
	c.add(vault.MaxHeld - time.Nanosecond)
	wantSecret(t, s, "one")
	c.add(time.Nanosecond)
	wantSecret(t, s, "two")

	put("three")
	s.Refused("token", "two") // only just read
	wantSecret(t, s, "two")
	c.add(time.Second)
	s.Refused("token", "one") // the answer to an earlier call
	wantSecret(t, s, "two")
	s.Refused("token", "two")
	wantSecret(t, s, "three")

	// A call that always gets 401 takes the secret from no other while Vault does not give it again.
	const policy = `path "kv-secret/data/api" { capabilities = [%s] }`
	may := func(what string) {
		server.Write(t, "sys/policies/acl/kv-secret", map[string]any{"policy": selfPolicy + fmt.Sprintf(policy, what)})
	}
	may(`"deny"`)
	c.add(10 * time.Second)
	s.Refused("token", "three")
	wantSecret(t, s, "three")
	may(`"read"`)
	put("four")
	s.Refused("token", "three") // only just tried
	wantSecret(t, s, "three")
	put("three")
	may(`"deny"`)
	c.add(vault.MaxHeld)
	if _, err := token(t.Context(), s); err == nil {
		t.Error("a secret is used for longer than it is held")
	}
	may(`"read"`)

	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		if said := fmt.Sprintf(verb, s); said != s.String() {
			t.Errorf("%s prints %s", verb, said)
		}
	}

	var wait sync.WaitGroup
	c.add(vault.MaxHeld)
	for range 50 {
		wait.Go(func() { wantSecret(t, s, "three") })
	}
	wait.Wait()
}

func TestSecretVersion(t *testing.T) {
	server.Mount(t, "kv-versions", "kv", map[string]string{"version": "2"})
	for _, token := range []string{"one", "two", "three"} {
		server.Write(t, "kv-versions/data/api", map[string]any{"data": map[string]any{"token": token}})
	}
	all := secrets(t, &clock{t: time.Now()}, "kv-versions",
		selfPolicy+`path "kv-versions/data/api" { capabilities = ["read"] }
path "kv-first/data/api" { capabilities = ["read"] }`)
	wantSecret(t, all.Secret("kv-versions/data/api", 2), "two")
	wantSecret(t, all.Secret("kv-versions/data/api", 0), "three")
	server.Write(t, "kv-versions/destroy/api", map[string]any{"versions": []int{2}})
	for version, want := range map[int]string{2: "no field token", 4: "nothing at"} {
		_, err := token(t.Context(), all.Secret("kv-versions/data/api", version))
		check.WantCode(t, err, "custody_unavailable", want)
	}

	server.Mount(t, "kv-first", "kv", map[string]string{"version": "1"}) // which ignores the version
	server.Write(t, "kv-first/data/api", map[string]any{"token": "latest"})
	_, err := token(t.Context(), all.Secret("kv-first/data/api", 2))
	check.WantCode(t, err, "custody_unavailable", "no version 2")
}

func TestSecretUnavailable(t *testing.T) {
	server.Mount(t, "kv-bad", "kv", map[string]string{"version": "2"})
	for path, data := range map[string]map[string]any{
		"number": {"token": 7}, "empty": {"token": ""}, "lines": {"token": "a\nb"}, "other": {"password": "x"},
		"long": {"token": strings.Repeat("x", 70<<10)}, "gone": {"token": "x"},
	} {
		server.Write(t, "kv-bad/data/"+path, map[string]any{"data": data})
	}
	_, err := server.Client(t).Logical().DeleteWithContext(t.Context(), "kv-bad/data/gone")
	check.Must(t, err)
	all := secrets(t, &clock{t: time.Now()}, "kv-bad", selfPolicy+`path "kv-bad/data/*" { capabilities = ["read"] }`)
	for path, want := range map[string]string{
		"kv-bad/data/number": "no field token that is a text", "kv-bad/data/empty": "no field token",
		"kv-bad/data/lines": "control character",
		"kv-bad/data/other": "no field token", "kv-bad/data/long": "longer than", "kv-bad/data/gone": "no field token",
		"kv-bad/data/none":      "Vault has nothing at",
		"sys/policies/acl/root": "denies the role of API credentials to read",
		"nowhere/x":             "denies the role of API credentials to read",
	} {
		value, err := token(t.Context(), all.Secret(path, 0))
		if value != "" || !unavailable(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want %s", path, value, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.Secret("kv-bad/data/gone", 0).Read(ctx); err == nil {
		t.Error("a caller that has gone gets a secret")
	}
}

func TestSecretsLook(t *testing.T) {
	c := &clock{t: time.Now()}
	if l := secrets(t, c, "creds-apart", selfPolicy).Look(t.Context(), 0); l.Name != look.Apart ||
		l.Result != look.Holds {
		t.Errorf("%+v", l)
	}
	again := secrets(t, c, "creds-again", selfPolicy)
	for range 2 { // the first one logs in
		if l := again.Look(t.Context(), 0); l.Result != look.Holds {
			t.Errorf("%+v", l)
		}
	}
	err := server.Client(t).Sys().PutPolicyWithContext(t.Context(), "creds-again",
		selfPolicy+`path "sys/policies/acl/*" { capabilities = ["update"] }`)
	check.Must(t, err)
	for _, maxAge := range []time.Duration{0, time.Hour} { // may repeat what was seen, but not from before the first
		if l := again.Look(t.Context(), maxAge); l.Result != look.Contradicts {
			t.Errorf("at most %s old: %+v", maxAge, l)
		}
	}
	l := secrets(t, c, "creds-sign",
		selfPolicy+`path "transit/sign/request-proof-key" { capabilities = ["update"] }`).Look(t.Context(), 0)
	if l.Result != look.Contradicts || !strings.Contains(l.Seen, "update on transit/sign/request-proof-key") {
		t.Errorf("%+v", l)
	}
}

// TestSignRS256 signs with an RSA key, and says why another key or another role cannot.
func TestSignRS256(t *testing.T) {
	server.Mount(t, "transit-apps", "transit", nil)
	server.Write(t, "transit-apps/keys/app", map[string]any{"type": "rsa-2048"})
	server.Write(t, "transit-apps/keys/curve", map[string]any{"type": "ed25519"})
	auth := &vault.TokenFile{Path: write(t, server.TokenFor(t, "sign-apps", selfPolicy+
		`path "transit-apps/sign/app/sha2-256" { capabilities = ["update"] }
path "transit-apps/sign/curve/sha2-256" { capabilities = ["update"] }
path "transit-apps/sign/none/sha2-256" { capabilities = ["update"] }`, time.Hour))}
	all := open(t, vault.Options{Mount: "transit-apps", Now: time.Now}).Secrets(auth, "request-proof-key")
	signature, err := all.SignRS256(t.Context(), "app", []byte("message"))
	check.Must(t, err)
	read, err := server.Client(t).Logical().ReadWithContext(t.Context(), "transit-apps/keys/app")
	check.Must(t, err)
	block, _ := pem.Decode([]byte(read.Data["keys"].(map[string]any)["1"].(map[string]any)["public_key"].(string)))
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	check.Must(t, err)
	hash := sha256.Sum256([]byte("message"))
	check.Must(t, rsa.VerifyPKCS1v15(public.(*rsa.PublicKey), crypto.SHA256, hash[:], signature))
	for key, want := range map[string]string{"curve": "not an RSA key of at least 2048 bits", "none": "cannot sign at",
		"other": "denies the role of API credentials to sign at transit-apps/sign/other/sha2-256 (403)"} {
		_, err := all.SignRS256(t.Context(), key, []byte("message"))
		if !unavailable(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if l := all.Look(t.Context(), 0); l.Result != look.Holds {
		t.Errorf("%+v", l)
	}
}
