package runs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tt := range []struct {
		name string
		play func(*testing.T, *kit.Rig)
	}{
		{"the agent cannot reach the mediator", reachNothing},
		{"a run ends as its command does", endAsTheCommand},
		{"the agent inherits nothing", inheritNothing},
		{"the agent keeps its folder", keepFolder},
		{"not isolated", notIsolated},
		{"a run leaves nothing behind", leaveNothing},
		{"shells of operators", operatorsShells},
		{"the launcher is killed", launcherGone},
		{"asked to end", askedToEnd},
		{"an agent as root", asRoot},
		{"started by another user", byAnotherUser},
		{"git", useGit},
		{"isolation that cannot be set up", cannotBeSetUp},
		{"at a terminal", atATerminal},
		{"many at once", atOnce},
		{"a run in a run", inARun},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.play(t, r) })
	}
}

func kinds(r *kit.Rig) []kind {
	return []kind{
		{"isolated", nil, false},
		{"with a shared user", uid(r.User), false},
		{"without namespaces", nil, true},
	}
}

type kind struct {
	name  string
	flags []string
	none  bool // no namespaces can be made
}

func (k kind) change(t *testing.T, cmd *exec.Cmd) {
	if k.none {
		withoutNamespaces(t)(cmd)
	}
}

func withoutNamespaces(t *testing.T) func(*exec.Cmd) {
	return withNamespaces(t, `echo 0 >/proc/sys/user/max_user_namespaces`)
}

// withNamespaces starts a command in a user namespace after a line of shell, which can limit the namespaces below it.
func withNamespaces(t *testing.T, line string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		inShell(t, cmd, line)
		same := []syscall.SysProcIDMap{{Size: 1 << 16}}
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = same, same
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	}
}

func inShell(t *testing.T, cmd *exec.Cmd, line string) {
	cmd.Path = kit.Need(t, "sh")
	cmd.Args = append([]string{"sh", "-ec", line + `; exec "$0" "$@"`, kit.Self(t)}, cmd.Args[1:]...)
}

func reachNothing(t *testing.T, r *kit.Rig) {
	asNobody := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: credential(launch.DefaultUID)}
		out, _, _ := kit.Output(cmd)
		return out
	}
	for _, process := range kit.Processes {
		socket := r.Stack.Socket(process)
		if out := asNobody(kit.Need(t, "curl"), "-sS", "--unix-socket", socket, "http://x/healthz"); out != "" {
			t.Errorf("the agent reaches %s: %s", socket, out)
		}
	}
	for _, name := range []string{
		"secrets/api-token", "secrets/webhook", "state/ledger.db", "reputation", "mediator.yaml", "serve.log",
	} {
		if out := asNobody("/bin/cat", r.In(name)); out != "" {
			t.Errorf("the agent reads %s", name)
		}
	}
}

// A command that does not exist costs no event.
func endAsTheCommand(t *testing.T, r *kit.Rig) {
	event := r.Event(t)
	for _, tt := range []struct {
		command []string
		says    string
		status  int
	}{
		{[]string{"/nowhere/agent"}, "and its event still waits: ", program.Refused},
		{[]string{"no-such-agent"}, "and its event still waits: ", program.Refused},
		{[]string{"sh", "-c", "kill -KILL $$"}, "", 128 + 9},
	} {
		cmd := r.RunCommand(t, event, uid(r.User), tt.command...)
		_, said, _ := kit.Output(cmd)
		if got := cmd.ProcessState.ExitCode(); got != tt.status || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %d, want %d: %s", tt.command, got, tt.status, said)
		}
	}
}

