package operation

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func kernelSays(t *testing.T, pid int, fields ...string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(string(kit.Read(t, fmt.Sprintf("/proc/%d/status", pid)))) {
		if name, value, _ := strings.Cut(line, ":"); slices.Contains(fields, name) {
			out = append(out, name+" "+strings.TrimSpace(value))
		}
	}
	return strings.Join(out, ", ")
}

func childrenOf(t *testing.T, pid int) (out []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	check.Must(t, err)
	for _, name := range files {
		raw, _ := os.ReadFile(name) // empty for a thread that has ended
		for _, s := range strings.Fields(string(raw)) {
			child, err := strconv.Atoi(s)
			check.Must(t, err)
			out = append(out, child)
		}
	}
	return out
}

func TestConfined(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t)
	fields := []string{"CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp"}
	const none, looks = "0000000000000000", "0000000000080004" // CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH
	want := func(caps string) string {
		return fmt.Sprintf("CapInh %s, CapPrm %s, CapEff %s, CapAmb %s, NoNewPrivs 1, Seccomp 2", none, caps, caps, none)
	}
	for _, p := range r.Stack.Processes {
		if got := kernelSays(t, p.Cmd.Process.Pid, fields...); got != want(none) {
			t.Errorf("%s: %s", p.Name, got)
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.Cmd.Process.Pid))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(raw)), " "), "Max core file size 0 0 bytes") {
			t.Errorf("%s has another core limit than 0: %v", p.Name, err)
		}
		children := childrenOf(t, p.Cmd.Process.Pid)
		if p.Name != "serve" {
			if len(children) != 0 {
				t.Errorf("%s has started %d processes", p.Name, len(children))
			}
			continue
		}
		if len(children) != 1 || !kit.Eventually(func() bool {
			return kernelSays(t, children[0], fields...) == want(looks)
		}) {
			t.Errorf("the sidecar's looker: %v", children)
		}
	}
	doctor, _ := r.Doctor(t)
	text := doctor.Out
	for _, name := range kit.Processes {
		if !strings.Contains(text, "confinement of mediator "+name+"\n") {
			t.Errorf("doctor says nothing of %s", name)
		}
	}
	inForce := 4
	switch abi, err := ll.LandlockGetABIVersion(); {
	case err != nil:
		if !strings.Contains(text, "Landlock is not supported by this kernel") {
			t.Error("doctor does not say that the kernel has no Landlock")
		}
	case abi >= 4:
		inForce = 6
	default:
		inForce = 5
	}
	if got := strings.Count(text, "\nin force "); got != 4*inForce {
		t.Errorf("%d layers are in force, want %d:\n%s", got, 4*inForce, text)
	}
}

// TestReadsOnlyItsFolders replaces the trust bundle by a link out of its folder. The sidecar cannot read it.
func TestReadsOnlyItsFolders(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t)
	bundle, elsewhere := r.In(devstack.BundleFile), t.TempDir()+"/elsewhere.json"
	check.Must(t, os.WriteFile(elsewhere, append(kit.Read(t, bundle), '\n'), 0o644)) //nolint:gosec // on purpose
	refused := devstack.BundleFile + ": permission denied"
	if _, err := ll.LandlockGetABIVersion(); err != nil {
		refused = "" // nothing holds it here, which TestConfined finds it to say
	}
	kit.Until(t, "the sidecar to be refused what is elsewhere", func() bool {
		// also where the registry has written it anew
		if info, err := os.Lstat(bundle); err != nil || info.Mode().IsRegular() {
			check.Must(t, os.Symlink(elsewhere, bundle+".led"))
			check.Must(t, os.Rename(bundle+".led", bundle))
		}
		return strings.Contains(r.Log(t, "serve"), refused)
	})
}

