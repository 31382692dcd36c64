package pages

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/vaulttest"
)

// TestKeysPage runs docs/operations/keys.md as it is written, from an empty Vault to the audit, with a shell, Vault's
// command line and the processes.
func TestKeysPage(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	v.Kubernetes(t)
	vault, err := vaulttest.Binary()
	check.Must(t, err)
	configs, err := filepath.Abs("../../../configs")
	check.Must(t, err)

	var custody string
	r := kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		return r.GitHub(t), kit.ClientRules
	}, kit.ManyPosts)
	bin := t.TempDir()
	self, err := os.Executable()
	check.Must(t, err)
	for link, to := range map[string]string{
		filepath.Join(bin, "mediator"): self, filepath.Join(bin, "vault"): vault, r.In("configs"): configs,
		r.In("run/admin.sock"): r.In("run/serve.sock"),
	} {
		check.Must(t, os.Symlink(to, link))
	}
	ca := kit.Read(t, v.CAFile)
	check.Must(t, os.WriteFile(r.In("vault-ca.pem"), ca, 0o600))
	kit.Write(t, r.In("admin-token"), v.Token)
	run := r.In("run") + "/"
	// The page's deployment has no node, so this one needs one --from more. The drills interrupt posts, so the audit at
	// the end covers the time before; TestVaultAudit compares posts.
	here := strings.NewReplacer("--since 24h", "--since 24h --until 1h", "https://vault.example:8200", v.Address,
		" trust/", " ", "--from unix:/run/mediator/control.sock",
		"--from unix:"+run+"control.sock --from unix:"+run+"reputation.sock", "/run/mediator/", run, "/var/log/vault/",
		r.Dir+"/")

	start := func(command string) (*exec.Cmd, *strings.Builder) {
		t.Helper()
		var out strings.Builder
		cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", here.Replace(command))
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, &out, &out
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "VAULT_ADDR="+v.Address, "VAULT_CACERT="+v.CAFile,
			"VAULT_TOKEN="+v.Token, "GITHUB_TOKEN="+trial.Token, "SSL_CERT_FILE="+v.CAFile,
			"MEDIATOR_ADMIN=unix:"+run+"admin.sock")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		check.Must(t, cmd.Start())
		return cmd, &out
	}
	sh := func(command string) string {
		t.Helper()
		cmd, out := start(command)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return out.String()
	}
	// startProcesses is what docs/operations/running.md says, with the page's custody in each configuration.
	startProcesses := func() {
		t.Helper()
		for _, name := range []string{devstack.SidecarFile, devstack.TriggerFile, devstack.ControlFile,
			devstack.ReputationFile} {
			path := r.In(name)
			raw := kit.Read(t, path)
			check.Must(t,
				os.WriteFile(path, []byte(strings.Replace(string(raw), "custody: {type: memory}\n", here.Replace(custody), 1)),
					0o600))
		}
		s := devstack.New(r.Dir)
		_, err := s.PinHashes()
		check.Must(t, err)
		sh(
			`mediator keys root --name registry --out keys --post-quantum
			mediator keys root --name auditor --out keys --post-quantum && cp keys/registry.jwk keys/auditor.jwk .
			mediator deployment certify manifest.yaml --auditor-key keys/auditor.key.jwk \
				--audience posting-api --bundle trust.json`)
		r.Stack = s
		t.Cleanup(s.Stop)
		for _, p := range []struct{ name, config string }{{"trigger", devstack.TriggerFile},
			{"control", devstack.ControlFile}, {"reputation", devstack.ReputationFile}, {"serve", devstack.SidecarFile}} {
			check.Must(t, s.StartProcess(p.name, p.config))
		}
		for _, p := range s.Processes {
			check.Must(t, s.WaitFor(t.Context(), p, "/healthz"))
		}
	}
	check.Must(t, os.Mkdir(r.In("keys"), 0o700))

	want := map[string]string{ // something that a section's commands have to say
		"Bootstrap": "mediator-request_proof", "The roots": "the certificate of deployment", "Certify": "44 controls",
		"Rotate": "versions of request-proof-key before 2 are retired",
		"Revoke": "key runtime-key:v1 until", "Audit": `"kid": "request-proof-key:v2"`,
	}
	certified := false
	for _, s := range kit.ReadPage(t, "../../../docs/operations/keys.md") {
		said := ""
		if s.Title == "The roots" {
			auditors := strings.NewReplacer("signer_certificate", "deployment_certificate", "key: registry", "key: auditor")
			kit.Write(t, r.In("registry.yaml"), here.Replace(s.YAML[0]))
			kit.Write(t, r.In("auditor.yaml"), auditors.Replace(here.Replace(s.YAML[0])))
		}
		for _, command := range s.Commands {
			// takes ten minutes, and the rest of the page speaks of first versions: TestVaultRotateAll
			if strings.Contains(command, "rotate --all") {
				continue
			}
			if strings.Contains(command, "--watch") {
				cmd, out := start(command)
				t.Cleanup(func() {
					_ = cmd.Process.Signal(syscall.SIGTERM)
					_ = cmd.Wait()
					t.Logf("the registry:\n%s", out)
				})
				for _, p := range r.Stack.Processes {
					check.Must(t, r.Stack.WaitFor(t.Context(), p, "/readyz"))
				}
				certified = true
				continue
			}
			out := sh(command)
			t.Logf("%s: %s%s", s.Title, command, out)
			said += out
		}
		if s.Title == "AppRole" {
			for _, y := range s.YAML {
				custody += y
			}
			startProcesses()
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
