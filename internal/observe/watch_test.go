package observe_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// agent is a user that exists neither on this machine nor in another run of these tests.
var agent = uint32(60578 + os.Getpid()%600)

// still is the clock of watchers without gaps, even on a busy machine.
func still() time.Time { return time.Unix(1_700_000_000, 0) }

// TestMain is also the launcher of the tests' agents, like mediator run.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "launch" {
		os.Exit(launch(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) == 3 && os.Args[1] == "look" {
		os.Exit(lookAt(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == isolate.Command {
		_ = isolate.Inside()
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// launch starts args as user, and adopts what they leave behind.
func launch(user string, args []string) int {
	uid, err := strconv.Atoi(user)
	if err := errors.Join(err, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)); err != nil {
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Run(); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // stay until told to end
	select {}
}

// lookAt prints an observation of a run by this process's user.
func lookAt(launch string) int {
	var l observe.Launch
	if json.Unmarshal([]byte(launch), &l) != nil {
		return 1
	}
	run := observe.NewWatcher(nil, still, func(*observe.Run, look.Finding) {}).Begin("evt_1", l)
	if _, err := run.Look(context.Background()); err != nil {
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(observe.OfRuns([]*observe.Run{run})); err != nil {
		return 1
	}
	return 0
}

// of is the launch of a launcher that isolates nothing.
func of(launcher *exec.Cmd) observe.Launch { return observe.Launch{PID: launcher.Process.Pid} }

// isolated starts an isolated agent, with this process as its launcher, and returns its launch and its first line.
func isolated(t testing.TB, args ...string) (observe.Launch, string) {
	t.Helper()
	full.Only(t, "root")
	program, err := exec.LookPath(args[0])
	check.Must(t, err)
	said, says := io.Pipe()
	p, err := isolate.Start(context.WithoutCancel(t.Context()),
		isolate.Options{Users: isolate.Users{Own: true}, Program: program, Bounds: isolate.DefaultBounds,
			Stdout: says, Stderr: os.Stderr})
	if err != nil {
		t.Fatalf("%v (the tests need root, and namespaces)", err)
	}
	var listener unix.Stat_t
	check.Must(t, unix.Fstat(int(p.Listener.Fd()), &listener))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(isolate.Agent{Args: args, Env: []string{"PATH=" + os.Getenv("PATH")}}) }()
	t.Cleanup(func() {
		_ = unix.Kill(p.Init, unix.SIGKILL)
		<-ended
		p.Listener.Close()
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	check.Must(t, err)
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return observe.Launch{PID: os.Getpid(), Init: p.Init, Listener: listener.Ino}, strings.TrimSpace(line)
}

// start starts a command and waits for its first line.
func start(t testing.TB, change func(*exec.Cmd), args ...string) (cmd *exec.Cmd, said string) {
	t.Helper()
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("only root can start a process as another user: run the tests as root")
	}
	cmd = exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if change != nil {
		change(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatalf("%v: %v (run make setup)", args, err)
	}
	t.Cleanup(func() {
		all := exec.Command("sh", "-c", "kill -9 -1") // every process of the agent's user
		all.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: agent, Gid: agent}}
		_ = all.Run()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		// a process that is ending is a stranger to the next test's run
		for bound := time.Now().Add(time.Minute); agentRuns(); {
			if time.Now().After(bound) {
				t.Error("the agent's processes do not end")
				return
			}
		}
	})
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v says nothing: %v (run make setup)", args, err)
	}
	return cmd, strings.TrimSpace(said)
}

// agentRuns reports whether the agent's user has a living process.
func agentRuns() bool {
	files, _ := filepath.Glob("/proc/[0-9]*/status") // a fixed pattern
	return slices.ContainsFunc(files, func(name string) bool {
		raw, _ := os.ReadFile(name) // empty for one that has ended
		return strings.Contains(string(raw), "\nUid:\t"+itoa(int(agent))+"\t") &&
			!strings.Contains(string(raw), "\nState:\tZ")
	})
}

// launched starts an agent under a launcher, and returns the launcher.
func launched(t testing.TB, change func(*exec.Cmd), args ...string) (launcher *exec.Cmd, said string) {
	t.Helper()
	return start(t, change, append([]string{"/proc/self/exe", "launch", itoa(int(agent))}, args...)...)
}

// asAgent makes a command one of the agent's user.
func asAgent(c *exec.Cmd) { c.SysProcAttr.Credential = &syscall.Credential{Uid: agent, Gid: agent} }

func itoa(n int) string { return strconv.Itoa(n) }

const waits = "echo $$; exec sleep 1000"

// The commands of two agents.
var (
	quiet  = []string{"sh", "-c", waits}
	daemon = []string{"sh", "-c", "(setsid sh -c '" + waits + "' &); exec sleep 1000"}
)

// watcher makes a watcher that reports no findings.
func watcher() *observe.Watcher {
	return observe.NewWatcher(&agent, still, func(*observe.Run, look.Finding) {})
}

var all = []string{look.Terminal, look.Stdin, look.Debugger, look.Stranger}

// TestWatch observes runs that are not isolated: findings count, and their absence proves nothing.
func TestWatch(t *testing.T) {
	python := []string{"/usr/bin/python3", "-c", headless}
	beside := func(change func(*exec.Cmd), args ...string) func(*testing.T, *exec.Cmd, string) {
		return func(t *testing.T, _ *exec.Cmd, _ string) { start(t, change, args...) }
	}
	for _, tt := range []struct {
		name     string
		agent    []string
		terminal bool // the agent's standard input is a terminal
		outside  func(t *testing.T, launcher *exec.Cmd, said string)
		want     []string
	}{
		{"an unattended run", quiet, false, nil, nil},
		{"with children of its own", []string{"sh", "-c", "sh -c '" + waits + "' & wait"}, false, nil, nil},
		{"with a child in a session of its own", []string{"sh", "-c", "setsid sh -c '" + waits + "' & wait"}, false,
			nil, nil},
		{"with a daemon, whose parent has ended", daemon, false, nil, nil},
		{"with a controlling terminal", []string{"script", "-qc", "exec </dev/null; " + waits, "/dev/null"}, false, nil,
			[]string{look.Terminal}},
		{"with a terminal to read from", quiet, true, nil, []string{look.Stdin}},
		// not about to execute another program
		{"with a debugger", []string{"sh", "-c", "echo $$; sleep 1000; :"}, false,
			func(t *testing.T, _ *exec.Cmd, pid string) { debug(t, pid) }, []string{look.Debugger}},
		{"with a debugger at the launcher", quiet, false,
			func(t *testing.T, l *exec.Cmd, _ string) { debug(t, itoa(l.Process.Pid)) }, []string{look.Debugger}},
		{"with an exec by another process", quiet, false, beside(asAgent, quiet...), []string{look.Stranger}},
		{"with an interactive exec", quiet, false, beside(asAgent, "script", "-qc", waits, "/dev/null"),
			[]string{look.Terminal, look.Stdin, look.Stranger}},
		{"with an exec whose first thread has ended", quiet, false, beside(asAgent, python...),
			[]string{look.Stranger}},
		{"with a debugger at a process whose first thread has ended", python, false,
			func(t *testing.T, _ *exec.Cmd, pid string) { debug(t, thread(t, pid)) }, []string{look.Debugger}},
		{"with a terminal to read from, in a process whose first thread has ended", python, true, nil,
			[]string{look.Stdin}},
		{"beside other users' processes", quiet, false, beside(nil, "script", "-qc", waits, "/dev/null"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdin *os.File
			if tt.terminal {
				stdin = terminal(t)
			}
			launcher, said := launched(t, func(c *exec.Cmd) {
				if stdin != nil {
					c.Stdin = stdin
				}
			}, tt.agent...)
			if tt.outside != nil {
				tt.outside(t, launcher, said)
			}
			var told []string
			w := observe.NewWatcher(&agent, still, func(r *observe.Run, f look.Finding) {
				told = append(told, r.Name+" "+f.Kind)
			})
			run := w.Begin("evt_1", of(launcher))
			for range 3 { // each finding is reported once
				report := wantFound(t, run, tt.want)
				for _, kind := range all {
					if report.Has(kind) != slices.Contains(tt.want, kind) || report.Covered(kind) {
						t.Errorf("%s: %+v", kind, report)
					}
				}
				for _, f := range report.Found {
					if f.PID == 0 || !strings.Contains(f.String(), "process "+itoa(f.PID)+" ("+f.Command+") ") {
						t.Errorf("%+v: %s", f, f)
					}
				}
			}
			if len(told) != len(tt.want) {
				t.Errorf("told %q, want one of each of %q", told, tt.want)
			}
			for _, l := range observe.OfRuns([]*observe.Run{run}) {
				want := look.NotObserved // it is not isolated
				if slices.Contains(tt.want, l.Name) {
					want = look.Contradicts
				}
				if l.Result != want || l.Seen == "" {
					t.Errorf("%+v, want %s", l, want)
				}
			}
		})
	}
}

// wantFound observes a run and compares the kinds of its findings.
func wantFound(t *testing.T, run *observe.Run, want []string) look.Report {
	t.Helper()
	report, err := run.Look(t.Context())
	var got []string
	for _, f := range report.Found {
		got = append(got, f.Kind)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("found %v, want %v, %v", report.Found, want, err)
	}
	return report
}

// headless is a program in Python whose first thread ends, which the kernel then shows as the state of the process.
const headless = `
import ctypes, os, threading, time
def stay():
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z": time.sleep(0.01)
    print(os.getpid(), flush=True)
    time.sleep(1000)
threading.Thread(target=stay).start()
ctypes.CDLL(None).pthread_exit(None)`

// thread returns a thread of a process that is not its first.
func thread(t *testing.T, pid string) string {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil || len(entries) < 2 {
		t.Fatalf("%d threads, %v", len(entries), err)
	}
	return entries[1].Name()
}

// debug attaches gdb to a process, and returns once it is traced.
func debug(t *testing.T, pid string) {
	t.Helper()
	start(t, nil, "gdb", "-q", "-nx", "-batch", "-p", pid, "-iex", "set debuginfod enabled off", "-ex",
		"echo attached\\n", "-ex", "shell sleep 1000")
	check.AwaitTracer(t, pid)
}

// terminal opens a terminal that controls no process.
func terminal(t *testing.T) *os.File {
	t.Helper()
	_, name := start(t, nil, "script", "-qc", "tty; exec sleep 1000", "/dev/null")
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOCTTY, 0)
	check.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestStartOfARun observes a launcher's child before it becomes the agent. It has the launcher's terminal until it has
// its own session, and the launcher's user until it executes the agent; neither is a finding. Processes that only
// resemble it are observed.
func TestStartOfARun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		child string // what the launcher's child does, in Python
		found []string
	}{
		{"in the launcher's session", "stay()", nil},
		{"in a session of its own", "os.setsid(); stay()", nil},
		{"executed in the launcher's session", "os.execvp('sh', ['sh', '-c', 'echo $PPID; exec sleep 1000'])",
			[]string{look.Terminal}},
		{"a child of the child", "pid = os.fork()\n    if pid == 0: stay()\n    os.waitpid(pid, 0)",
			[]string{look.Terminal}},
		{"a child of the child in a session of its own",
			"os.setsid()\n    pid = os.fork()\n    if pid == 0: stay()\n    os.waitpid(pid, 0)", nil},
		{"with a terminal of its own", "os.setsid(); fd = os.open(os.ttyname(os.openpty()[1]), os.O_RDWR); stay()",
			[]string{look.Terminal}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fork := `exec python3 -c "
import os, time
launcher = os.getpid()
def stay():
    print(launcher, flush=True)
    time.sleep(1000)
if os.fork() == 0:
    ` + tt.child + `
os.wait()" </dev/null`
			_, said := start(t, nil, "script", "-qc", fork, "/dev/null")
			launcher, err := strconv.Atoi(said)
			check.Must(t, err)
			report := wantFound(t, watcher().Begin("evt_1", observe.Launch{PID: launcher}), tt.found)
			for _, kind := range all {
				if report.Covered(kind) {
					t.Errorf("%s: %+v", kind, report)
				}
			}
		})
	}
}

// TestShortLives observes while parents end, whose children are no strangers for that.
func TestShortLives(t *testing.T) {
	script := []string{"sh", "-c", "echo ready; for i in $(seq 200); do (sh -c '(sh -c : &)' &); done; exec sleep 1000"}
	launcher, _ := launched(t, nil, script...)
	alone, _ := isolated(t, script...)
	w := watcher()
	shared, own := w.Begin("evt_1", of(launcher)), w.Begin("evt_2", alone)
	for range 20 {
		if report, err := shared.Look(t.Context()); err != nil || len(report.Found) > 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		if report := own.Report(); len(report.Found) > 0 || !report.Covered(look.Stranger) {
			t.Fatalf("%+v", report)
		}
	}
}

// TestLookThatNobodyWaitsFor fails when its context ends: the caller must not take it for an observation without
// findings.
func TestLookThatNobodyWaitsFor(t *testing.T) {
	launcher, _ := launched(t, nil, quiet...)
	run := watcher().Begin("evt_1", of(launcher))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run.Look(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFindingsStay(t *testing.T) {
	launcher, _ := launched(t, nil, quiet...)
	w := watcher()
	before := w.Begin("evt_1", of(launcher))
	exec, _ := start(t, asAgent, quiet...)
	if err := w.Look(t.Context()); err != nil || !before.Report().Has(look.Stranger) {
		t.Fatalf("%+v, %v", before.Report(), err)
	}
	check.Must(t, exec.Process.Kill())
	_ = exec.Wait()
	later := w.Begin("evt_2", of(launcher))
	if err := w.Look(t.Context()); err != nil || !before.Report().Has(look.Stranger) || len(later.Report().Found) > 0 {
		t.Errorf("%+v, %+v, %v", before.Report(), later.Report(), err)
	}
}

// TestLauncherEnds before or after its session, with and without a collected exit status.
func TestLauncherEnds(t *testing.T) {
	for _, tt := range []struct{ over, waited bool }{{false, true}, {false, false}, {true, true}} {
		launcher, _ := launched(t, nil, quiet...)
		w := observe.NewWatcher(nil, still, func(*observe.Run, look.Finding) {})
		run := w.Begin("evt_1", of(launcher))
		other := w.Begin("evt_2", observe.Launch{PID: os.Getpid()})
		if tt.over {
			run.End()
		}
		check.Must(t, launcher.Process.Kill())
		if tt.waited {
			_ = launcher.Wait()
		} else if err := unix.Waitid(unix.P_PID, launcher.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT,
			nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			report, err := run.Look(t.Context())
			if err != nil || report.Has(look.Launcher) == tt.over || len(report.Found) > 1 ||
				other.Report().Has(look.Launcher) {
				t.Errorf("%+v: %+v, %v", tt, report, err)
			}
		}
	}
}

func TestUnseen(t *testing.T) {
	launcher, _ := launched(t, nil, quiet...)
	pid := launcher.Process.Pid
	hidden := filepath.Join(t.TempDir(), "proc")
	if err := errors.Join(os.Mkdir(hidden, 0o700), unix.Mount("proc", hidden, "proc", 0, "hidepid=2")); err != nil {
		t.Fatalf("mount a proc file system: %v (the tests need CAP_SYS_ADMIN)", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(hidden, unix.MNT_DETACH) })
	other := agent + 1
	for _, tt := range []struct {
		name     string
		proc     string
		user     *uint32
		pid      int
		uid      uint32
		sentence string
	}{
		{"hidepid", hidden, &agent, pid, 0, "hidepid="},
		{"no proc file system", t.TempDir(), &agent, pid, 0, "process namespace other than"},
		{"a launcher in another process namespace", "/proc", &agent, 0, 0, "another process namespace"},
		{"a launcher that is not there", "/proc", &agent, 1 << 22, 0, "cannot be seen"},
		{"a launcher of the agent's own user", "/proc", &agent, pid, agent, "the agent's own user"},
		{"no configured user", "/proc", nil, pid, 0, "no namespaces of its own"},
		{"an agent of another user", "/proc", &other, pid, 0, "no namespaces of its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := observe.NewWatchOn(tt.proc, tt.user, time.Now,
				func(_ *observe.Run, f look.Finding) { t.Errorf("found %s", f) })
			run := w.Begin("evt_1", observe.Launch{PID: tt.pid, UID: tt.uid})
			if _, err := run.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantUnseen(t, run, tt.sentence)
		})
	}
	t.Run("a sidecar without rights", func(t *testing.T) {
		l, _ := isolated(t, quiet...)
		raw, err := json.Marshal(l)
		check.Must(t, err)
		_, said := start(t, func(c *exec.Cmd) {
			c.SysProcAttr.Credential = &syscall.Credential{Uid: other, Gid: other}
		}, self(t), "look", string(raw))
		var looks []look.Observation
		if err := json.Unmarshal([]byte(said), &looks); err != nil || len(looks) != len(all) {
			t.Fatalf("%s %v", said, err)
		}
		for _, l := range looks {
			if l.Result != look.NotObserved || !strings.Contains(l.Seen, "permission denied") {
				t.Errorf("%+v", l)
			}
		}
	})
	t.Run("no launcher", func(t *testing.T) {
		if _, err := (*observe.Run)(nil).Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantUnseen(t, nil, "mediator run")
	})
	t.Run("no session", func(t *testing.T) {
		for _, l := range observe.OfRuns(nil) {
			if l.Result != look.NotObserved || !strings.Contains(l.Seen, "No session is open") {
				t.Errorf("%+v", l)
			}
		}
	})
	t.Run("nothing was reported", func(t *testing.T) {
		if (look.Report{}).Covered(look.Terminal) {
			t.Error("the zero report says that something was looked at")
		}
	})
}

func TestGap(t *testing.T) {
	l, _ := isolated(t, quiet...)
	now := time.Unix(1_800_000_000, 0)
	w := observe.NewWatcher(&agent, func() time.Time {
		return now
	}, func(_ *observe.Run, f look.Finding) { t.Errorf("found %s", f) })
	saw := func(run *observe.Run, want bool) {
		t.Helper()
		report, err := run.Look(t.Context())
		if err != nil || report.Covered(look.Stranger) != want || report.Covered(look.Debugger) != want {
			t.Errorf("%+v, %v, want seen %t", report, err, want)
		}
	}
	first := w.Begin("evt_1", l)
	for range 3 {
		now = now.Add(10 * observe.Period)
		saw(first, true)
	}
	now = now.Add(10*observe.Period + 1)
	second := w.Begin("evt_2", l)
	saw(first, false)
	saw(second, true)
	now = now.Add(observe.Period)
	saw(first, false) // for good
	saw(second, true)
	wantUnseen(t, first, "")
	if l := observe.OfRuns([]*observe.Run{first})[3]; !strings.Contains(l.Seen, "there was no observation for 5s") {
		t.Error(l.Seen)
	}
}

// self copies this program to where another user can start it.
func self(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "observe-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := filepath.Join(dir, "self")
	raw, err := os.ReadFile("/proc/self/exe")
	check.Must(t, errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(to, raw, 0o755)))
	return to
}