// inheritNothing starts a run with an open key file, a terminal, a secret, and a folder that the agent cannot enter.
func inheritNothing(t *testing.T, r *kit.Rig) {
	secret := t.TempDir() + "/closed" // kit.Write makes it with mode 0700
	key := secret + "/key"
	kit.Write(t, key, "key text")
	check.Must(t, os.WriteFile(secret+"/secret", []byte("hidden text"), 0o644))
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	check.Must(t, err)
	defer terminal.Close()
	const script = `for fd in 3 4 5 6 7 8 9 10 11 12; do (eval "timeout 2 cat <&$fd") 2>/dev/null; done
readlink /proc/self/fd/* | grep -v -e '^pipe:' -e '^/dev/null' -e '^/proc'; cat secret ./secret 2>&1
env; echo "in $(pwd)"; echo "read $(cat | wc -c) bytes"; touch "$HOME/file" "$TMPDIR/file" && echo "at home"`
	flags := []string{"--env", "PASSED_ON", "--env", "GIVEN=given text", "--env", "NO_PROXY=*", "--env",
		"HTTPS_PROXY=http://elsewhere"}
	for _, k := range kinds(r) {
		t.Run(k.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) {
				file, err := os.Open(key)
				check.Must(t, err)
				t.Cleanup(func() { file.Close() })
				cmd.ExtraFiles = []*os.File{file, file, file, file, file, file, terminal}
				cmd.Dir, cmd.Env = secret, append(os.Environ(), "VAULT_TOKEN=vault text", "PASSED_ON=passed text")
				k.change(t, cmd)
			}, kit.With(k.flags, flags...), script)
			if err != nil {
				t.Fatalf("%v\n%s%s", err, stdout, stderr)
			}
			for _, not := range []string{"key text", "hidden text", "vault text", "/dev/pts", "in " + secret, "NO_PROXY",
				"elsewhere"} {
				if strings.Contains(stdout, not) {
					t.Errorf("the agent has %q:\n%s", not, stdout)
				}
			}
			for _, want := range []string{
				"PASSED_ON=passed text\n", "GIVEN=given text\n", "read 0 bytes\n", "at home\n", "PATH=" + os.Getenv("PATH") + "\n",
			} {
				if !strings.Contains(stdout, want) {
					t.Errorf("the agent lacks %q:\n%s", want, stdout)
				}
			}
			if !strings.Contains(stderr, "cannot enter "+secret) {
				t.Errorf("it does not say that the agent starts elsewhere: %s", stderr)
			}
		})
	}
	for _, env := range []string{"NOT_SET_ANYWHERE", "=x"} {
		_, stderr, err := r.StartRun(t, nil, []string{"--env", env}, "true")
		if err == nil || !strings.Contains(stderr, "its event still waits") {
			t.Errorf("--env %s: %v %s", env, err, stderr)
		}
	}
}

// keepFolder starts an agent in a folder below /tmp and a closed one. It sees that folder, although it has a /tmp of
// its own.
func keepFolder(t *testing.T, r *kit.Rig) {
	closed := openFolder(t, "")
	dir := closed + "/open"
	check.Must(t, errors.Join(os.Mkdir(dir, 0o755), os.Chmod(closed, 0o700),
		os.WriteFile(dir+"/file", []byte("what is there"), 0o644))) //nolint:gosec // on purpose
	stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) { cmd.Dir = dir }, nil,
		`cat file; pwd; ls /tmp; ls /tmp | wc -l; id -u; ls /run /run/agent`)
	want := "what is there" + dir + "\n" + filepath.Base(closed) +
		"\n1\n1000\n/run:\nagent\n\n/run/agent:\nca.pem\netc\nhome\n"
	if err != nil || stdout != want {
		t.Errorf("got %q, want %q: %v %s", stdout, want, err, stderr)
	}
}

