package observe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

// firstOwn returns the first user id of an isolated run, as this process sees it.
func firstOwn(t *testing.T, l observe.Launch) uint32 {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + itoa(l.Init) + "/uid_map")
	check.Must(t, err)
	first, err := strconv.ParseUint(strings.Fields(string(raw))[1], 10, 32)
	check.Must(t, err)
	return uint32(first)
}

// TestIsolated observes isolated runs: what the agent does among its own processes is no finding, what root puts there
// is.
func TestIsolated(t *testing.T) {
	enter := func(what string) func(*testing.T, observe.Launch) {
		return func(t *testing.T, l observe.Launch) {
			start(t, nil, append([]string{"nsenter", "--target", itoa(l.Init), what}, quiet...)...)
		}
	}
	for _, tt := range []struct {
		name    string
		agent   []string
		outside func(t *testing.T, l observe.Launch)
		want    []string
	}{
		{"a quiet run", quiet, nil, nil},
		{"a daemon", daemon, nil, nil},
		{"a process whose first thread has ended", []string{"/usr/bin/python3", "-c", headless}, nil, nil},
		{"a terminal of its own", []string{"script", "-qc", waits, "/dev/null"}, nil, nil},
		{"a terminal that may be from outside",
			[]string{"script", "-qc", "sh -c '" + waits + "' </dev/tty", "/dev/null"}, nil, []string{look.Stdin}},
		{"a debugger of its own",
			[]string{"gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex",
				"set startup-with-shell off",
				"-ex", "starti", "-ex", `printf "\nattached\n"`, "-ex", "shell sleep 1000", "/bin/true"}, nil, nil},
		{"namespaces of its own below",
			[]string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "sh", "-c", waits}, nil, nil},
		{"a process of agent.uid beside it", quiet, func(t *testing.T, _ observe.Launch) {
			start(t, asAgent, quiet...)
		}, nil},
		{"a process that entered all its namespaces", quiet, enter("--all"), []string{look.Stranger}},
		{"a process that entered its process namespace alone", quiet, enter("--pid"), []string{look.Stranger}},
		{"a process that entered it, and left a child of its first process behind", quiet,
			func(t *testing.T, l observe.Launch) {
				entered, _ := start(t, nil, "nsenter", "--target", itoa(l.Init), "--all", "sh", "-c",
					"sh -c '"+waits+"' &")
				_, err := entered.Process.Wait()
				check.Must(t, err)
			}, []string{look.Stranger}},
		{"a shell on a terminal that entered it", quiet,
			func(t *testing.T, l observe.Launch) {
				start(t, nil, "script", "-qc", "nsenter --target "+itoa(l.Init)+" --all sh -c '"+waits+"'", "/dev/null")
			}, []string{look.Stdin, look.Stranger}},
		{"a process outside with one of its users, whose first thread has ended", quiet,
			func(t *testing.T, l observe.Launch) {
				own := firstOwn(t, l) + 7
				start(t, func(c *exec.Cmd) {
					c.SysProcAttr.Credential = &syscall.Credential{Uid: own, Gid: own}
				}, "/usr/bin/python3", "-c", headless)
			}, []string{look.Stranger}},
		{"a process outside with one of its groups", quiet,
			func(t *testing.T, l observe.Launch) {
				group := firstOwn(t, l) + 7
				start(t, func(c *exec.Cmd) {
					c.SysProcAttr.Credential = &syscall.Credential{Uid: agent, Gid: agent, Groups: []uint32{group}}
				}, quiet...)
			}, []string{look.Stranger}},
		{"a debugger from outside", []string{"sh", "-c", "echo $$; sleep 1000; :"},
			func(t *testing.T, l observe.Launch) {
				// any thread may have started it
				all, err := filepath.Glob("/proc/" + itoa(l.Init) + "/task/*/children")
				check.Must(t, err)
				var children []string
				for _, name := range all {
					raw, _ := os.ReadFile(name)
					children = append(children, strings.Fields(string(raw))...)
				}
				debug(t, children[0])
			}, []string{look.Debugger}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := isolated(t, tt.agent...)
			run := watcher().Begin("evt_1", l)
			if tt.outside != nil {
				tt.outside(t, l)
			}
			report := wantFound(t, run, tt.want)
			for _, o := range observe.OfRuns([]*observe.Run{run}) {
				byConstruction := o.Name == look.Stranger || o.Name == look.Debugger
				want := look.NotObserved // who hands a terminal to a process of the run is not seen
				switch {
				case slices.Contains(tt.want, o.Name):
					want = look.Contradicts
				case byConstruction:
					want = look.Holds
				}
				if o.Result != want || report.Covered(o.Name) != byConstruction || want == look.Holds &&
					!strings.Contains(o.Seen, "Root and the container runtime can") {
					t.Errorf("%+v, want %q", o, want)
				}
			}
		})
	}
}

func TestNotIsolated(t *testing.T) {
	l, _ := isolated(t, quiet...)
	other, _ := isolated(t, quiet...)
	for _, tt := range []struct {
		name, sentence string
		change         func(*observe.Launch)
	}{
		{"no namespaces", "no namespaces of its own", func(l *observe.Launch) { l.Init = 0 }},
		{"a launcher that is not root", "not root", func(l *observe.Launch) { l.UID = 1000 }},
		{"a shared network", "shares the network", func(l *observe.Launch) { l.Listener = 0 }},
		{"a process of another launcher", "cannot be seen below its launcher", func(l *observe.Launch) { l.Init = 1 }},
		{"a child of the launcher in no namespace", "process namespace", func(l *observe.Launch) {
			cmd, _ := start(t, nil, quiet...)
			l.Init = cmd.Process.Pid
		}},
		{"a process namespace alone", "users are not its own", func(l *observe.Launch) {
			cmd, _ := start(t, func(c *exec.Cmd) { c.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID }, quiet...)
			l.Init = cmd.Process.Pid
		}},
		{"users that the launcher has", "users are not its own", func(l *observe.Launch) {
			cmd, _ := start(t, func(c *exec.Cmd) {
				c.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER
				c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{Size: 1 << 16}}
				c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{Size: 1 << 16}}
			}, quiet...)
			l.Init = cmd.Process.Pid
		}},
		{"the mounts of the sidecar", "mnt namespace is that of the sidecar", func(l *observe.Launch) {
			ids := []syscall.SysProcIDMap{{HostID: 3 << 30, Size: 1 << 16}}
			cmd, _ := start(t, func(c *exec.Cmd) {
				c.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER
				c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = ids, ids
				c.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
			}, quiet...)
			l.Init = cmd.Process.Pid
		}},
		{"the listener of another run", "do not come from its own network", func(l *observe.Launch) {
			l.Listener = other.Listener
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := l
			tt.change(&changed)
			run := observe.NewWatcher(nil, still, func(_ *observe.Run, f look.Finding) {
				t.Errorf("found %s", f)
			}).Begin("evt_1", changed)
			if _, err := run.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantUnseen(t, run, tt.sentence)
		})
	}
}
