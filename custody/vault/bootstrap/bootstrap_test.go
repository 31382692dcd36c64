package bootstrap_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

var server *vaulttest.Server

func TestMain(m *testing.M) {
	os.Exit(vaulttest.Main(m, func(s *vaulttest.Server) { server = s }))
}

func appRoles(dir string) bootstrap.Options {
	return bootstrap.Options{Transit: "transit", Roots: true,
		AppRole: &bootstrap.AppRole{Mount: "approle", Dir: dir, Wrap: time.Hour}}
}

func apply(t *testing.T, o bootstrap.Options) string {
	t.Helper()
	plan, err := bootstrap.New(o)
	check.Must(t, err)
	said, err := applied(t, server.Client(t), plan)
	check.Must(t, err)
	return said
}

func applied(t *testing.T, c *api.Client, plan *bootstrap.Plan) (string, error) {
	t.Helper()
	done, err := plan.Apply(t.Context(), c)
	var said strings.Builder
	for _, d := range done {
		fmt.Fprintln(&said, d)
	}
	return said.String(), err
}

func deliver(t *testing.T, dir, process string) string {
	t.Helper()
	plan, err := bootstrap.Deliver(appRoles(dir), process)
	check.Must(t, err)
	said, err := applied(t, server.Client(t), plan)
	check.Must(t, err)
	return said
}

