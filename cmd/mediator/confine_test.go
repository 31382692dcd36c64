package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/refusal"
)

// kernelSays returns fields of a process's status, as the kernel tells them to everybody (proc_pid_status(5)).
func kernelSays(t *testing.T, pid int, fields ...string) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		if name, value, _ := strings.Cut(line, ":"); slices.Contains(fields, name) {
			out = append(out, name+" "+strings.TrimSpace(value))
		}
	}
	return strings.Join(out, ", ")
}

// childrenOf returns the processes that a process has started.
func childrenOf(t *testing.T, pid int) (out []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		raw, _ := os.ReadFile(name) // empty for a thread that has ended
		for _, s := range strings.Fields(string(raw)) {
			child, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, child)
		}
	}
	return out
}

// TestConfined asks the kernel about the processes of a deployment that was started as root, and compares what they say of themselves.
func TestConfined(t *testing.T) {
	r := newClientsRig(t)
	fields := []string{"CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp"}
	const none, looks = "0000000000000000", "0000000000080004" // CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH
	want := func(caps string) string {
		return fmt.Sprintf("CapInh %s, CapPrm %s, CapEff %s, CapAmb %s, NoNewPrivs 1, Seccomp 2", none, caps, caps, none)
	}
	for _, p := range r.stack.processes {
		if got := kernelSays(t, p.cmd.Process.Pid, fields...); got != want(none) {
			t.Errorf("%s: %s", p.name, got)
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.cmd.Process.Pid))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(raw)), " "), "Max core file size 0 0 bytes") {
			t.Errorf("%s has another core limit than 0: %v", p.name, err)
		}
		children := childrenOf(t, p.cmd.Process.Pid)
		if p.name != "serve" {
			if len(children) != 0 {
				t.Errorf("%s has started %d processes", p.name, len(children))
			}
			continue
		}
		if len(children) != 1 || !eventually(func() bool { return kernelSays(t, children[0], fields...) == want(looks) }) {
			t.Errorf("the sidecar's looker: %v", children)
		}
	}
	_, text, _ := r.doctor(t)
	for _, name := range []string{"serve", "trigger", "control"} {
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
	if got := strings.Count(text, "\nin force "); got != 3*inForce {
		t.Errorf("%d layers are in force, want %d:\n%s", got, 3*inForce, text)
	}
}

// TestReadsOnlyItsFolders has a file that the configuration names lead out of the folder that it names: the sidecar reads the trust bundle
// again, and cannot.
func TestReadsOnlyItsFolders(t *testing.T) {
	r := newClientsRig(t)
	bundle, elsewhere := filepath.Join(r.dir, bundleFile), filepath.Join(t.TempDir(), "elsewhere.json")
	raw, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(elsewhere, append(raw, '\n'), 0o644)) //nolint:gosec // on purpose
	refused := elsewhereRefused
	if _, err := ll.LandlockGetABIVersion(); err != nil {
		refused = "" // nothing holds it here, which TestConfined finds it to say
	}
	until(t, patience, "the sidecar to be refused what is elsewhere", func() bool {
		if info, err := os.Lstat(bundle); err != nil || info.Mode().IsRegular() { // also where the registry has written it anew
			must(t, os.Symlink(elsewhere, bundle+".led"))
			must(t, os.Rename(bundle+".led", bundle))
		}
		log, err := os.ReadFile(filepath.Join(r.dir, "serve.log"))
		return err == nil && bytes.Contains(log, []byte(refused))
	})
}

const elsewhereRefused = bundleFile + ": permission denied"

