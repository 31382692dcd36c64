package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestDoctor opens a deployment to the agent in several ways. Posts are refused while it is open.
func TestDoctor(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
	r := kit.NewClientsRig(t)
	// closed as they are made, the folders would hide what is below
	kit.OpenTo(t, r.In("secrets"))
	check.Must(t, os.Chown(r.In("secrets/api-token"), 0, r.User)) // the group that mediator run gives the agent
	post := func() string {
		out, err := r.AsAgent(t, kit.Need(t, "curl"), "-sS", "--fail-with-body", "-H", "Content-Type: application/json", "-d",
			kit.Comment, "https://"+r.Plain()+kit.Comments)
		if err != nil {
			t.Logf("%v\n%s", err, out)
			return "refused"
		}
		return "posted"
	}
	kit.Until(t, "doctor to find the deployment sound", func() bool { // a process may be late with what it observes
		doctor, controls := r.Doctor(t)
		return doctor.Status == 0 && strings.Contains(doctor.Out, "44 controls: ") &&
			len(controls[policy.ObservedFalse]) == 0 && len(controls[policy.ObservedTrue]) >= 25
	})
	if post() != "posted" {
		t.Fatal("a sound deployment does not post")
	}
	for _, tt := range []struct {
		name, path string
		mode, back os.FileMode
		control    string
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
			doctor, controls := r.Doctor(t)
			if doctor.Refused(); !slices.Contains(controls[policy.ObservedFalse], tt.control) {
				t.Errorf("observed false: %v", controls[policy.ObservedFalse])
			}
			if post() != "refused" {
				t.Error("a post went out")
			}
			if last := r.NewestRecord(t, "flow=post"); last.Code != "deployment_contradicted" {
				t.Errorf("the last record has the code %q", last.Code)
			}
			untilReadyz(t, r, "deployment_contradicted")
			check.Must(t, os.Chmod(path, tt.back))
			untilReadyz(t, r, "")
			doctor, _ = r.Doctor(t)
			if doctor.Done(); post() != "posted" {
				t.Error("no post goes out again")
			}
		})
	}
	silent := func(name string) {
		t.Helper()
		r.StopProcess(t, name)
		doctor, controls := r.Doctor(t)
		doctor.Refused("mediator: mediator " + name + " does not say what it observes")
		if len(controls[policy.ObservedFalse]) > 0 {
			t.Errorf("without %s: observed false %v", name, controls[policy.ObservedFalse])
		}
	}
	silent("reputation")
	if post() != "posted" {
		t.Error("no post goes out while the node is away")
	}
	r.StartProcess(t, "reputation") // with a new key, which the registry certifies
	kit.Until(t, "doctor to be content with the node, which has the receipts of meanwhile", func() bool {
		doctor, _ := r.Doctor(t)
		return doctor.Status == 0 && strings.Contains(doctor.Out, "in order       0 not handed over")
	})
	silent("control")
	untilReadyz(t, r, "process_unavailable")
	doctor, _ := r.Doctor(t)
	doctor.Refused("callers are refused now: ", "(process_unavailable)")
	r.StopProcess(t, "trigger")
	untilReadyz(t, r, "process_unavailable")
}

func untilReadyz(t *testing.T, r *kit.Rig, code string) {
	t.Helper()
	kit.Until(t, "/readyz to say what a post meets: "+code, func() bool {
		err := admin.Get(t.Context(), r.Stack.Admin(), "/readyz", nil)
		return code == "" && err == nil || code != "" && err != nil && strings.Contains(err.Error(), "("+code+")")
	})
}

func TestWithoutNode(t *testing.T) {
	t.Parallel()
	r := kit.PrepareClientsRig(t, func(file string) string {
		return strings.Replace(file, "\nreputation: ", "\n# reputation: ", 1)
	})
	check.Must(t, os.Remove(r.In(devstack.ReputationFile)))
	r.Start(t)
	if p := r.Process("reputation"); p != nil {
		t.Error("a node runs")
	}
	doctor, controls := r.Doctor(t)
	doctor.Done()
	if len(controls[policy.ObservedFalse]) > 0 || strings.Contains(doctor.Out, "reputation") ||
		strings.Contains(doctor.Out, "appraiser") {
		t.Error(doctor.Out)
	}
	r.OpenAgent(t).MustPost(t)
}

