package runs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestRunAsRoot refuses an agent that would run as root, by its number or because root starts it. No event is used up.
func TestRunAsRoot(t *testing.T) {
	r := newSessionRig(t)
	for _, flags := range [][]string{{"--uid", "0"}, {"--uid", "-1"}, {"--uid", "0", "--share-network"}} {
		stdout, stderr, err := r.StartRun(t, nil, flags, "id -u")
		if err == nil || stdout != "" || !strings.Contains(stderr, "and its event still waits: an agent that runs as root") {
			t.Errorf("%v: %v %q %s", flags, err, stdout, stderr)
		}
	}
}

// TestRunByAnotherUser: a user who is not root cannot start agents as others, and hears which groups its agents keep.
func TestRunByAnotherUser(t *testing.T) {
	r := newSessionRig(t)
	as := func(groups ...uint32) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			user := uint32(trial.User())
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user, Groups: groups}
			cmd.Dir = "/"
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*exec.Cmd)
		flags  []string
		says   string
	}{
		{"as root", as(), []string{"--uid", "0"}, "an agent that runs as root"},
		{"as another user", as(), []string{"--uid", "12345"}, "only root can start an agent as user 12345"},
		{"with groups", as(4, 60001), nil, "keeps this user's groups [4 60001]"},
		{"with groups, as itself", as(4, 60001), []string{"--uid", "-1"}, "keeps this user's groups [4 60001]"},
	} {
		_, stderr, err := r.StartRun(t, tt.change, tt.flags, "true") // whom the sidecar's socket does not admit
		if err == nil || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: %v %s", tt.name, err, stderr)
		}
	}
	if _, stderr, _ := r.StartRun(t, as(uint32(trial.User())), nil, "true"); strings.Contains(stderr, "groups") {
		t.Errorf("without other groups: %s", stderr)
	}
}

// TestGitInARun has git work in the operator's repository, from a folder in it, and not in one that another user has put there.
func TestGitInARun(t *testing.T) {
	r := newSessionRig(t)
	dir, err := os.MkdirTemp("/srv", "repository-") // where a run sees the folders above its own
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.Must(t, os.Chmod(dir, 0o755))
	out, err := exec.Command("sh", "-ec", `umask 022; cd "$0"; git init -q .; mkdir -p sub/folder; echo text >sub/folder/file; git add .
git -c user.name=a -c user.email=a@b commit -qm 'the first commit'`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, tt := range runs {
		t.Run(tt.name, func(t *testing.T) {
			start := func() (string, string, error) {
				return r.StartRun(t, func(cmd *exec.Cmd) {
					cmd.Dir = filepath.Join(dir, "sub", "folder")
					if tt.none {
						withoutNamespaces(t)(cmd)
					}
				}, tt.flags, `git log --format=%s; git status --short; git clone -q "$0" "$TMPDIR/copy" && cat "$TMPDIR/copy/sub/folder/file"`, dir)
			}
			if stdout, stderr, err := start(); err != nil || stdout != "the first commit\ntext\n" || strings.Contains(stderr, "dubious") {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
			other := trial.User() + 1
			check.Must(t, errors.Join(os.Chown(filepath.Join(dir, ".git"), other, other)))
			defer func() { check.Must(t, os.Chown(filepath.Join(dir, ".git"), 0, 0)) }()
			if stdout, stderr, err := start(); err == nil || stdout != "" || !strings.Contains(stderr, "dubious") {
				t.Errorf("a repository of user %s: %v %q %s", strconv.Itoa(other), err, stdout, stderr)
			}
		})
	}
}

// denials are what containers and security modules deny to programs in them, as filters of system calls.
var denials = map[string]seccomp.SyscallGroup{
	// The default profile of container runtimes, for a container without CAP_SYS_ADMIN.
	"namespaces": {
		NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "clone", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER}}},
			{Name: "unshare", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER}}},
		},
		Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM),
	},
	// AppArmor's default profile of container runtimes.
	"mounts": {Names: []string{"mount", "umount2", "pivot_root"}, Action: seccomp.ActionErrno | seccomp.Action(unix.EACCES)},
	// AppArmor on Ubuntu: a user namespace in which its maker has no capabilities.
	"capabilities": {
		NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "ioctl", Conditions: []seccomp.Condition{{Argument: 1, Operation: seccomp.Equal, Value: unix.SIOCSIFFLAGS}}},
		},
		Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM),
	},
}