// TestLookerEnds ends the sidecar as a crash does: its child does not outlive it.
func TestLookerEnds(t *testing.T) {
	questions, asks, err := os.Pipe()
	must(t, err)
	cmd := exec.Command("/proc/self/exe", "looker")
	cmd.Stdin = questions
	must(t, cmd.Start())
	questions.Close()
	asks.Close() // as the kernel does for a process that has ended
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestReach compares the table of the shipped examples with what their configurations name.
func TestReach(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("../../configs")))
	for _, name := range []string{"github-token", "slack-token", "own-token", "openai-key", "anthropic-key", "github-webhook", "billing-webhook", "engine-webhook"} {
		writeSecret(t, filepath.Join(dir, "secrets", name))
	}
	in := func(l confine.Limits, use confine.Use) (out []string) {
		for _, f := range l.Files {
			if rest, ok := strings.CutPrefix(f.Path, dir); ok && f.Use == use {
				out = append(out, "."+rest)
			} else if f.Use == use && !slices.Contains(systemFiles, f.Path) && use != confine.Read {
				out = append(out, f.Path)
			}
		}
		slices.Sort(out)
		return out
	}
	s, err := loadSidecar(filepath.Join(dir, "mediator.yaml"))
	must(t, err)
	sr, err := s.reach(s.observer(nil))
	must(t, err)
	trig, err := loadTrigger(filepath.Join(dir, "trigger.yaml"))
	must(t, err)
	c, err := loadControl(filepath.Join(dir, "control.yaml"))
	must(t, err)
	low := trig.reach(trig.observer(nil))
	low.bind = []string{":443"}
	for _, tt := range []struct {
		name   string
		reach  reach
		config confineConfig
		file   func(string) string
		want   string
	}{
		{"serve", sr, s.T.Confine, s.file, "read [. ./secrets] write [/var/lib/mediator] move [] listen [/run/mediator] bind [8181] connect [53 443] keep []"},
		{"trigger", trig.reach(trig.observer(nil)), trig.T.Confine, trig.file, "read [. ./secrets] write [/var/lib/mediator-trigger] move [/var/spool/mediator-jobs] listen [/run/mediator] bind [8182] connect [] keep []"},
		{"trigger on a port of root's", low, trig.T.Confine, trig.file, "read [. ./secrets] write [/var/lib/mediator-trigger] move [/var/spool/mediator-jobs] listen [/run/mediator] bind [443] connect [] keep [cap_net_bind_service]"},
		{"control", c.reach(c.observer(nil)), c.T.Confine, c.file, "read [.] write [] move [] listen [/run/mediator] bind [] connect [] keep []"},
	} {
		l, err := tt.reach.limits(tt.config, tt.file)
		must(t, err)
		got := fmt.Sprint("read ", in(l, confine.Read), " write ", in(l, confine.Write), " move ", in(l, confine.Move), " listen ", in(l, confine.Listen),
			" bind ", l.Bind, " connect ", l.Connect, " keep ", l.Capabilities)
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestNotConfined starts a process whose configuration names a file in the root folder: to read that folder is to read everything.
func TestNotConfined(t *testing.T) {
	r := reach{named: paths(func(s string) string { return s }, false, "/trust.json")}
	err := (&process{log: zap.NewNop()}).confine(r, confineConfig{}, func(s string) string { return s })
	var refused *refusal.Refusal
	if !errors.As(err, &refused) || refused.Code() != "not_confined" || !strings.Contains(err.Error(), "/trust.json stands in the root folder") {
		t.Error(err)
	}
}

// TestConfineIsChecked reads confine sections that mean nothing.
func TestConfineIsChecked(t *testing.T) {
	for section, want := range map[string]string{
		"{landlock: on}":         `confine.landlock: "on" is none of [best_effort required off]`,
		"{seccomp: best_effort}": `confine.seccomp: "best_effort" is none of [required off]`,
		"{connect: [70000]}":     "70000",
		"{read: [a], files: b}":  "files",
	} {
		path := filepath.Join(t.TempDir(), "control.yaml")
		must(t, os.WriteFile(path, []byte("confine: "+section+"\n"), 0o600))
		if err := control(t.Context(), path, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", section, err)
		}
	}
}

// TestPorts reads ports as configurations write them.
func TestPorts(t *testing.T) {
	got, err := ports([]string{"", "127.0.0.1:8181", ":443", "[::1]:80", "53", "https://vault:8200/x", "https://api.example/y", "http://api.example"})
	if err != nil || !slices.Equal(got, []uint16{53, 80, 443, 8181, 8200}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ports([]string{"host:nonsense"}); err == nil {
		t.Error("a port that is none was read")
	}
}
