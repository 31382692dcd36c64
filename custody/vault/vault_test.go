package vault_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/custodytest"
	"github.com/actionproof/mediator/test/vaulttest"
)

var server *vaulttest.Server

func TestMain(m *testing.M) {
	os.Exit(vaulttest.Main(m, func(s *vaulttest.Server) { server = s }))
}

func signPolicy(mount, key string) string {
	return fmt.Sprintf(`
path "%[1]s/keys/%[2]s" { capabilities = ["read"] }
path "%[1]s/sign/%[2]s" { capabilities = ["update"] }
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
path "sys/capabilities-self" { capabilities = ["update"] }
`, mount, key)
}

var mounts atomic.Int64

func newKey(t testing.TB) (mount string, auth *vault.TokenFile) {
	t.Helper()
	mount = newTransit(t)
	return mount, &vault.TokenFile{Path: write(t, server.TokenFor(t, mount, signPolicy(mount, "k"), time.Hour))}
}

func newTransit(t testing.TB) string {
	t.Helper()
	mount := fmt.Sprintf("transit-%d", mounts.Add(1))
	server.Mount(t, mount, "transit", nil)
	server.Write(t, mount+"/keys/k", map[string]any{"type": "ed25519"})
	return mount
}

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
	return path
}

func open(t testing.TB, o vault.Options) *vault.Server {
	t.Helper()
	o.Address, o.Timeout = cmp.Or(o.Address, server.Address), cmp.Or(o.Timeout, time.Minute)
	o.CAFile, o.Log = server.CAFile, cmp.Or(o.Log, zap.NewNop())
	if o.Now == nil {
		o.Now = time.Now
	}
	s, err := vault.NewServer(o)
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type rotator struct {
	*vault.Key
	rotate func() error
}

func (r rotator) Rotate() error { return r.rotate() }

func TestKey(t *testing.T) {
	custodytest.Run(t, func(t *testing.T, name string) custodytest.Rotator {
		mount := newTransit(t)
		server.Write(t, mount+"/keys/"+name, map[string]any{"type": "ed25519"})
		token := server.TokenFor(t, mount, signPolicy(mount, name), time.Hour)
		k, err := open(t, vault.Options{Mount: mount}).Key(t.Context(), name, &vault.TokenFile{Path: write(t, token)},
			"another-key")
		check.Must(t, err)
		return rotator{k, func() error {
			_, err := server.Client(t).Logical().WriteWithContext(t.Context(), mount+"/keys/"+name+"/rotate", nil)
			return errors.Join(err, k.Read(t.Context()))
		}}
	})
}
