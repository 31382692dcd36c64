package main

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
	"github.com/actionproof/mediator/test/vaulttest"
)

// section is one heading of a page with its commands and its YAML, as they are written.
type section struct {
	title          string
	commands, yaml []string
}

// readPage reads the sections of a page: lines that begin with four spaces outside of fenced blocks are commands.
func readPage(t *testing.T, path string) []section {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	sections := []section{{}}
	fenced, going := false, false
	for line := range strings.Lines(string(raw)) {
		s := &sections[len(sections)-1]
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced {
				s.yaml = append(s.yaml, "")
			}
		case fenced:
			s.yaml[len(s.yaml)-1] += line
		case strings.HasPrefix(line, "#"):
			sections = append(sections, section{title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		case indented && going:
			s.commands[len(s.commands)-1] += command
		case indented:
			s.commands = append(s.commands, command)
		}
		going = indented && strings.HasSuffix(line, "\\\n")
	}
	return sections
}

// TestKeysPage runs docs/operations/keys.md as it is written, from an empty Vault to the audit, with a shell, Vault's own command line and
// the processes. Only where Vault and the processes are is put in.
func TestKeysPage(t *testing.T) {
	v := vaulttest.New(t)
	v.Kubernetes(t)
	vault, err := vaulttest.Binary()
	must(t, err)
	configs, err := filepath.Abs("../../configs")
	must(t, err)

	var custody string
	r := prepareRig(t, []string{trial.PlainHost}, func(r *rig) (http.Handler, string) { return r.github(t), clientRules }, manyPosts)
	bin := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	for link, to := range map[string]string{
		filepath.Join(bin, "mediator"): self, filepath.Join(bin, "vault"): vault, filepath.Join(r.Dir, "configs"): configs,
		filepath.Join(r.Dir, "run", "admin.sock"): filepath.Join(r.Dir, "run", "serve.sock"),
	} {
		must(t, os.Symlink(to, link))
	}
	ca, err := os.ReadFile(v.CAFile)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(r.Dir, "vault-ca.pem"), ca, 0o600))
	must(t, os.WriteFile(filepath.Join(r.Dir, "admin-token"), []byte(v.Token), 0o600))
	run := filepath.Join(r.Dir, "run") + "/"
	// The page's deployment has no node, and this one has: it is one --from more. Posts break off in the drills of this page, so that the audit at its end is of the time before; TestVaultAudit compares posts.
	here := strings.NewReplacer("--since 24h", "--since 24h --until 1h", "https://vault.example:8200", v.Address, " trust/", " ", "--from unix:/run/mediator/control.sock", "--from unix:"+run+"control.sock --from unix:"+run+"reputation.sock", "/run/mediator/", run, "/var/log/vault/", r.Dir+"/")

	start := func(command string) (*exec.Cmd, *strings.Builder) {
		t.Helper()
		var out strings.Builder
		cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", here.Replace(command))
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, &out, &out
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "VAULT_ADDR="+v.Address, "VAULT_CACERT="+v.CAFile, "VAULT_TOKEN="+v.Token, "GITHUB_TOKEN="+trial.Token, "SSL_CERT_FILE="+v.CAFile,
			"MEDIATOR_ADMIN=unix:"+run+"admin.sock")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		must(t, cmd.Start())
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
		for _, name := range []string{devstack.SidecarFile, devstack.TriggerFile, devstack.ControlFile, devstack.ReputationFile} {
			path := filepath.Join(r.Dir, name)
			raw, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte(strings.Replace(string(raw), "custody: {type: memory}\n", here.Replace(custody), 1)), 0o600))
		}
		s := devstack.New(r.Dir)
		_, err := s.PinHashes()
		must(t, err)
		sh(`mediator keys root --name registry --out keys --post-quantum && mediator keys root --name auditor --out keys --post-quantum && cp keys/registry.jwk keys/auditor.jwk .
			mediator deployment certify manifest.yaml --auditor-key keys/auditor.key.jwk --audience posting-api --bundle trust.json`)
		r.Stack = s
		t.Cleanup(s.Stop)
		for _, p := range []struct{ name, config string }{{"trigger", devstack.TriggerFile}, {"control", devstack.ControlFile}, {"reputation", devstack.ReputationFile}, {"serve", devstack.SidecarFile}} {
			must(t, s.StartProcess(p.name, p.config))
		}
		for _, p := range s.Processes {
			must(t, s.WaitFor(t.Context(), p, "/healthz"))
		}
	}
	must(t, os.Mkdir(filepath.Join(r.Dir, "keys"), 0o700))

	want := map[string]string{ // something that a section's commands have to say
		"Bootstrap": "mediator-request_proof", "The roots": "the certificate of deployment", "Certify": "44 controls", "Rotate": "versions of request-proof-key before 2 are retired",
		"Revoke": "key runtime-key:v1 until", "Audit": `"kid": "request-proof-key:v2"`,
	}
	certified := false
	for _, s := range readPage(t, "../../docs/operations/keys.md") {
		said := ""
		if s.title == "The roots" {
			auditors := strings.NewReplacer("signer_certificate", "deployment_certificate", "key: registry", "key: auditor")
			must(t, os.WriteFile(filepath.Join(r.Dir, "registry.yaml"), []byte(here.Replace(s.yaml[0])), 0o600))
			must(t, os.WriteFile(filepath.Join(r.Dir, "auditor.yaml"), []byte(auditors.Replace(here.Replace(s.yaml[0]))), 0o600))
		}
		for _, command := range s.commands {
			if strings.Contains(command, "rotate --all") { // takes ten minutes, and the rest of the page speaks of first versions: TestVaultRotateAll
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
					must(t, r.Stack.WaitFor(t.Context(), p, "/readyz"))
				}
				certified = true
				continue
			}
			out := sh(command)
			t.Logf("%s: %s%s", s.title, command, out)
			said += out
		}
		if s.title == "AppRole" {
			for _, y := range s.yaml {
				custody += y
			}
			startProcesses()
		}
		if text, ok := want[s.title]; ok && !strings.Contains(said, text) {
			t.Errorf("%s: said\n%s\nwithout %q", s.title, said, text)
		}
		if certified && len(s.commands) > 0 {
			a := (&vaultRig{rig: r}).openAgent(t)
			took := until(t, patience, "a post after "+s.title, func() bool { return a.post().code == "" })
			t.Logf("%s: a post goes out after %s", s.title, took.Round(time.Millisecond))
		}
	}
}
