package pages

import (
	_ "embed"
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
	"github.com/actionproof/mediator/test/full"
)

// asPageSays prepares an empty machine with the program, apart from the one that the test runs on.
//
//go:embed testdata/running.sh
var asPageSays string

//go:embed testdata/examples.sh
var theExamples string

func TestRunningPage(t *testing.T) {
	t.Parallel()
	full.Only(t, "root, curl, useradd, setpriv, overlayfs")
	configs, err := filepath.Abs("../../../configs")
	check.Must(t, err)
	var pin string
	for _, s := range kit.ReadPage(t, "../../../docs/operations/reload.md") {
		if s.Title == "Pin" {
			pin = strings.Join(s.Commands, "\n")
		}
	}
	script := asPageSays
	for _, command := range kit.ReadPage(t, "../../../docs/operations/running.md")[1].Commands {
		command = strings.TrimSpace(command)
		switch {
		case strings.HasPrefix(command, "setpriv "):
			script += command + " >>/run/log 2>&1 &\n"
		case strings.HasPrefix(command, "sed "): // step 3, and step 4 after it
			script += theExamples + command + "\nmediator config check *.yaml\n" + pin
		case strings.HasPrefix(command, "mediator keys certify "):
			script += "for p in admin trigger control; do until_it test -S /run/mediator/$p.sock; done\n" + command + "\n"
			script += "for p in admin trigger control; do until_it curl -sf --unix-socket /run/mediator/$p.sock -o /dev/null " +
				"http://mediator/readyz; done\n"
		case strings.HasPrefix(command, "eval "):
			script += "send() { echo \"{\\\"action\\\": \\\"published\\\", \\\"n\\\": $1}\" >/run/event.json && mediator " +
				"events send github /run/event.json --config trigger.yaml; }\n" +
				"send 1 && mediator run -- curl -s http://mediator.internal/v1/rules\n" +
				"send 2 && setpriv --reuid=agent --regid=agent --clear-groups bash -ec '" + command +
				"\ncurl -s \"http://mediator.internal/v1/event/next?wait=30s\"'\n"
		default:
			script += command + "\n"
		}
	}
	script += "mediator doctor | grep -A2 ' agentSessionSignerAccessibleToAgent:'\n"

	out, err := apart(t, ".", "", []string{"T=" + t.TempDir(), "SELF=" + kit.Self(t), "CONFIGS=" + configs,
		"PATH=/usr/local/bin:" + os.Getenv("PATH")}, kit.Need(t, "bash"), "-euo", "pipefail", "-c", script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantSaid(t, out, "trigger.yaml: a correct trigger service", "0 issues", "certified 8 keys into trust/trust.json",
		`"rules":[{"name":"github-comment"`, `"evidenceId"`,
		"observed true  agentSessionSignerAccessibleToAgent: false")
}

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