func TestAProcessDoesNotStart(t *testing.T) {
	t.Parallel()
	runNode := func(ctx context.Context, path string, stderr io.Writer) error {
		return node.Run(ctx, "test", path, stderr)
	}
	for name, start := range map[string]func(context.Context, string, io.Writer) error{devstack.SidecarFile: sidecar.Run,
		devstack.TriggerFile: trigger.Run, devstack.ControlFile: control.Run, devstack.ReputationFile: runNode} {
		for user, uid := range map[string]int{"its own user": os.Geteuid(), "root": 0} {
			t.Run(name+" for "+user, func(t *testing.T) {
				d := kit.Unstarted(t, func(files map[string][]byte) {
					agent := fmt.Appendf(nil, "agent: {uid: %d}", trial.User())
					files[name] = append(bytes.Replace(files[name], agent, nil, 1), fmt.Sprintf("\nagent: {uid: %d}\n", uid)...)
				})
				ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
				defer cancel()
				check.WantCode(t, start(ctx, filepath.Join(d.Dir, name), io.Discard), "deployment_contradicted")
			})
		}
	}
}

// The agent learns the code and the id of the record, which says what failed.
func TestTheReasonIsForTheRecord(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t, kit.ManyPosts, func(file string) string { // for what does not answer
		return strings.Replace(file, "session: {standing: true}", "timeouts: {step: 10s}\nsession: {standing: true}", 1)
	})
	a := r.OpenAgent(t)
	signal := func(name string, s syscall.Signal) func() {
		return func() { check.Must(t, r.Process(name).Cmd.Process.Signal(s)) }
	}
	bundle := r.In(devstack.BundleFile)
	whole := kit.Read(t, bundle)
	replace := func(content []byte) func() {
		return func() { check.Must(t, files.Replace(bundle, content, 0o644)) }
	}
	for _, tt := range []struct {
		name         string
		strike, mend func()
		codes        []string
		reason       string // a part of the reason in the record
	}{
		{"the trigger service hangs", signal("trigger", syscall.SIGSTOP), signal("trigger", syscall.SIGCONT),
			[]string{"process_unavailable"}, "the trigger service does not answer"},
		{"the control plane hangs", signal("control", syscall.SIGSTOP), signal("control", syscall.SIGCONT),
			[]string{"process_unavailable"}, "the control plane does not answer"},
		{"a key without a certificate", replace(without(t, whole, "runtime-key")), replace(whole),
			[]string{"key_unknown", "custody_unavailable"}, "runtime-key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kit.Until(t, "a sound post", func() bool { return a.Post().Code == "" })
			var o kit.Outcome
			kit.Until(t, "a refusal", func() bool { // again and again: the stack's registry certifies the key anew
				tt.strike()
				o = a.Post()
				return slices.Contains(tt.codes, o.Code)
			})
			if !strings.Contains(o.Detail, "mediator posts show "+o.Post) {
				t.Errorf("the agent is told %q", o.Detail)
			}
			if reason := a.Reason(o); !strings.Contains(reason, tt.reason) {
				t.Errorf("the record of %s says %q", o.Code, reason)
			}
			tt.mend()
		})
	}
	kit.Until(t, "a sound post", func() bool { return a.Post().Code == "" })
}

func without(t *testing.T, bundle []byte, key string) []byte {
	t.Helper()
	var b map[string]any
	check.Must(t, json.Unmarshal(bundle, &b))
	parsed, err := evidence.ParseBundle(bundle)
	check.Must(t, err)
	b["certificates"] = slices.DeleteFunc(parsed.Certificates, func(token string) bool {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
		check.Must(t, err)
		return evidence.KeyName(c.SubjectKeyID) == key
	})
	out, err := json.Marshal(b)
	check.Must(t, err)
	return out
}
