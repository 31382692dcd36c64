package pages

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestKeysPage runs docs/operations/keys.md as it is written, from an empty Vault to the audit, with a shell, Vault's
// command line and the processes.
func TestKeysPage(t *testing.T) {
	t.Parallel()
	v := kit.Vault(t)
	v.Kubernetes(t)
	configs, err := filepath.Abs("../../../configs")
	check.Must(t, err)

	r := kit.PrepareClientsRig(t, kit.ManyPosts)
	check.Must(t, errors.Join(os.Symlink(configs, r.In("configs")), os.Mkdir(r.In("keys"), 0o700)))
	kit.Write(t, r.In("vault-ca.pem"), kit.Read(t, v.CAFile))
	kit.Write(t, r.In("admin-token"), v.Token)
	run := r.In("run") + "/"
	// The page's deployment has no node, so this one needs one --from more. The drills interrupt posts, so the audit at
	// the end covers the time before; TestVaultAudit compares posts.
	here := strings.NewReplacer("--since 24h", "--since 24h --until 1h", "https://vault.example:8200", v.Address,
		" trust/", " ", "--from unix:/run/mediator/control.sock",
		"--from unix:"+run+"control.sock --from unix:"+run+"reputation.sock", "/run/mediator/", run, "/var/log/vault/",
		r.Dir+"/")
	sh := r.NewShell(t, here, "VAULT_ADDR="+v.Address, "VAULT_CACERT="+v.CAFile, "VAULT_TOKEN="+v.Token,
		"GITHUB_TOKEN="+trial.Token, "SSL_CERT_FILE="+v.CAFile, "MEDIATOR_ADMIN=unix:"+run+"admin.sock")

	want := map[string]string{ // something that a section's commands have to say
		"Bootstrap": "mediator-request_proof", "The roots": "the certificate of deployment", "Certify": "44 controls",
		"Rotate": "versions of request-proof-key before 2 are retired",
		"Revoke": "key runtime-key:v1 until", "Audit": `"kid": "request-proof-key:v2"`,
	}
	certified := false
	for _, s := range kit.ReadPage(t, "../../../docs/operations/keys.md") {
		if s.Title == "The roots" {
			auditors := strings.NewReplacer("signer_certificate", "deployment_certificate", "key: registry", "key: auditor")
			kit.Write(t, r.In("registry.yaml"), here.Replace(s.YAML[0]))
			kit.Write(t, r.In("auditor.yaml"), auditors.Replace(here.Replace(s.YAML[0])))
		}
		said := sh.RunSection(t, s, func(command string) bool {
			if strings.Contains(command, "--watch") {
				cmd, out := sh.Start(t, command)
				t.Cleanup(func() {
					_ = cmd.Process.Signal(syscall.SIGTERM)
					_ = cmd.Wait()
					t.Logf("the registry:\n%s", out)
				})
				for _, p := range r.Stack.Processes {
					check.Must(t, r.Stack.WaitFor(t.Context(), p, "/readyz"))
				}
				certified = true
				return true
			}
			// takes ten minutes, and the rest of the page speaks of first versions: TestVaultRotateAll
			return strings.Contains(command, "rotate --all")
		})
		if s.Title == "AppRole" {
			for _, name := range []string{devstack.SidecarFile, devstack.TriggerFile, devstack.ControlFile,
				devstack.ReputationFile} {
				kit.Edit(t, r.In(name), "custody: {type: memory}\n", here.Replace(strings.Join(s.YAML, "")))
			}
			r.StartByHand(t, sh)
		}
		if text, ok := want[s.Title]; ok && !strings.Contains(said, text) {
			t.Errorf("%s: said\n%s\nwithout %q", s.Title, said, text)
		}
		if certified && len(s.Commands) > 0 {
			a := r.OpenAgent(t)
			took := kit.Until(t, "a post after "+s.Title, func() bool { return a.Post().Code == "" })
			t.Logf("%s: a post goes out after %s", s.Title, took.Round(time.Millisecond))
		}
	}
}
