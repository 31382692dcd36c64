package custody

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/vaulttest"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) has(what string) bool { return l.count(what) > 0 }

func (l *lockedBuffer) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// The process says once what it waits for, becomes ready by itself, and logs in once, with a secret id that can be
// unwrapped once.
func TestStartBeforeVault(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	const policy = "sys/policies/acl/mediator-policy_decision"
	network := func(f vaulttest.Fault) func() { return func() { v.proxy.Set(t, f) } }
	well := network(vaulttest.Fault{})
	must := func(do func() error) func() { return func() { check.Must(t, do()) } }
	for _, tt := range []struct {
		name         string
		strike, mend func()
		said         string
	}{
		{"sealed", must(v.vault.Seal), must(v.vault.Unseal), "Vault is sealed (503)"},
		{"frozen", must(v.vault.Freeze), must(v.vault.Thaw), "Vault does not answer in time"},
		{"not there", network(vaulttest.Fault{Refuse: true}), well, "Vault cannot be reached"},
		{"resets connections", network(vaulttest.Fault{Reset: true}), well, "Vault cannot be reached"},
		{"answers 500", network(vaulttest.Fault{Status: http.StatusInternalServerError}), well, "Vault fails (500)"},
		{"answers 429", network(vaulttest.Fault{Status: http.StatusTooManyRequests}), well,
			"Vault has too many requests (429)"},
		{"its certificate expired", network(vaulttest.Fault{Expired: true}), well, "certificate has expired"},
		{"denies the key", func() {
			v.vault.Write(t, policy, map[string]any{"policy": "# nothing"})
		}, func() { v.apply(t) }, "Vault denies it to this role (403)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.redeliver(t)
			d := v.unstarted(t, v.config)
			tt.strike()
			ctx, stop := context.WithCancel(t.Context())
			var log lockedBuffer
			ended := make(chan error, 1)
			process := kit.OneProcess(ctx, d, "control")
			process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
			process.Stderr = &log
			go func() { ended <- process.Run() }()
			kit.Until(t, "the log to say "+tt.said, func() bool {
				return log.has("not ready: waiting for Vault") && log.has(tt.said)
			})
			tt.mend()
			took := kit.Until(t, "the process to publish its keys", func() bool {
				var roles []daemon.RoleDocument
				return admin.Get(ctx, "unix:"+filepath.Join(d.Dir, "run", "control.sock"), "/v1/roles", &roles) == nil &&
					len(roles) == 2
			})
			t.Logf("its keys are published after %s", took.Round(time.Millisecond))
			if n := log.count(`"msg":"logged in to Vault","for":"key policy-decision-key"`); n != 1 {
				t.Errorf("it logged in %d times", n)
			}
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !log.has("stopped while waiting") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A process that refuses its files must not use up its wrapped secret id.
func TestStartSparesSecretIDs(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	unused := func(t *testing.T) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(v.auth, "*.secret-id"))
		check.Must(t, err)
		for _, file := range files {
			wrapping := kit.Read(t, file)
			lookup := map[string]any{"token": strings.TrimSpace(string(wrapping))}
			if _, err := v.vault.Client(t).Logical().Write("sys/wrapping/lookup", lookup); err != nil {
				t.Errorf("%s is used up: %v", filepath.Base(file), err)
			}
		}
	}
	junk := []byte("this is neither a key nor a database")
	for _, tt := range []struct {
		name, process string
		change        map[string][]byte // nil removes a file
		said          string
	}{
		{"another environment is pinned", "serve", nil, "pin_mismatch"},
		{"other rules are pinned", "control", nil, "pin_mismatch"},
		{"no root key for the trigger service", "trigger", map[string][]byte{devstack.RegistryFile: junk}, "pinned root key"},
		{"no root key for the node", "reputation", map[string][]byte{devstack.RegistryFile: junk}, "pinned root key"},
		{"a ledger that is none", "serve", map[string][]byte{devstack.ManifestFile: nil, "state/ledger.db": junk},
			"the ledger of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pins := regexp.MustCompile(`(required(?:Policy|Environment)Hash: ).*`)
			d := v.unstarted(t, func(file string) string {
				return pins.ReplaceAllString(v.config(file), `${1}"`+strings.Repeat("0", 64)+`"`)
			})
			for name, content := range tt.change {
				_ = os.Remove(filepath.Join(d.Dir, name)) // most are not there
				if content != nil {
					kit.Write(t, filepath.Join(d.Dir, name), content)
				}
			}
			wantNoStart(t, d, tt.process, tt.said)
			unused(t)
		})
	}
}