// runDenied executes this program anew with arguments, where something is denied.
func runDenied(args []string) int {
	what, args := args[0], args[1:]
	filter := seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{denials[what]}}}
	err := seccomp.LoadFilter(filter)
	if err == nil {
		err = syscall.Exec("/proc/self/exe", append([]string{"mediator"}, args...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestRunThatCannotBeSetUp falls back only for limits of the machine, and says so. Whatever else goes wrong is refused, and the event
// still waits.
func TestRunThatCannotBeSetUp(t *testing.T) {
	r := newSessionRig(t)
	denied := func(what string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { cmd.Args = append([]string{"mediator", "denied", what}, cmd.Args[1:]...) }
	}
	// within starts mediator run in mounts of its own, after a line of shell.
	within := func(line string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			self, err := os.Executable()
			check.Must(t, err)
			cmd.Path, cmd.Args = kit.Need(t, "unshare"), append([]string{"unshare", "--mount", "sh", "-ec", line + `; exec "$0" "$@"`, self}, cmd.Args[1:]...)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*exec.Cmd)
		falls  bool
		says   string
	}{
		{"a container without user namespaces", denied("namespaces"), true, "new user namespaces are not permitted here (EPERM)"},
		{"a security module that denies mounts", denied("mounts"), true, "the mounts cannot be made private: permission denied"},
		{"a security module that denies capabilities", denied("capabilities"), true, "loopback cannot be brought up in the network namespace: operation not permitted"},
		{"a container that masks parts of /proc", within("mount --bind /dev/null /proc/timer_list"), true, "/proc cannot be mounted, because this container shows its own only in part: operation not permitted"},
		{"a sysctl", withoutNamespaces(t), true, "see sysctl user.max_user_namespaces"},
		{"all namespaces in use", func(cmd *exec.Cmd) {
			withoutNamespaces(t)(cmd)
			cmd.Args[2] = `echo 1 >/proc/sys/user/max_user_namespaces; unshare --user tail --pid=$$ -f /dev/null >/dev/null 2>&1 &
while test "$(readlink /proc/$!/ns/user)" = "$(readlink /proc/self/ns/user)"; do sleep 0.01; done; exec "$0" "$@"`
		}, false, "all namespaces that the machine allows are in use"},
		{"a file where a folder has to be hidden", within("mount -t tmpfs x /var && touch /var/tmp"), false, "/var/tmp cannot be hidden: not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, tt.change, nil, "echo started")
			if !strings.Contains(stderr, tt.says) {
				t.Errorf("it does not say %q: %s", tt.says, stderr)
			}
			if fell := err == nil && stdout == "started\n" && strings.Contains(stderr, "is only declared"); fell != tt.falls {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
			if refused := err != nil && stdout == "" && strings.Contains(stderr, "its event still waits") && strings.Contains(stderr, "isolation_unavailable"); refused == tt.falls {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
			stdout, stderr, err = r.StartRun(t, tt.change, []string{"--require-isolation"}, "echo started")
			if err == nil || stdout != "" || !strings.Contains(stderr, "isolation_unavailable") || !strings.Contains(stderr, tt.says) {
				t.Errorf("with --require-isolation: %v %q %s", err, stdout, stderr)
			}
		})
	}
}

// TestRunAtATerminal starts mediator run as a shell at a terminal does. The agent has none of it, Ctrl-C asks it to end, and a
// stopped mediator run leaves it running.
func TestRunAtATerminal(t *testing.T) {
	r := newSessionRig(t)
	for _, tt := range runs {
		t.Run(tt.name, func(t *testing.T) {
			terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			check.Must(t, err)
			defer terminal.Close()
			number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
			check.Must(t, errors.Join(err, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)))
			theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			check.Must(t, err)
			defer theirs.Close()
			interrupt := func(cmd *exec.Cmd) {
				_ = cmd.Process.Signal(syscall.SIGSTOP)
				_ = cmd.Process.Signal(syscall.SIGCONT)
				_, err := terminal.WriteString("\x03")
				if err != nil {
					t.Error(err)
				}
			}
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) {
				if tt.none {
					withoutNamespaces(t)(cmd)
				}
				cmd.Stdin = theirs
				cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 0
				cmd.Stdout = &onFirst{Writer: cmd.Stdout, do: func() { interrupt(cmd) }}
			}, tt.flags, `trap 'echo asked to end; exit 7' TERM; tty; for fd in 0 1 2; do test -t $fd && echo a terminal; done; (exec </dev/tty) 2>/dev/null && echo the terminal; while :; do sleep 0.1; done`)
			var exit *exec.ExitError
			if stdout != "not a tty\nasked to end\n" || !errors.As(err, &exit) || exit.ExitCode() != 7 {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
		})
	}
}

// TestRunsAtOnce starts many runs together. Each ends with its own status, and nothing is left of them.
func TestRunsAtOnce(t *testing.T) {
	r := newSessionRig(t)
	const many = 24
	marks := strconv.Itoa(os.Getpid()) + "000"
	var wait sync.WaitGroup
	events := make([]string, many)
	for i := range events {
		var err error
		events[i], err = r.DeliverRelease(t.Context())
		check.Must(t, err)
	}
	for i, event := range events {
		wait.Go(func() {
			stdout, stderr, err := r.StartRunFor(t, event, nil, []string{"--require-isolation"},
				`curl -sSf -o /dev/null http://mediator.internal/v1/event; readlink /proc/self/ns/user; (setsid sleep "$1" &) ; exit "$0"`, strconv.Itoa(i), marks)
			code := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			}
			if code != i || strings.Count(stdout, "\n") != 1 {
				t.Errorf("%d: %v %q %s", i, err, stdout, stderr)
			}
		})
	}
	wait.Wait()
	if out, _ := exec.Command("pgrep", "-f", "sleep "+marks).Output(); len(out) > 0 {
		t.Errorf("left behind: %s", out)
	}
}