func notIsolated(t *testing.T, r *kit.Rig) {
	post := `curl -sS -w ' %{http_code}\n' -H 'Content-Type: application/json' -d '{"body":"x"}' "https://$0` +
		kit.Comments + `"`
	for _, k := range kinds(r)[1:] {
		t.Run(k.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) { k.change(t, cmd) }, k.flags, post, r.Plain())
			if err != nil || !strings.HasSuffix(stdout, " 201\n") || !strings.Contains(stderr, "only declared") ||
				k.none != strings.Contains(stderr, "max_user_namespaces") {
				t.Errorf("%v %s %s", err, stdout, stderr)
			}
			wantEntered(t, r, false)
		})
	}
	event := r.Event(t)
	start := func(change func(*exec.Cmd)) (said string, status int) {
		cmd := r.RunCommand(t, event, []string{"--require-isolation"}, "true")
		change(cmd)
		_, said, _ = kit.Output(cmd)
		return said, cmd.ProcessState.ExitCode()
	}
	if said, status := start(withoutNamespaces(t)); status != program.Refused ||
		!strings.Contains(said, "isolation_unavailable") {
		t.Errorf("%d %s", status, said)
	}
	if said, status := start(func(*exec.Cmd) {}); status != program.Done { // the event still waits
		t.Errorf("%d %s", status, said)
	}
}

func leaveNothing(t *testing.T, r *kit.Rig) {
	for _, signal := range []syscall.Signal{0, syscall.SIGKILL} {
		a := startObedient(t, r)
		a.tell(`(setsid sh -c 'trap "" TERM HUP; echo $$; while :; do sleep 1000; done' &)`)
		left := a.pid(a.hear(""))
		if signal == 0 {
			a.tell("exit 7")
		} else {
			check.Must(t, a.run.Process.Signal(signal))
		}
		_ = a.run.Wait()
		if signal == 0 && a.run.ProcessState.ExitCode() != 7 {
			t.Errorf("the launcher ends with %d", a.run.ProcessState.ExitCode())
		}
		kit.Until(t, fmt.Sprintf("the end of process %d", left), func() bool { return syscall.Kill(left, 0) != nil })
	}
}

func operatorsShells(t *testing.T, r *kit.Rig) {
	outside, err := os.Readlink("/proc/self/ns/net")
	check.Must(t, err)
	shared := openFolder(t, "/dev/shm")
	in := func(dir string) func(*exec.Cmd) { return func(c *exec.Cmd) { c.Dir = dir } }
	for name, tt := range map[string]struct {
		change       func(*exec.Cmd)
		script, want string
	}{
		"in a folder of /dev/shm": {in(shared), "pwd", shared},
		"in /dev/shm":             {in("/dev/shm"), "ls /dev/shm >/dev/null && echo there", "there"},
		"among the terminals":     {in("/dev/pts"), "pwd", isolate.Home},
		"with a strict umask": {
			func(c *exec.Cmd) { inShell(t, c, "umask 077") },
			`test -z "$(find /etc/ssl/certs /etc/chromium -type f ! -readable)" && head -1 ` + isolate.CAFile,
			"-----BEGIN CERTIFICATE-----",
		},
		"with browser policies that others cannot read, or that are elsewhere": {
			func(c *exec.Cmd) {
				c.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
				inShell(t, c, `mount -t tmpfs x /etc/opt
(cd /etc/opt; mkdir -p chrome chrome_for_testing/policies; mkdir -m 700 chrome/policies
mkdir -m 777 other; ln -s /etc/opt/other chrome_for_testing/policies/managed)`)
			}, `test -z "$(ls /etc/opt/other)" && ls /etc/opt/chrome/policies/managed`, "mediator.json",
		},
		"with a slow reader": { // which takes longer than an agent has to end after SIGTERM
			func(c *exec.Cmd) {
				c.Stdout = &onFirst{c.Stdout, func() { time.Sleep(6 * time.Second) }}
			}, "seq 1 20000; echo END", "END",
		},
	} {
		t.Run(name, func(t *testing.T) {
			flags := []string{"--require-isolation"}
			stdout, stderr, err := r.StartRun(t, tt.change, flags, "readlink /proc/self/ns/net; "+tt.script)
			if err != nil || strings.Contains(stdout, outside) || !strings.HasSuffix(strings.TrimSpace(stdout), tt.want) ||
				len(strings.Fields(stdout)) < 2 {
				t.Errorf("%v, %q%s", err, stdout[max(0, len(stdout)-200):], stderr)
			}
		})
	}
}

