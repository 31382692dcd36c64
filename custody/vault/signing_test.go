package vault_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
)

// signing is a role that signs with the key k, and logs in with a wrapped secret id.
type signing struct {
	mount string
	said  chan string // its log
	vault.Options
	auth *vault.AppRole
}

func newSigning(t *testing.T, ttl, maxTTL time.Duration) *signing {
	t.Helper()
	mount, dir := newTransit(t), t.TempDir()
	server.Write(t, "sys/policies/acl/"+mount,
		map[string]any{"policy": signPolicy(mount, "k") + `path "auth/token/renew-self" { capabilities = ["update"] }`})
	server.Write(t, "sys/auth/"+mount, map[string]any{"type": "approle"})
	for _, role := range []string{"signer", "another"} {
		server.Write(t, "auth/"+mount+"/role/"+role, map[string]any{
			"token_policies": mount, "token_no_default_policy": true, "token_ttl": ttl.String(),
			"token_max_ttl": maxTTL.String(),
		})
	}
	roleID, err := server.Client(t).Logical().ReadWithContext(t.Context(), "auth/"+mount+"/role/signer/role-id")
	check.Must(t, err)
	s := &signing{mount: mount, said: make(chan string, 4096)}
	s.auth = &vault.AppRole{Mount: mount, Role: "signer", RoleIDFile: write(t, roleID.Data["role_id"].(string)),
		SecretIDFile: filepath.Join(dir, "secret-id"), Wrapped: true}
	s.Options = vault.Options{Mount: mount, Log: zap.New(heard{s.said})}
	s.deliver(t, s.wrapped(t, "auth/"+mount+"/role/signer/secret-id"))
	return s
}

type heard struct{ said chan string }

func (heard) Enabled(zapcore.Level) bool          { return true }
func (h heard) With([]zapcore.Field) zapcore.Core { return h }
func (heard) Sync() error                         { return nil }
func (h heard) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, h)
}
func (h heard) Write(e zapcore.Entry, _ []zapcore.Field) error {
	select {
	case h.said <- e.Message:
	default: // the test has ended
	}
	return nil
}

func (s *signing) await(t *testing.T, message string, n int) map[string]int {
	t.Helper()
	count := make(map[string]int)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for count[message] < n {
		select {
		case said := <-s.said:
			count[said]++
		case <-ctx.Done():
			t.Fatalf("%q was not logged %d times: %v", message, n, count)
		}
	}
	return count
}

func (s *signing) wrapped(t *testing.T, path string) string {
	t.Helper()
	c := server.Client(t)
	c.SetWrappingLookupFunc(func(string, string) string { return "5m" })
	secret, err := c.Logical().WriteWithContext(t.Context(), path, map[string]any{"secret_id": "mine"})
	check.Must(t, err)
	return secret.WrapInfo.Token
}

func (s *signing) secretID(t *testing.T) string {
	t.Helper()
	return server.Write(t, "auth/"+s.mount+"/role/signer/secret-id", nil).Data["secret_id"].(string)
}

func (s *signing) deliver(t *testing.T, content string) { replace(t, s.auth.SecretIDFile, content) }

func replace(t *testing.T, path, content string) {
	t.Helper()
	check.Must(t, errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path)))
}

func (s *signing) key(t *testing.T) (*vault.Key, error) {
	t.Helper()
	auth := &vault.AppRole{Mount: s.auth.Mount, Role: s.auth.Role, RoleIDFile: s.auth.RoleIDFile,
		SecretIDFile: s.auth.SecretIDFile, Wrapped: s.auth.Wrapped}
	return open(t, s.Options).Key(t.Context(), "k", auth)
}

func (s *signing) mustKey(t *testing.T) *vault.Key {
	t.Helper()
	k, err := s.key(t)
	if err == nil {
		err = signOnce(t, k)
	}
	check.Must(t, err)
	return k
}

func signOnce(t *testing.T, k custody.Key) error {
	t.Helper()
	v, err := k.Current(t.Context())
	if err == nil {
		_, err = v.Sign(t.Context(), []byte("message")) // verifies it
	}
	return err
}

func signMany(t *testing.T, k custody.Key) (stop func() int64) {
	t.Helper()
	var done atomic.Bool
	var made atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !done.Load() {
				if err := signOnce(t, k); err != nil {
					t.Error(err)
					return
				}
				made.Add(1)
			}
		})
	}
	return func() int64 {
		done.Store(true)
		all.Wait()
		return made.Load()
	}
}

func (s *signing) revoke(t *testing.T) {
	t.Helper()
	server.Write(t, "sys/leases/revoke-prefix/auth/"+s.mount+"/login", nil)
}