// TestRunOutlivesItsSidecar ends the sidecar while a run lives. The agent has no way out any more, and its status is still passed on.
func TestRunOutlivesItsSidecar(t *testing.T) {
	r := newSessionRig(t)
	a := startObedient(r, t)
	a.tell("post")
	a.hear(" 201")
	r.Stack.Stop()
	a.tell("post 2>&1")
	a.hear("curl: (7)")
	a.tell("exit 3")
	_ = a.run.Wait()
	if code := a.run.ProcessState.ExitCode(); code != 3 || !strings.Contains(a.errs.String(), "end the session: ") {
		t.Errorf("%d %s", code, a.errs)
	}
}

// TestRunInARun starts mediator run as an agent. It opens no session.
func TestRunInARun(t *testing.T) {
	r := newSessionRig(t)
	dir, err := os.MkdirTemp("/srv", "mediator-") // where a run sees it, and its user can execute it
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	copied := filepath.Join(dir, "mediator")
	raw, err := os.ReadFile("/proc/self/exe")
	check.Must(t, errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(copied, raw, 0o755)))
	for _, tt := range runs {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) {
				if tt.none {
					withoutNamespaces(t)(cmd)
				}
			}, tt.flags, `"$0" run --admin "$1" -- echo inner; echo outer`, copied, r.Stack.Admin())
			if err != nil || stdout != "outer\n" || !strings.Contains(stderr, "open a session: ") {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
		})
	}
}