type onFirst struct {
	io.Writer
	do func()
}

func (w *onFirst) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return w.Writer.Write(p)
}

func launcherGone(t *testing.T, r *kit.Rig) {
	done := func() int {
		out := kit.Run(t, "events", "list", "--json", "--trigger", "unix:"+r.Stack.Socket("trigger"))
		return strings.Count(out, `"done"`)
	}
	a := startObedient(t, r)
	before := done()
	check.Must(t, a.run.Process.Kill())
	_ = a.run.Wait()
	kit.Until(t, "the event of a session that nobody closed", func() bool { return done() > before })
}

func askedToEnd(t *testing.T, r *kit.Rig) {
	for _, flags := range [][]string{{"--require-isolation"}, uid(r.User)} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			stdout, stderr, err := r.StartRun(t, func(c *exec.Cmd) {
				c.Stdout = &onFirst{Writer: c.Stdout, do: func() { _ = c.Process.Signal(signal) }}
			}, flags, `trap 'echo ended; exit 0' TERM; echo begun; while :; do sleep 0.1; done`)
			if err != nil || stdout != "begun\nended\n" {
				t.Errorf("%v, %s: %v, %q%s", flags, signal, err, stdout, stderr)
			}
		}
	}
}

// No agent runs as root, by its number or because root starts it. No event is used up.
func asRoot(t *testing.T, r *kit.Rig) {
	for _, flags := range [][]string{uid(0), uid(-1)} {
		stdout, stderr, err := r.StartRun(t, nil, flags, "id -u")
		if err == nil || stdout != "" || !strings.Contains(stderr, "and its event still waits: an agent that runs as root") {
			t.Errorf("%v: %v %q %s", flags, err, stdout, stderr)
		}
	}
}

// A user other than root cannot start agents as others, and learns which groups its agents keep.
func byAnotherUser(t *testing.T, r *kit.Rig) {
	as := func(groups ...uint32) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { cmd.SysProcAttr.Credential, cmd.Dir = credential(r.User, groups...), "/" }
	}
	for _, tt := range []struct {
		name   string
		change func(*exec.Cmd)
		flags  []string
		says   string
	}{
		{"as root", as(), uid(0), "an agent that runs as root"},
		{"as another user", as(), uid(12345), "only root can start an agent as user 12345"},
		{"with groups", as(4, 60001), nil, "keeps this user's groups [4 60001]"},
		{"with groups, as itself", as(4, 60001), uid(-1), "keeps this user's groups [4 60001]"},
	} {
		_, stderr, err := r.StartRun(t, tt.change, tt.flags, "true") // the sidecar's socket does not admit this user
		if err == nil || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: %v %s", tt.name, err, stderr)
		}
	}
	if _, stderr, _ := r.StartRun(t, as(uint32(r.User)), nil, "true"); strings.Contains(stderr, "groups") {
		t.Errorf("without other groups: %s", stderr)
	}
}

