package bootstrap_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		AppRole: &bootstrap.AppRole{Mount: "approle", Dir: dir, Wrap: time.Minute}}
}

func apply(t *testing.T, v *vaulttest.Server, o bootstrap.Options) string {
	t.Helper()
	said, err := tryApply(t, v, o)
	check.Must(t, err)
	return said
}

func tryApply(t *testing.T, v *vaulttest.Server, o bootstrap.Options) (string, error) {
	t.Helper()
	plan, err := bootstrap.New(o)
	check.Must(t, err)
	return applied(t, v, plan)
}

func applied(t *testing.T, v *vaulttest.Server, plan *bootstrap.Plan) (string, error) {
	t.Helper()
	done, err := plan.Apply(t.Context(), v.Client(t))
	var said strings.Builder
	for _, d := range done {
		fmt.Fprintln(&said, d)
	}
	return said.String(), err
}

func TestPrintedCommands(t *testing.T) {
	v, dir := vaulttest.New(t), filepath.Join(t.TempDir(), "it's a folder")
	plan, err := bootstrap.New(appRoles(dir))
	check.Must(t, err)
	binary, err := vaulttest.Binary()
	check.Must(t, err)
	sh := exec.CommandContext(t.Context(), "sh", "-eu")
	sh.Stdin = strings.NewReader(strings.Join(plan.Commands(), "\n") + "\n")
	sh.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"VAULT_ADDR=" + v.Address, "VAULT_CACERT=" + v.CAFile, "VAULT_TOKEN=" + v.Token}
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := apply(t, v, appRoles(dir))
	if want := 3 + (len(bootstrap.Roles)+len(bootstrap.Roots))*4; strings.Count(said, ": is there") != want ||
		strings.Count(said, "\n") != want {
		t.Errorf("it made what the commands did not:\n%s", said)
	}
	for _, r := range bootstrap.Roles {
		signs(t, v, dir, r)
	}
	if info, err := os.Stat(filepath.Join(dir, "agent_session.secret-id")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func open(t *testing.T, v *vaulttest.Server, dir string, r bootstrap.Role) (*vault.Key, error) {
	t.Helper()
	s, err := vault.NewServer(vault.Options{Address: v.Address, CAFile: v.CAFile, Log: zap.NewNop(), Now: time.Now})
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	file := filepath.Join(dir, r.Purpose)
	return s.Key(t.Context(), r.Key,
		&vault.AppRole{Role: "mediator-" + r.Purpose, RoleIDFile: file + ".role-id", SecretIDFile: file + ".secret-id",
			Wrapped: true})
}

func signs(t *testing.T, v *vaulttest.Server, dir string, r bootstrap.Role) *vault.Key {
	t.Helper()
	k, err := open(t, v, dir, r)
	if err != nil {
		t.Fatalf("%s: %v", r.Purpose, err)
	}
	version, err := k.Current(t.Context())
	if err == nil {
		_, err = version.Sign(t.Context(), []byte("message")) // verifies it
	}
	if err != nil {
		t.Fatalf("%s: %v", r.Purpose, err)
	}
	return k
}

func TestApply(t *testing.T) {
	v, dir := vaulttest.New(t), t.TempDir()
	t.Run("an empty Vault", func(t *testing.T) {
		said := apply(t, v, appRoles(dir))
		for _, want := range []string{"transit: enabled", "transit/keys/runtime-key: made",
			"policy mediator-agent_session: written", "auth/approle: enabled",
			"auth/approle/role/mediator-request_proof: made",
			"signer_certificate.secret-id: written, to be unwrapped within 1m0s"} {
			if !strings.Contains(said, want) {
				t.Errorf("it does not say %q:\n%s", want, said)
			}
		}
	})
	t.Run("what was changed is put right", func(t *testing.T) {
		v.Write(t, "transit/keys/session-key/config", map[string]any{"deletion_allowed": true})
		v.Write(t, "sys/policies/acl/mediator-action_grant", map[string]any{"policy": `path "*" { capabilities = ["sudo"] }`})
		v.Write(t, "auth/approle/role/mediator-agent_session",
			map[string]any{"token_policies": "root-like", "token_no_default_policy": false})
		v.Write(t, "auth/approle/role/mediator-request_proof",
			map[string]any{"bind_secret_id": false, "secret_id_bound_cidrs": "", "token_bound_cidrs": "127.0.0.0/8",
				"token_period": "768h"})
		check.Must(t, os.Remove(filepath.Join(dir, "policy_decision.secret-id")))
		said := apply(t, v, appRoles(dir))
		for _, want := range []string{"transit/keys/session-key: is there, and can no longer be deleted",
			"policy mediator-action_grant: replaced, it was another one",
			"mediator-agent_session: is there, and set again",
			"policy_decision.secret-id: not written, because the role has 1 secret id(s) already; --deliver control makes " +
				"another"} {
			if !strings.Contains(said, want) {
				t.Errorf("it does not say %q:\n%s", want, said)
			}
		}
		role, err := v.Client(t).Logical().ReadWithContext(t.Context(), "auth/approle/role/mediator-request_proof")
		if err != nil || role.Data["bind_secret_id"] != true || fmt.Sprint(role.Data["token_period"]) != "0" {
			t.Errorf("%v, %v", role.Data, err)
		}
		deliver, err := bootstrap.Deliver(appRoles(dir), "control")
		check.Must(t, err)
		if said, err := applied(t, v, deliver); err != nil ||
			strings.Count(said, ": written, to be unwrapped within 1m0s\n") != 2 || strings.Count(said, "\n") != 2 {
			t.Errorf("%s, %v", said, err)
		}
		for _, r := range bootstrap.Roles {
			for _, l := range signs(t, v, dir, r).Observe(t.Context(), 0) {
				if l.Result != "holds" {
					t.Errorf("%s: %+v", r.Purpose, l)
				}
			}
		}
	})
	t.Run("an engine elsewhere", func(t *testing.T) {
		o := appRoles(t.TempDir())
		o.Transit, o.Roots = "team/agents", false
		if said := apply(t, v, o); !strings.Contains(said, "team/agents/keys/runtime-key: made") ||
			strings.Contains(said, "keys/registry") {
			t.Error(said)
		}
		text, err := v.Client(t).Sys().GetPolicy("mediator-runtime_attestation")
		if err != nil || !strings.Contains(text, `path "team/agents/sign/runtime-key"`) ||
			strings.Contains(text, `"transit/`) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

func TestApplyRefuses(t *testing.T) {
	n := 0
	for name, tt := range map[string]struct {
		path string // the obstacle; MOUNT is the test's mount
		data map[string]any
		want string
	}{
		"an exportable key": {"MOUNT/keys/runtime-key", map[string]any{"type": "ed25519", "exportable": true},
			"which Vault never takes back"},
		"a plaintext backup": {"MOUNT/keys/runtime-key", map[string]any{"type": "ed25519", "allow_plaintext_backup": true},
			"which Vault never takes back"},
		"another type":   {"MOUNT/keys/runtime-key", map[string]any{"type": "ecdsa-p256"}, "not a plain ed25519 key"},
		"another engine": {"sys/mounts/MOUNT", map[string]any{"type": "kv"}, "is of the type kv: choose another mount"},
		"another auth method": {"sys/auth/MOUNT", map[string]any{"type": "userpass"},
			"is of the type userpass and not approle"},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			mount := fmt.Sprintf("m-%d", n)
			if strings.HasPrefix(tt.path, "MOUNT/") {
				server.Mount(t, mount, "transit", nil)
			}
			server.Write(t, strings.Replace(tt.path, "MOUNT", mount, 1), tt.data)
			o := appRoles(t.TempDir())
			o.Transit, o.AppRole.Mount = mount, mount
			if _, err := tryApply(t, server, o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
	t.Run("a token that may not", func(t *testing.T) {
		weak := *server
		weak.Token = server.TokenFor(t, "nothing", `path "none" { capabilities = ["read"] }`, time.Hour)
		if _, err := tryApply(t, &weak, appRoles(t.TempDir())); err == nil ||
			!strings.Contains(err.Error(), "cannot read the mounts") || strings.Contains(err.Error(), weak.Token) {
			t.Error(err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	approle := &bootstrap.AppRole{Mount: "approle", Dir: "secrets", Wrap: time.Minute}
	kubernetes := func(account ...string) *bootstrap.Kubernetes {
		return &bootstrap.Kubernetes{Mount: "kubernetes", Audience: "vault",
			Accounts: map[string]string{account[0]: account[1]}}
	}
	for name, o := range map[string]bootstrap.Options{
		"nothing":           {},
		"no mount":          {AppRole: approle},
		"a shell's words":   {Transit: "transit; true", AppRole: approle},
		"no login":          {Transit: "transit"},
		"two logins":        {Transit: "transit", AppRole: approle, Kubernetes: kubernetes("serve", "agents/agent")},
		"no folder":         {Transit: "transit", AppRole: &bootstrap.AppRole{Mount: "approle", Wrap: time.Minute}},
		"no time":           {Transit: "transit", AppRole: &bootstrap.AppRole{Mount: "approle", Dir: "secrets"}},
		"no such process":   {Transit: "transit", Kubernetes: kubernetes("agent", "agents/agent")},
		"no roots":          {Transit: "transit", Kubernetes: kubernetes("registry", "agents/agent")},
		"no namespace":      {Transit: "transit", Kubernetes: kubernetes("serve", "agent")},
		"every account":     {Transit: "transit", Kubernetes: kubernetes("serve", "*/*")},
		"no account at all": {Transit: "transit", Kubernetes: &bootstrap.Kubernetes{Mount: "kubernetes", Audience: "vault"}},
	} {
		if _, err := bootstrap.New(o); err == nil {
			t.Errorf("%s: a plan was made", name)
		}
	}
}