// The sidecar's child ends with the sidecar, also after a crash.
func TestLookerEnds(t *testing.T) {
	t.Parallel()
	questions, asks, err := os.Pipe()
	check.Must(t, err)
	cmd := exec.Command("/proc/self/exe", "looker")
	cmd.Stdin = questions
	check.Must(t, cmd.Start())
	questions.Close()
	asks.Close() // as the kernel does for a process that has ended
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS("../../../configs")))
	writeSecrets(t, dir)
	in := func(l confine.Limits, use confine.Use) (out []string) {
		for _, f := range l.Files {
			if rest, ok := strings.CutPrefix(f.Path, dir); ok && f.Use == use {
				out = append(out, "."+rest)
			} else if f.Use == use && use != confine.Read {
				out = append(out, f.Path)
			}
		}
		slices.Sort(out)
		return out
	}
	all := plans(t, dir)
	kit.Edit(t, filepath.Join(dir, devstack.SidecarFile), "\naudience: ",
		"\ntracing: {endpoint: \"https://traces.example:4318\"}"+
			"\nauditExport: {otlp: {endpoint: \"https://records.example:9443\"}}\naudience: ")
	kit.Edit(t, filepath.Join(dir, devstack.ControlFile), "\naudience: ",
		"\ntracing: {endpoint: \"https://traces.example:4318\"}\naudience: ")
	collecting := plans(t, dir)
	low := all["trigger"]
	low.Listens = []fields.Place{{Address: ":443"}}
	for _, tt := range []struct {
		name string
		plan daemon.Plan
		want string
	}{
		{"serve", all["serve"],
			"read [. ./secrets] write [/var/lib/mediator] move [] listen [/run/mediator] bind [8181] connect [53 443] keep []"},
		{"trigger", all["trigger"],
			"read [. ./secrets] write [/var/lib/mediator-trigger] move [/var/spool/mediator-jobs] " +
				"listen [/run/mediator] bind [8182] connect [] keep []"},
		{"trigger on a port of root's", low,
			"read [. ./secrets] write [/var/lib/mediator-trigger] move [/var/spool/mediator-jobs] " +
				"listen [/run/mediator] bind [443] connect [] keep [cap_net_bind_service]"},
		{"control", all["control"], "read [.] write [] move [] listen [/run/mediator] bind [] connect [] keep []"},
		{"control with traces", collecting["control"],
			"read [.] write [] move [] listen [/run/mediator] bind [] connect [53 4318] keep []"},
		{"serve with collectors", collecting["serve"], "read [. ./secrets] write [/var/lib/mediator] move [] " +
			"listen [/run/mediator] bind [8181] connect [53 443 4318 9443] keep []"},
		{"reputation", all["reputation"],
			"read [.] write [/var/lib/mediator-reputation] move [] listen [/run/mediator] bind [8443] connect [] keep []"},
	} {
		l, err := tt.plan.Limits(tt.plan.Observer(nil).Paths)
		check.Must(t, err)
		got := fmt.Sprint("read ", in(l, confine.Read), " write ", in(l, confine.Write), " move ", in(l, confine.Move),
			" listen ", in(l, confine.Listen),
			" bind ", l.Bind, " connect ", l.Connect, " keep ", l.Capabilities)
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestConfineIsChecked(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		"{landlock: on}":         `confine.landlock: "on" is none of best_effort, required, off`,
		"{seccomp: best_effort}": `confine.seccomp: "best_effort" is none of required, off`,
		"{connect: [70000]}":     "70000",
		"{read: [a], files: b}":  "files",
	} {
		path := t.TempDir() + "/control.yaml"
		kit.Write(t, path, "confine: "+section+"\n")
		if err := control.Run(t.Context(), path, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", section, err)
		}
	}
}