func useGit(t *testing.T, r *kit.Rig) {
	dir := openFolder(t, "/srv") // where a run sees the folders above its own
	out, err := exec.Command("sh", "-ec", `umask 022; cd "$0"; git init -q .; mkdir -p sub/folder
echo text >sub/folder/file; git add .
git -c user.name=a -c user.email=a@b commit -qm 'the first commit'`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	const script = `git log --format=%s; git status --short
git clone -q "$0" "$TMPDIR/copy" && cat "$TMPDIR/copy/sub/folder/file"`
	for _, k := range kinds(r) {
		t.Run(k.name, func(t *testing.T) {
			start := func() (string, string, error) {
				return r.StartRun(t, func(cmd *exec.Cmd) {
					cmd.Dir = dir + "/sub/folder"
					k.change(t, cmd)
				}, k.flags, script, dir)
			}
			if stdout, stderr, err := start(); err != nil || stdout != "the first commit\ntext\n" ||
				strings.Contains(stderr, "dubious") {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
			git := dir + "/.git"
			check.Must(t, os.Chown(git, r.User+1, r.User+1))
			defer func() { check.Must(t, os.Chown(git, 0, 0)) }()
			if stdout, stderr, err := start(); err == nil || stdout != "" || !strings.Contains(stderr, "dubious") {
				t.Errorf("a repository of another user: %v %q %s", err, stdout, stderr)
			}
		})
	}
}

// cannotBeSetUp falls back only for limits of the machine, and says so. Anything else is refused, and the event still
// waits.
func cannotBeSetUp(t *testing.T, r *kit.Rig) {
	denied := func(what string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { cmd.Args = append([]string{"mediator", "denied", what}, cmd.Args[1:]...) }
	}
	withMounts := func(line string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			inShell(t, cmd, line)
			cmd.Path, cmd.Args = kit.Need(t, "unshare"), append([]string{"unshare", "--mount"}, cmd.Args...)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*exec.Cmd)
		falls  bool
		says   string
	}{
		{"a container without user namespaces", denied("namespaces"), true,
			"new user namespaces are not permitted here (EPERM)"},
		{"a security module that denies mounts", denied("mounts"), true,
			"the mounts cannot be made private: permission denied"},
		{"a security module that denies capabilities", denied("capabilities"), true,
			"loopback cannot be brought up in the network namespace: operation not permitted"},
		{"a container that masks parts of /proc", withMounts("mount --bind /dev/null /proc/timer_list"), true,
			"/proc cannot be mounted, because parts of this container's own /proc are hidden: operation not permitted"},
		{"a sysctl", withoutNamespaces(t), true, "see sysctl user.max_user_namespaces"},
		{"all namespaces in use", withNamespaces(t, `echo 1 >/proc/sys/user/max_user_namespaces
unshare --user tail --pid=$$ -f /dev/null >/dev/null 2>&1 &
while test "$(readlink /proc/$!/ns/user)" = "$(readlink /proc/self/ns/user)"; do sleep 0.01; done`), false,
			"the machine's limit of namespaces is reached"},
		{"a file where a folder has to be hidden", withMounts("mount -t tmpfs x /var; touch /var/tmp"), false,
			"/var/tmp cannot be hidden: not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, tt.change, nil, "echo started")
			if !strings.Contains(stderr, tt.says) {
				t.Errorf("it does not say %q: %s", tt.says, stderr)
			}
			fell := err == nil && stdout == "started\n" && strings.Contains(stderr, "is only declared")
			refused := err != nil && stdout == "" && strings.Contains(stderr, "its event still waits") &&
				strings.Contains(stderr, "isolation_unavailable")
			if fell != tt.falls || refused == tt.falls {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
			stdout, stderr, err = r.StartRun(t, tt.change, []string{"--require-isolation"}, "echo started")
			if err == nil || stdout != "" || !strings.Contains(stderr, "isolation_unavailable") ||
				!strings.Contains(stderr, tt.says) {
				t.Errorf("with --require-isolation: %v %q %s", err, stdout, stderr)
			}
		})
	}
}

// atATerminal starts mediator run as a shell at a terminal does. The agent has no terminal, Ctrl-C asks it to end, and
// it keeps running while mediator run is stopped.
func atATerminal(t *testing.T, r *kit.Rig) {
	const script = `trap 'echo asked to end; exit 7' TERM; tty; for fd in 0 1 2; do test -t $fd && echo a terminal; done
(exec </dev/tty) 2>/dev/null && echo the terminal; while :; do sleep 0.1; done`
	for _, k := range kinds(r) {
		t.Run(k.name, func(t *testing.T) {
			const flags = os.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
			terminal, err := os.OpenFile("/dev/ptmx", flags, 0)
			check.Must(t, err)
			defer terminal.Close()
			number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
			check.Must(t, errors.Join(err, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)))
			theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), flags, 0)
			check.Must(t, err)
			defer theirs.Close()
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) {
				k.change(t, cmd)
				cmd.Stdin = theirs
				cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 0
				cmd.Stdout = &onFirst{Writer: cmd.Stdout, do: func() {
					_ = cmd.Process.Signal(syscall.SIGSTOP)
					_ = cmd.Process.Signal(syscall.SIGCONT)
					if _, err := terminal.WriteString("\x03"); err != nil {
						t.Error(err)
					}
				}}
			}, k.flags, script)
			var exit *exec.ExitError
			if stdout != "not a tty\nasked to end\n" || !errors.As(err, &exit) || exit.ExitCode() != 7 {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
		})
	}
}