func TestPrintedCommands(t *testing.T) {
	server.Reset(t)
	dir := filepath.Join(t.TempDir(), "it's a folder")
	plan, err := bootstrap.New(appRoles(dir))
	check.Must(t, err)
	binary, err := vaulttest.Binary()
	check.Must(t, err)
	sh := exec.CommandContext(t.Context(), "sh", "-eu")
	sh.Stdin = strings.NewReader(strings.Join(plan.Commands(), "\n") + "\n")
	sh.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"VAULT_ADDR=" + server.Address, "VAULT_CACERT=" + server.CAFile, "VAULT_TOKEN=" + server.Token}
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := apply(t, appRoles(dir))
	if want := 3 + (len(bootstrap.Roles)+len(bootstrap.Roots)+3)*4 + 3; strings.Count(said, ": is there") != want ||
		strings.Count(said, "\n") != want {
		t.Errorf("it made what the commands did not:\n%s", said)
	}
	for _, r := range bootstrap.Roles {
		signs(t, dir, r)
	}
	if info, err := os.Stat(filepath.Join(dir, "agent_session.secret-id")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func connect(t *testing.T) *vault.Server {
	t.Helper()
	s, err := vault.NewServer(vault.Options{Address: server.Address, CAFile: server.CAFile, Timeout: time.Minute,
		Log: zap.NewNop(), Now: time.Now})
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func signs(t *testing.T, dir string, r bootstrap.Role) *vault.Key {
	t.Helper()
	file := filepath.Join(dir, r.Purpose)
	k := connect(t).Prepare(r.Key, &vault.AppRole{Role: "mediator-" + r.Purpose, RoleIDFile: file + ".role-id",
		SecretIDFile: file + ".secret-id", Wrapped: true})
	check.Must(t, k.Open(t.Context()), sign(t, k))
	return k
}

func sign(t *testing.T, k *vault.Key) error {
	t.Helper()
	version, err := k.Current(t.Context())
	if err == nil {
		_, err = version.Sign(t.Context(), []byte("message")) // verifies it
	}
	return err
}

func TestApply(t *testing.T) {
	server.Reset(t)
	dir := t.TempDir()
	t.Run("an empty Vault", func(t *testing.T) {
		said := apply(t, appRoles(dir))
		wantSaid(t, said, "transit: enabled", "transit/keys/runtime-key: made",
			"policy mediator-agent_session: written",
			"auth/approle: enabled", "auth/approle/role/mediator-request_proof: made",
			"signer_certificate.secret-id: written, to be unwrapped within 1h0m0s")
	})
	t.Run("what was changed is put right", func(t *testing.T) {
		server.Write(t, "transit/keys/session-key/config", map[string]any{"deletion_allowed": true})
		server.Write(t, "sys/policies/acl/mediator-action_grant",
			map[string]any{"policy": `path "*" { capabilities = ["sudo"] }`})
		server.Write(t, "auth/approle/role/mediator-agent_session",
			map[string]any{"token_policies": "root-like", "token_no_default_policy": false})
		server.Write(t, "auth/approle/role/mediator-request_proof",
			map[string]any{"bind_secret_id": false, "secret_id_bound_cidrs": "", "token_bound_cidrs": "127.0.0.0/8",
				"token_period": "768h"})
		check.Must(t, os.Remove(filepath.Join(dir, "policy_decision.secret-id")))
		said := apply(t, appRoles(dir))
		wantSaid(t, said, "transit/keys/session-key: is there, and can no longer be deleted",
			"policy mediator-action_grant: replaced, it was another one",
			"mediator-agent_session: is there, and set again",
			"policy_decision.secret-id: not written, because the role has 1 secret id(s) already; "+
				"mediator vault bootstrap --deliver control makes another")
		role, err := server.Client(t).Logical().ReadWithContext(t.Context(), "auth/approle/role/mediator-request_proof")
		if err != nil || role.Data["bind_secret_id"] != true || fmt.Sprint(role.Data["token_period"]) != "0" {
			t.Errorf("%v, %v", role.Data, err)
		}
		said = deliver(t, dir, "control")
		if strings.Count(said, ": written, to be unwrapped within 1h0m0s\n") != 2 || strings.Count(said, "\n") != 2 {
			t.Error(said)
		}
		for _, r := range bootstrap.Roles {
			for _, l := range signs(t, dir, r).Observe(t.Context(), 0) {
				if l.Result != "holds" {
					t.Errorf("%s: %+v", r.Purpose, l)
				}
			}
		}
	})
	t.Run("an engine elsewhere", func(t *testing.T) {
		o := appRoles(t.TempDir())
		o.Transit, o.Roots = "team/agents", false
		if said := apply(t, o); !strings.Contains(said, "team/agents/keys/runtime-key: made") ||
			strings.Contains(said, "keys/registry") {
			t.Error(said)
		}
		text, err := server.Client(t).Sys().GetPolicy("mediator-runtime_attestation")
		if err != nil || !strings.Contains(text, `path "team/agents/sign/runtime-key"`) ||
			strings.Contains(text, `"transit/`) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

func wantSaid(t *testing.T, said string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q:\n%s", w, said)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	refused := func(t *testing.T, c *api.Client, o bootstrap.Options, want string) {
		t.Helper()
		plan, err := bootstrap.New(o)
		check.Must(t, err)
		if _, err := applied(t, c, plan); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), c.Token()) {
			t.Error(err)
		}
	}
	for name, tt := range map[string]struct {
		path string // the obstacle
		data map[string]any
		want string
	}{
		"an exportable key": {"transit/keys/runtime-key", map[string]any{"type": "ed25519", "exportable": true},
			"and Vault cannot undo that"},
		"a plaintext backup": {"transit/keys/runtime-key", map[string]any{"type": "ed25519", "allow_plaintext_backup": true},
			"and Vault cannot undo that"},
		"another type": {"transit/keys/runtime-key", map[string]any{"type": "ecdsa-p256"}, "not a plain ed25519 key"},
		"another engine": {"sys/mounts/transit", map[string]any{"type": "kv"},
			"has the type kv, not transit: choose another mount"},
		"another auth method": {"sys/auth/approle", map[string]any{"type": "userpass"},
			"has the type userpass, not approle"},
	} {
		t.Run(name, func(t *testing.T) {
			server.Reset(t)
			if strings.HasPrefix(tt.path, "transit/") {
				server.Mount(t, "transit", "transit", nil)
			}
			server.Write(t, tt.path, tt.data)
			refused(t, server.Client(t), appRoles(t.TempDir()), tt.want)
		})
	}
	t.Run("a token that may not", func(t *testing.T) {
		c := server.Client(t)
		c.SetToken(server.TokenFor(t, "nothing", `path "none" { capabilities = ["read"] }`, time.Hour))
		refused(t, c, appRoles(t.TempDir()), "cannot read sys/mounts")
	})
}

func TestNewRefuses(t *testing.T) {
	approle := &bootstrap.AppRole{Mount: "approle", Dir: "secrets", Wrap: time.Minute}
	kubernetes := func(account ...string) *bootstrap.Kubernetes {
		return &bootstrap.Kubernetes{Mount: "kubernetes", Audience: "vault",
			Accounts: map[string][]string{account[0]: {account[1]}}}
	}
	for name, o := range map[string]bootstrap.Options{
		"nothing":         {},
		"no mount":        {AppRole: approle},
		"a shell's words": {Transit: "transit; true", AppRole: approle},
		"no login":        {Transit: "transit"},
		"two logins":      {Transit: "transit", AppRole: approle, Kubernetes: kubernetes("serve", "agents/agent")},
		"no folder":       {Transit: "transit", AppRole: &bootstrap.AppRole{Mount: "approle", Wrap: time.Minute}},
		"no time":         {Transit: "transit", AppRole: &bootstrap.AppRole{Mount: "approle", Dir: "secrets"}},
		"no such process": {Transit: "transit", Kubernetes: kubernetes("agent", "agents/agent")},
		"no roots":        {Transit: "transit", Kubernetes: kubernetes("registry", "agents/agent")},
		"no namespace":    {Transit: "transit", Kubernetes: kubernetes("serve", "agent")},
		"an account more": {Transit: "transit", Kubernetes: &bootstrap.Kubernetes{Mount: "kubernetes",
			Audience: "vault",
			Accounts: map[string][]string{"serve": {"agents/worker", "research/reader"}}}},
		"every account": {Transit: "transit", Kubernetes: kubernetes("serve", "*/*")},
		"no account at all": {Transit: "transit", Kubernetes: &bootstrap.Kubernetes{Mount: "kubernetes",
			Audience: "vault"}},
	} {
		if _, err := bootstrap.New(o); err == nil {
			t.Errorf("%s: a plan was made", name)
		}
	}
}