// wantUnseen wants a run of which nothing was observed.
func wantUnseen(t *testing.T, run *observe.Run, why string) {
	t.Helper()
	report := run.Report()
	for _, l := range observe.OfRuns([]*observe.Run{run}) {
		if l.Result != look.NotObserved || report.Covered(l.Name) || !strings.Contains(l.Seen, why) {
			t.Errorf("%+v, saw %t", l, report.Covered(l.Name))
		}
	}
}

// TestEntered puts a process of another user into a process namespace from outside, as an exec into a pod does. The
// test runs again in its own namespace to see it.
func TestEntered(t *testing.T) {
	if os.Getenv("OBSERVE_INSIDE") == "" {
		self, err := os.Executable()
		inside := exec.Command("unshare", "--pid", "--fork", "--mount-proc", self, "-test.run=^TestEntered$")
		inside.Env, inside.Stderr = append(os.Environ(), "OBSERVE_INSIDE=1"), os.Stderr
		inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		stdin, errIn := inside.StdinPipe()
		stdout, errOut := inside.StdoutPipe()
		check.Must(t, errors.Join(err, errIn, errOut, inside.Start()))
		lines := bufio.NewReader(stdout)
		for line := ""; line != "ready\n"; {
			if line, err = lines.ReadString('\n'); err != nil {
				t.Fatalf("no answer from inside: %v %q", err, line)
			}
		}
		start(t, nil, "nsenter", "--pid="+filepath.Join("/proc", itoa(inside.Process.Pid), "ns/pid_for_children"), "sh",
			"-c", waits)
		if _, err := io.WriteString(stdin, "entered\n"); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err := errors.Join(err, inside.Wait()); err != nil {
			t.Fatalf("%v\n%s", err, rest)
		}
		return
	}
	launcher, _ := launched(t, nil, quiet...)
	run := watcher().Begin("evt_1", of(launcher))
	wantFound(t, run, nil)
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check.Must(t, err)
	wantFound(t, run, []string{look.Stranger})
}

// TestRest: no process is checked before a run begins.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		w := observe.NewWatcher(nil, func() time.Time { looks.Add(1); return time.Now() },
			func(*observe.Run, look.Finding) {})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx)
		time.Sleep(time.Hour)
		if synctest.Wait(); looks.Load() > 0 {
			t.Errorf("%d observations of nothing", looks.Load())
		}
		w.Begin("evt_1", observe.Launch{PID: os.Getpid(), UID: uint32(os.Getuid())})
		time.Sleep(10*observe.Period + 1)
		if synctest.Wait(); looks.Load() < 10 {
			t.Errorf("%d observations in ten periods", looks.Load())
		}
	})
}