func atOnce(t *testing.T, r *kit.Rig) {
	many, marks := kit.Size(8, 24), strconv.Itoa(os.Getpid())+"000"
	const script = `curl -sSf -o /dev/null http://mediator.internal/v1/event; readlink /proc/self/ns/user
(setsid sleep "$1" &) ; exit "$0"`
	var wait sync.WaitGroup
	for i := range many {
		event := r.Event(t)
		wait.Go(func() {
			cmd := r.RunCommand(t, event, []string{"--require-isolation"}, "sh", "-c", script, strconv.Itoa(i), marks)
			stdout, stderr, err := kit.Output(cmd)
			if cmd.ProcessState.ExitCode() != i || strings.Count(stdout, "\n") != 1 {
				t.Errorf("%d: %v %q %s", i, err, stdout, stderr)
			}
		})
	}
	wait.Wait()
	if out, _ := exec.Command("pgrep", "-f", "sleep "+marks).Output(); len(out) > 0 {
		t.Errorf("left behind: %s", out)
	}
}

func inARun(t *testing.T, r *kit.Rig) {
	copied := filepath.Join(openFolder(t, "/srv"), "mediator") // where a run sees it, and its user can execute it
	check.Must(t, os.WriteFile(copied, kit.Read(t, "/proc/self/exe"), 0o755))
	for _, k := range kinds(r) {
		t.Run(k.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) { k.change(t, cmd) }, k.flags,
				`"$0" run --admin "$1" -- echo inner; echo outer`, copied, r.Stack.Admin())
			if err != nil || stdout != "outer\n" || !strings.Contains(stderr, "open a session: ") {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
		})
	}
}

func TestRunOutlivesItsSidecar(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startObedient(t, r)
	a.post(" 201")
	r.Stack.Stop()
	a.tell("post 2>&1")
	a.hear("curl: (7)")
	a.tell("exit 3")
	_ = a.run.Wait()
	if code := a.run.ProcessState.ExitCode(); code != 3 || !strings.Contains(a.errs.String(), "end the session: ") {
		t.Errorf("%d %s", code, a.errs)
	}
}

// What another user types into a run through a file enters no process, so a shell stays only declared.
func TestTypedCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startObedient(t, r)
	check.Must(t, os.Chmod(a.tells, 0o666))
	file := filepath.Join(filepath.Dir(a.tells), "file")
	check.Must(t, errors.Join(os.WriteFile(file, nil, 0), os.Chmod(file, 0o666)))
	for _, to := range []string{a.tells, file} {
		if to == file {
			a.tell(`tail -n +1 -f "${0%/*}/file" | while read -r line; do eval "$line"; done &`)
		}
		typing := exec.Command("sh", "-c", `echo post >>"$0"`, to)
		typing.SysProcAttr = &syscall.SysProcAttr{Credential: credential(60573), Pdeathsig: syscall.SIGKILL}
		check.Must(t, typing.Run())
		a.hear(" 201")
		wantEntered(t, r, true)
		wantDeclared(t, r, "no process was put in from outside", "a file, a FIFO, a socket")
	}
}