// TestEachFileIsLookedAt lists the files by which somebody could do the work of each process: those that are secret,
// and those that must not be changed.
func TestEachFileIsLookedAt(t *testing.T) {
	t.Parallel()
	admitting := regexp.MustCompile(`(?m)^((?:admin|internal): \{unix: run/\w+\.sock)\}`)
	d := kit.Unstarted(t, func(files map[string][]byte) {
		for name, raw := range files {
			file := strings.Replace(string(raw), "custody: {type: memory}", `custody:
  type: vault
  vault: {address: "https://127.0.0.1:1", ca: vault-ca.pem, keys: [k], auth: {tokenFile: "auth/{role}.token"}}`, 1)
			files[name] = []byte(admitting.ReplaceAllString(file, "$1, uids: [7]}"))
		}
	})
	roles := []daemon.Role{{Purpose: evidence.PurposeActionGrant}}
	all := plans(t, d.Dir)
	everywhere := []string{"PROGRAM", "auditor.jwk", "auth/action_grant.token (secret)", "registry.jwk", "trust.json",
		"vault-ca.pem"}
	for name, want := range map[string][]string{
		"serve": {"api-ca.pem", "manifest.yaml", "mediator.yaml", "run/control.sock", "run/reputation.sock",
			"run/serve.sock [7]", "run/trigger.sock", "secrets/api-token (secret)", "state/ledger.db (secret)"},
		"control": {"control.yaml", "manifest.yaml", "policy.yaml", "run/control.sock [7]"},
		"reputation": {"reputation.yaml", "reputation/reputation.db (secret)", "reputation/verification.db (secret)",
			"run/reputation.sock [7]"},
		"trigger": {"events/events.db (secret)", "run/trigger.sock [7]", "secrets/webhook (secret)", "trigger.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range all[name].Observer(roles).Paths {
				got = append(got, describePath(t, d.Dir, p))
			}
			want := kit.With(want, everywhere...)
			slices.Sort(got)
			slices.Sort(want)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("looked at:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func describePath(t *testing.T, dir string, p observe.Path) string {
	t.Helper()
	if p.Name == kit.Self(t) {
		return "PROGRAM"
	}
	name, err := filepath.Rel(dir, p.Name)
	check.Must(t, err)
	if p.Secret {
		name += " (secret)"
	}
	if slices.Equal(p.Users, []uint32{7}) {
		name += " [7]"
	}
	return name
}

func plans(t *testing.T, dir string) map[string]daemon.Plan {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	s, err1 := config.Load[config.Sidecar](at(devstack.SidecarFile))
	c, err2 := config.Load[config.Control](at(devstack.ControlFile))
	g, err3 := config.Load[config.Trigger](at(devstack.TriggerFile))
	n, err4 := config.Load[config.Reputation](at(devstack.ReputationFile))
	check.Must(t, errors.Join(err1, err2, err3, err4))
	ofSidecar, err1 := sidecar.Plan(s)
	ofNode, err2 := node.Plan(n)
	ofTrigger, err3 := trigger.Plan(g)
	ofControl, err4 := control.Plan(c)
	check.Must(t, errors.Join(err1, err2, err3, err4))
	return map[string]daemon.Plan{"serve": ofSidecar, "control": ofControl, "trigger": ofTrigger, "reputation": ofNode}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS("../../../configs")))
	writeSecrets(t, dir)
	kit.Write(t, dir+"/dev/secrets/webhook", secret("webhook"))
	for name, content := range configs.Dev {
		check.Must(t, files.WriteAbsent(filepath.Join(dir, "dev", name), content))
	}
	files, err := filepath.Glob(dir + "/*.yaml")
	check.Must(t, err)
	more, err := filepath.Glob(dir + "/dev/*.yaml")
	check.Must(t, err)
	if files = append(files, more...); len(files) != 13 {
		t.Errorf("%d files", len(files))
	}
	for _, path := range files {
		checked, err := config.CheckFile(path, true)
		if err != nil || len(checked.Warnings) > 0 {
			t.Errorf("%s: %+v %v", path, checked, err)
		}
	}
}

func writeSecrets(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{
		"github-token", "slack-token", "own-token", "openai-key", "anthropic-key",
		"github-webhook", "billing-webhook", "engine-webhook",
	} {
		kit.Write(t, filepath.Join(dir, "secrets", name), secret(name))
	}
}

func secret(name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret for a test, and for "+name))
}
