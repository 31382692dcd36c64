package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// TestDoctor checks the demo's deployment against its manifest, opens it to the agent in several ways, and sees posts
// refused while it is open.
func TestDoctor(t *testing.T) {
	t.Parallel()
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("only root can start an agent as a user of its own: run the tests as root")
	}
	r := kit.NewClientsRig(t)
	// closed to others as they are made, which would hide what is below
	for _, dir := range []string{r.Dir, filepath.Dir(r.Dir), r.In("secrets")} {
		check.Must(t, os.Chmod(dir, 0o711))
	}
	check.Must(t, os.Chown(r.In("secrets/api-token"), 0, r.User)) // the group that mediator run gives the agent
	post := func() string {
		out, err := r.AsAgent(t, kit.Need(t, "curl"), "-sS", "--fail-with-body", "-H", "Content-Type: application/json", "-d",
			`{"body":"x"}`, "https://"+r.Plain()+"/repos/acme/site/issues/7/comments")
		if err != nil {
			t.Logf("%v\n%s", err, out)
			return "refused"
		}
		return "posted"
	}
	status, text, controls := r.Doctor(t)
	if status != 0 || len(controls[policy.ObservedFalse]) > 0 || len(controls[policy.ObservedTrue]) < 25 ||
		!strings.Contains(text, "44 controls: ") {
		t.Fatalf("status %d, %d observed true\n%s", status, len(controls[policy.ObservedTrue]), text)
	}
	if post() != "posted" {
		t.Fatal("a sound deployment does not post")
	}
	for _, tt := range []struct {
		name, path string
		mode, back os.FileMode
		controls   string
	}{
		{"a credential that the agent can read", "secrets/api-token", 0o644, 0o600, "runtimeSignerAccessibleToAgent"},
		{"a credential that the agent's own group can read", "secrets/api-token", 0o640, 0o600,
			"runtimeSignerAccessibleToAgent"},
		{"a pinned key that the agent can change", "registry.jwk", 0o666, 0o644, "policyDecisionSignerAccessibleToAgent"},
		{"a socket that the agent can replace", "run", 0o777, 0o711, "triggerSignerAccessibleToAgent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := r.In(tt.path)
			check.Must(t, os.Chmod(path, tt.mode))
			status, text, controls := r.Doctor(t)
			if status != program.Refused || !strings.Contains(strings.Join(controls[policy.ObservedFalse], " "), tt.controls) {
				t.Errorf("status %d\n%s", status, text)
			}
			if post() != "refused" {
				t.Error("a post went out")
			}
			var posts []ledger.Record
			if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?limit=1&flow=post", &posts); err != nil ||
				posts[0].Code != "deployment_contradicted" {
				t.Errorf("%d records, the last with code %q, %v", len(posts), posts[0].Code, err)
			}
			untilReadyz(t, r, "deployment_contradicted")
			check.Must(t, os.Chmod(path, tt.back))
			if status, text, _ = r.Doctor(t); status != 0 || post() != "posted" {
				t.Errorf("it does not recover: status %d\n%s", status, text)
			}
			untilReadyz(t, r, "")
		})
	}
	r.StopProcess(t, "reputation")
	if status, text, controls := r.Doctor(t); status != program.Refused || len(controls[policy.ObservedFalse]) > 0 ||
		!strings.Contains(text, "mediator: mediator reputation does not say what it observes") {
		t.Errorf("without the node: status %d\n%s", status, text)
	}
	if post() != "posted" {
		t.Error("no post goes out while the node is away")
	}
	check.Must(t, r.Stack.StartProcess("reputation", devstack.ReputationFile))
	// with a new key, which the registry certifies
	check.Must(t, r.Stack.WaitFor(t.Context(), r.Process("reputation"), "/readyz"))
	kit.Until(t, "doctor to be content with the node, which has the receipts of meanwhile", func() bool {
		status, text, _ := r.Doctor(t)
		return status == 0 && strings.Contains(text, "in order       0 not handed over")
	})
	r.StopProcess(t, "control")
	if status, text, controls := r.Doctor(t); status != program.Refused || len(controls[policy.ObservedFalse]) > 0 ||
		!strings.Contains(text, "mediator: mediator control does not say what it observes") {
		t.Errorf("without the control plane: status %d\n%s", status, text)
	}
	untilReadyz(t, r, "process_unavailable")
	r.StopProcess(t, "trigger")
	untilReadyz(t, r, "process_unavailable")
}

// untilReadyz waits until /readyz of the sidecar says that posts are refused with this code, or not at all.
func untilReadyz(t *testing.T, r *kit.Rig, code string) {
	t.Helper()
	kit.Until(t, "/readyz to say what a post meets: "+code, func() bool {
		err := admin.Get(t.Context(), r.Stack.Admin(), "/readyz", nil)
		return code == "" && err == nil || code != "" && err != nil && strings.Contains(err.Error(), "("+code+")")
	})
}

// TestWithoutNode: a deployment without a node needs none.
func TestWithoutNode(t *testing.T) {
	t.Parallel()
	r := kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		return r.GitHub(t), kit.ClientRules
	}, func(file string) string {
		return strings.Replace(file, "\nreputation: ", "\n# reputation: ", 1)
	})
	check.Must(t, os.Remove(r.In(devstack.ReputationFile)))
	r.Start(t)
	if p := r.Process("reputation"); p != nil {
		t.Error("a node runs")
	}
	status, text, controls := r.Doctor(t)
	if status != 0 || len(controls[policy.ObservedFalse]) > 0 || strings.Contains(text, "reputation") ||
		strings.Contains(text, "appraiser") {
		t.Errorf("status %d\n%s", status, text)
	}
	if o := r.OpenAgent(t).Post(); o.Code != "" {
		t.Errorf("%+v", o)
	}
}

// TestAProcessDoesNotStart while the agent could reach it.
func TestAProcessDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(context.Context, string, io.Writer) error{devstack.SidecarFile: sidecar.Run,
		devstack.TriggerFile: trigger.Run, devstack.ControlFile: control.Run, devstack.ReputationFile: node.Run} {
		for user, uid := range map[string]int{"its own user": os.Geteuid(), "root": 0} {
			t.Run(name+" for "+user, func(t *testing.T) {
				d := &trial.Deployment{Dir: t.TempDir(), Listen: "127.0.0.1:0", Hooks: "127.0.0.1:0", AwareAddr: "127.0.0.1:1",
					PlainAddr: "127.0.0.1:2"}
				content := d.Files(trial.Rules)
				content[name] = append(bytes.Replace(content[name], []byte(fmt.Sprintf("agent: {uid: %d}", trial.User())), nil, 1),
					fmt.Sprintf("\nagent: {uid: %d}\n", uid)...)
				check.Must(t,
					errors.Join(devstack.Prepare(d.Dir, content),
						files.WriteAbsent(filepath.Join(d.Dir, "secrets", "api-token"), []byte(trial.Token)),
						trial.WriteCertificates(d.Dir)))
				ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
				defer cancel()
				err := start(ctx, filepath.Join(d.Dir, name), io.Discard)
				if err == nil || daemon.CodeOf(err) != " (deployment_contradicted)" {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
