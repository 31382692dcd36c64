package operation

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestReloadPage runs docs/operations/reload.md as it is written, with a shell and real processes.
func TestReloadPage(t *testing.T) {
	t.Parallel()
	r := &reloadRig{}
	r.Rig = kit.PrepareRig(t, kit.Plain, kit.Serve(r, reloadRules), kit.ManyPosts, ownCA)
	bin := t.TempDir()
	self, err := os.Executable()
	check.Must(t, err)
	for link, to := range map[string]string{filepath.Join(bin, "mediator"): self,
		r.In("run/admin.sock"): r.In("run/serve.sock")} {
		check.Must(t, os.Symlink(to, link))
	}
	here := strings.NewReplacer("/run/mediator/", r.In("run")+"/", " trust/", " ")
	sh := func(command string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", here.Replace(command))
		cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}

	// The set-up of docs/operations/running.md.
	r.Stack = devstack.New(r.Dir)
	_, err = r.Stack.PinHashes()
	check.Must(t, err)
	sh(
		`mkdir -m 0700 keys && mediator keys root --name registry --out keys
		mediator keys root --name auditor --out keys && cp keys/registry.jwk keys/auditor.jwk .
		mediator deployment certify manifest.yaml --auditor-key keys/auditor.key.jwk \
			--audience posting-api --bundle trust.json`)
	t.Cleanup(r.Stack.Stop)
	for _, p := range []struct{ name, config string }{{"trigger", devstack.TriggerFile}, {"control", devstack.ControlFile},
		{"reputation", devstack.ReputationFile}, {"serve", devstack.SidecarFile}} {
		check.Must(t, r.Stack.StartProcess(p.name, p.config))
	}
	for _, p := range r.Stack.Processes {
		check.Must(t, r.Stack.WaitFor(t.Context(), p, "/healthz"))
	}
	sh(
		`mediator keys certify --registry-key keys/registry.key.jwk --audience posting-api --bundle trust.json \
			--not-accessible-to-agent --not-accessible-to-users \
			--from unix:/run/mediator/admin.sock --from unix:/run/mediator/trigger.sock \
			--from unix:/run/mediator/control.sock --from unix:/run/mediator/reputation.sock`)
	for _, p := range r.Stack.Processes {
		check.Must(t, r.Stack.WaitFor(t.Context(), p, "/readyz"))
	}
	a := r.agent(t)
	kit.Until(t, "a first post", func() bool { return note(a).Code == "" }) // until the bundle is taken over
	before := r.readiness(t, "serve")

	r.edit(t, devstack.SidecarFile, "/notes\", methods: [GET]", "/notes\", methods: [GET, HEAD]")
	r.edit(t, devstack.PolicyFile, "request.size > 4", "request.size > 5")
	want := map[string]string{ // something that a section's commands have to say
		"Change": "mediator.yaml: a correct sidecar", "Certify": "0 issues", "Reload": "admin.sock: reloaded: configuration ",
		"See": `"ready":true`,
	}
	for _, s := range kit.ReadPage(t, "../../../docs/operations/reload.md") {
		said := ""
		for _, command := range s.Commands {
			out := sh(command)
			t.Logf("%s: %s%s", s.Title, command, out)
			said += out
		}
		if text := want[s.Title]; !strings.Contains(said, text) {
			t.Errorf("%s: said\n%s\nwithout %q", s.Title, said, text)
		}
		delete(want, s.Title)
		wantTunnel(t, a, http.MethodPost, "/notes", "")
	}
	if len(want) > 0 {
		t.Errorf("the page lacks %v", want)
	}
	if after := r.readiness(t, "serve"); after.Manifest == before.Manifest ||
		after.Configuration == before.Configuration || after.Refused != nil {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
