package runs

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// withoutNamespaces starts a command where no namespace can be made, as in a container that forbids it.
func withoutNamespaces(t *testing.T) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		self, err := os.Executable()
		check.Must(t, err)
		cmd.Path = kit.Need(t, "sh")
		cmd.Args = append([]string{"sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`, self}, cmd.Args[1:]...)
		same := []syscall.SysProcIDMap{{Size: 1 << 16}} // the limit is that of a user namespace
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.GidMappingsEnableSetgroups = same, same, true
	}
}

// ways in which an agent runs.
var runs = []struct {
	name  string
	flags []string
	none  bool // no namespaces can be made
}{
	{"isolated", nil, false},
	{"with a shared user", []string{"--uid", strconv.Itoa(trial.User())}, false},
	{"with a shared network", []string{"--share-network"}, false},
	{"without namespaces", nil, true},
}

// TestRunInheritsNothing starts mediator run with what an operator's shell may have: an open key file, a terminal, a secret in the
// environment, and a folder that the agent's user could not enter.
func TestRunInheritsNothing(t *testing.T) {
	r := newSessionRig(t)
	secret := filepath.Join(t.TempDir(), "closed", "open") // below a folder of mode 0700
	check.Must(t, os.MkdirAll(secret, 0o755))
	check.Must(t, os.Chmod(filepath.Dir(secret), 0o700))
	check.Must(t, os.WriteFile(filepath.Join(secret, "secret"), []byte("hidden text"), 0o644))
	key := filepath.Join(secret, "key")
	check.Must(t, os.WriteFile(key, []byte("key text"), 0o600))
	t.Setenv("VAULT_TOKEN", "vault text")
	t.Setenv("PASSED_ON", "passed text")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	check.Must(t, err)
	defer terminal.Close()
	for _, tt := range runs {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) {
				file, err := os.Open(key)
				check.Must(t, err)
				t.Cleanup(func() { file.Close() })
				cmd.ExtraFiles = []*os.File{3: nil, 4: file, 6: terminal}
				cmd.ExtraFiles[0], cmd.ExtraFiles[1], cmd.ExtraFiles[2], cmd.ExtraFiles[3], cmd.ExtraFiles[5] = file, file, file, file, file
				cmd.Dir = secret
				if tt.none {
					withoutNamespaces(t)(cmd)
				}
			}, append(slices.Clone(tt.flags), "--env", "PASSED_ON", "--env", "GIVEN=given text", "--env", "NO_PROXY=*", "--env", "HTTPS_PROXY=http://elsewhere"),
				`for fd in 3 4 5 6 7 8 9 10 11 12; do (eval "timeout 2 cat <&$fd") 2>/dev/null; done; readlink /proc/self/fd/* | grep -v -e '^pipe:' -e '^/dev/null' -e '^/proc'; cat secret ./secret 2>&1
env; echo "in $(pwd)"; echo "read $(cat | wc -c) bytes"; touch "$HOME/file" "$TMPDIR/file" && echo "at home"`)
			if err != nil {
				t.Fatalf("%v\n%s%s", err, stdout, stderr)
			}
			for _, not := range []string{"key text", "hidden text", "vault text", "/dev/pts", "in " + secret, "NO_PROXY", "elsewhere"} {
				if strings.Contains(stdout, not) {
					t.Errorf("the agent has %q:\n%s", not, stdout)
				}
			}
			for _, want := range []string{"PASSED_ON=passed text\n", "GIVEN=given text\n", "read 0 bytes\n", "at home\n", "PATH=" + os.Getenv("PATH") + "\n"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("the agent lacks %q:\n%s", want, stdout)
				}
			}
			if !strings.Contains(stderr, "cannot enter "+secret) {
				t.Errorf("nobody is told that the agent starts elsewhere: %s", stderr)
			}
		})
	}
	for _, env := range []string{"NOT_SET_ANYWHERE", "=x"} {
		if _, stderr, err := r.StartRun(t, nil, []string{"--env", env}, "true"); err == nil || !strings.Contains(stderr, "its event still waits") {
			t.Errorf("--env %s: %v %s", env, err, stderr)
		}
	}
}

// TestRunKeepsItsFolder starts an agent in a folder below /tmp, which it has, although the rest of /tmp is another one.
func TestRunKeepsItsFolder(t *testing.T) {
	r := newSessionRig(t)
	dir, err := os.MkdirTemp("", "folder-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.Must(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("what is there"), 0o644)))
	stdout, stderr, err := r.StartRun(t, func(cmd *exec.Cmd) { cmd.Dir = dir }, nil, `cat file; pwd; ls /tmp; ls /tmp | wc -l; id -u; ls /run /run/agent`)
	if want := "what is there" + dir + "\n" + filepath.Base(dir) + "\n1\n1000\n/run:\nagent\n\n/run/agent:\nca.pem\nhome\n"; err != nil || stdout != want {
		t.Errorf("got %q, want %q: %v %s", stdout, want, err, stderr)
	}
}

// TestNoWayOutOfARun has an isolated agent try what would lead past the mediator, without any rules of mediator guard. Each way is
// open outside the run.
func TestNoWayOutOfARun(t *testing.T) {
	r := newSessionRig(t)
	listen := func(network, address string) string {
		l, err := net.Listen(network, address)
		check.Must(t, err)
		t.Cleanup(func() { l.Close() })
		return l.Addr().String()
	}
	dir, err := os.MkdirTemp("", "sockets-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.Must(t, os.Chmod(dir, 0o755))
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	check.Must(t, err)
	defer datagrams.Close()
	ways := strings.Join([]string{
		"tcp " + listen("tcp", "127.0.0.1:0"), "tcp " + listen("tcp", "[::1]:0"), "tcp " + r.Hooks, "tcp " + r.PlainAddr, "tcp 169.254.169.254:80", "tcp 1.1.1.1:443",
		"udp " + datagrams.LocalAddr().String(), "udp 169.254.169.254:53", "udp 1.1.1.1:53",
		"unix " + listen("unix", "@mediator-test-"+strconv.Itoa(os.Getpid())), "unix " + listen("unix", filepath.Join(dir, "socket")), "unix " + r.Stack.Socket("serve"),
		"socket 40", "socket 17", "socket 38", "uring 0", "key 0",
	}, "\n")
	const try = `
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
for line in sys.argv[1].split("\n"):
    kind, to = line.split(" ", 1)
    try:
        if kind == "socket": socket.socket(int(to), socket.SOCK_DGRAM if to == "40" else socket.SOCK_SEQPACKET)
        elif kind == "uring":
            if libc.syscall(425, 1, ctypes.create_string_buffer(120)) < 0: raise OSError(ctypes.get_errno(), "io_uring")
        elif kind == "key":
            if libc.syscall({"x86_64": 250}.get(__import__("os").uname().machine, 219), 0, -3, 0, 0, 0) < 0: raise OSError(ctypes.get_errno(), "keyctl")
        elif kind == "unix":
            socket.socket(socket.AF_UNIX).connect(to.replace("@", "\0"))
        else:
            host, port = to.rsplit(":", 1)
            s = socket.socket(socket.AF_INET6 if "[" in host else socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
            s.settimeout(5)
            s.connect((host.strip("[]"), int(port)))
            if kind == "udp":
                s.send(b"a secret")
                s.send(b"a secret") # a refusal of the first is told with the second
        print("OPEN", line)
    except OSError as e:
        print("closed", line, e)`
	stdout, stderr, err := r.StartRun(t, nil, nil, `/usr/bin/python3 -c "$0" "$1"; curl -sS -o /dev/null -w '%{http_code}\n' "https://$2/repos/acme/site"`, try, ways, r.Plain())
	if err != nil || strings.Contains(stdout, "OPEN") || strings.Count(stdout, "closed ") != strings.Count(ways, "\n")+1 || !strings.HasSuffix(stdout, "\n200\n") {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
	outside, err := exec.Command("/usr/bin/python3", "-c", try, ways).Output()
	check.Must(t, err)
	for _, way := range []string{"tcp 127.0.0.1:", "tcp [::1]:", "tcp " + r.Hooks, "udp 127.0.0.1:", "unix @mediator-test-", "unix " + dir, "key 0"} {
		if !strings.Contains(string(outside), "OPEN "+way) {
			t.Errorf("%s is closed outside too, so this test shows nothing:\n%s", way, outside)
		}
	}
}

// hiddenShell is a shell whose first thread has ended: it looks for credentials of a session in the environment of all processes, and
// posts with what it finds, or without.
const hiddenShell = `
import ctypes, glob, os, re, subprocess, sys, threading, time
def work():
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z": time.sleep(0.01)
    proxies = set()
    for name in glob.glob("/proc/[0-9]*/environ"):
        try: proxies |= set(re.findall(r"HTTPS_PROXY=(http://ses_[^\0]+)", open(name).read()))
        except OSError: pass
    for proxy in list(proxies) + [sys.argv[1]]:
        print(len(proxies), subprocess.run(["curl", "-sS", "-k", "-x", proxy, "-w", " %{http_code}", "-H", "Content-Type: application/json", "-d", '{"body":"typed"}', sys.argv[2]],
            capture_output=True, text=True), flush=True)
    print("done", flush=True)
    time.sleep(1000)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)`

// TestHiddenShell has a user with the agent's configured uid hide a shell from looks at processes, and post what is typed. An isolated
// agent has another user and nothing worth reading. The session of an agent that shares its user is tainted.
func TestHiddenShell(t *testing.T) {
	r := newSessionRig(t)
	comments := "https://" + r.Plain() + "/repos/acme/site/issues/7/comments"
	shell := func(t *testing.T) (end func(), said string) {
		t.Helper()
		cmd, line := beside(t, trial.User(), "/usr/bin/python3", "-c", hiddenShell, "http://"+r.Listen, comments)
		return func() { endBeside(cmd) }, line
	}
	t.Run("isolated", func(t *testing.T) {
		a := startObedient(r, t)
		before := r.Posts.Load()
		end, said := shell(t)
		defer end()
		if !strings.HasPrefix(said, "0 ") || r.Posts.Load() != before {
			t.Errorf("the shell found credentials, or posted: %s", said)
		}
		a.tell("post")
		a.hear(" 201")
		_, c := receipt(r, t)
		wantEntered(t, c, true)
		if _, text, controls := r.Doctor(t); !slices.Contains(controls[policy.DeclaredOnly], shellControl) || !strings.Contains(text, "Root and the container runtime can") {
			t.Errorf("%s", text)
		}
		a.tell(`tr '\0' '\n' </proc/self/environ | grep -c -e ses_ -e @; echo`)
		a.hear("0")
		a.hear("")
	})
	t.Run("with a shared user", func(t *testing.T) {
		a := startObedient(r, t, "--uid", strconv.Itoa(trial.User()))
		a.tell("post")
		a.hear(" 201")
		_, c := receipt(r, t)
		wantEntered(t, c, false)
		if _, text, controls := r.Doctor(t); !slices.Contains(controls[policy.DeclaredOnly], shellControl) {
			t.Errorf("%s", text)
		}
		end, _ := shell(t)
		defer end()
		a.tell("post")
		a.hear(`"code":"session_tainted"`)
	})
}

// TestTypedCommands lets another user type into an isolated run through a FIFO, and through a file that the agent follows.
// No process entered the run, and that alone is observed: that no user has a shell stays declared.
func TestTypedCommands(t *testing.T) {
	r := newSessionRig(t)
	a := startObedient(r, t)
	check.Must(t, os.Chmod(a.tells, 0o666))
	file := filepath.Join(filepath.Dir(a.tells), "file")
	check.Must(t, errors.Join(os.WriteFile(file, nil, 0), os.Chmod(file, 0o666)))
	for _, to := range []string{a.tells, file} {
		if to == file {
			a.tell(`tail -n +1 -f "${0%/*}/file" | while read -r line; do eval "$line"; done &`)
		}
		typing := exec.Command("sh", "-c", `echo post >>"$0"`, to)
		typing.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 60573, Gid: 60573}, Pdeathsig: syscall.SIGKILL}
		check.Must(t, typing.Run())
		a.hear(" 201")
		_, c := receipt(r, t)
		wantEntered(t, c, true)
		if _, text, controls := r.Doctor(t); !slices.Contains(controls[policy.DeclaredOnly], shellControl) ||
			!strings.Contains(text, "no process was put in from outside") || !strings.Contains(text, "a file, a FIFO, a socket") {
			t.Error(text)
		}
	}
}

// TestRunNotIsolated falls back and says why, claims nothing, and refuses where isolation is required.
func TestRunNotIsolated(t *testing.T) {
	r := newSessionRig(t)
	post := `curl -sS -w ' %{http_code}\n' -H 'Content-Type: application/json' -d '{"body":"x"}' "https://$0/repos/acme/site/issues/7/comments"`
	for _, tt := range runs[1:] {
		t.Run(tt.name, func(t *testing.T) {
			change := func(*exec.Cmd) {}
			if tt.none {
				change = withoutNamespaces(t)
			}
			stdout, stderr, err := r.StartRun(t, change, tt.flags, post, r.Plain())
			if err != nil || !strings.HasSuffix(stdout, " 201\n") || !strings.Contains(stderr, "only declared") || tt.none != strings.Contains(stderr, "max_user_namespaces") {
				t.Errorf("%v %s %s", err, stdout, stderr)
			}
			_, c := receipt(r, t)
			wantEntered(t, c, false)
		})
	}
	event, err := r.DeliverRelease(t.Context())
	check.Must(t, err)
	start := func(change func(*exec.Cmd), flags ...string) (string, int) {
		cmd := exec.Command("/proc/self/exe", append(append([]string{"run", "--admin", r.Stack.Admin(), "--event", event}, flags...), "--", "true")...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		change(cmd)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, status := start(withoutNamespaces(t), "--require-isolation"); status != program.Refused || !strings.Contains(out, "isolation_unavailable") {
		t.Errorf("%d %s", status, out)
	}
	if out, status := start(func(*exec.Cmd) {}, "--require-isolation"); status != program.Done { // the event still waits
		t.Errorf("%d %s", status, out)
	}
}

// TestRunLeavesNothing ends an agent that leaves processes behind, and a launcher that is killed.
func TestRunLeavesNothing(t *testing.T) {
	r := newSessionRig(t)
	for _, signal := range []syscall.Signal{0, syscall.SIGKILL} {
		a := startObedient(r, t)
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
		if !kit.Eventually(func() bool { return syscall.Kill(left, 0) != nil }) {
			t.Errorf("after %s, process %d is still there", a.run.ProcessState, left)
		}
	}
}

// TestListenerOfASession passes listeners with requests for sessions. One is good for one session, and as long as that is open.
func TestListenerOfASession(t *testing.T) {
	r := newSessionRig(t)
	p, err := isolate.Start(t.Context(), isolate.Options{Users: isolate.Users{Own: true}, Programs: []string{kit.Need(t, "sleep")}, Dir: "/", Bounds: isolate.DefaultBounds, Stdout: os.Stdout, Stderr: os.Stderr})
	check.Must(t, err)
	defer p.Close()
	open := func(file *os.File) (admin.Session, string) {
		t.Helper()
		event, err := r.DeliverRelease(t.Context())
		check.Must(t, err)
		var s admin.Session
		err = admin.OpenSession(t.Context(), r.Stack.Admin(), admin.SessionRequest{Event: event, Launcher: true, Init: p.Init}, file, &s)
		var refused *problem.Error
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if err != nil {
			return s, refused.Code()
		}
		return s, ""
	}
	here, err := net.Listen("tcp4", "127.0.0.1:0")
	check.Must(t, err)
	defer here.Close()
	ours, err := here.(*net.TCPListener).File()
	check.Must(t, err)
	null, err := os.Open(os.DevNull)
	check.Must(t, err)
	for name, file := range map[string]*os.File{"a listener in the network of the sidecar": ours, "no socket": null} {
		if _, code := open(file); code != "isolation_unavailable" {
			t.Errorf("%s: %q", name, code)
		}
	}
	first, code := open(p.Listener)
	if code != "" || first.ProxyURL != "http://"+isolate.ListenAddress {
		t.Fatalf("%q, %+v", code, first)
	}
	if _, code := open(p.Listener); code != "isolation_unavailable" {
		t.Errorf("the listener of one session is taken for another: %q", code)
	}
	get := func(args ...string) string {
		t.Helper()
		args = append([]string{"--target", strconv.Itoa(p.Init), "--net", "curl", "-sS", "--max-time", "60", "-w", " %{http_code}"}, args...)
		out, _ := exec.Command("nsenter", args...).CombinedOutput()
		return string(out)
	}
	event := "http://mediator.internal/v1/event"
	if out := get("-x", first.ProxyURL, event); !strings.Contains(out, first.Session) {
		t.Errorf("a connection to the listener: %s", out)
	}
	if out := get("-x", "http://x:y@"+isolate.ListenAddress, event); !strings.Contains(out, first.Session) {
		t.Errorf("a connection to the listener, with other credentials: %s", out)
	}
	if out, _ := exec.Command("curl", "-sS", "-x", "http://"+first.Session+":@"+r.Listen, event).CombinedOutput(); !strings.Contains(string(out), "session_required") {
		t.Errorf("the session by its id, at the shared port: %s", out)
	}
	check.Must(t, admin.Call(t.Context(), r.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+first.Session, nil, nil))
	if out := get("-x", first.ProxyURL, event); !strings.Contains(out, "curl: (7) ") { // not connected, which is not the same as not answered
		t.Errorf("the listener outlives its session, though this process has it still: %s", out)
	}
	if _, code := open(p.Listener); code != "isolation_unavailable" {
		t.Errorf("a listener whose session has ended is taken for another: %s", code)
	}
}

// TestOperatorsShells starts isolated agents from shells that are set up otherwise than most.
func TestOperatorsShells(t *testing.T) {
	r := newSessionRig(t)
	outside, err := os.Readlink("/proc/self/ns/net")
	check.Must(t, err)
	shared, err := os.MkdirTemp("/dev/shm", "shell")
	check.Must(t, err)
	defer os.RemoveAll(shared)
	check.Must(t, os.Chmod(shared, 0o755))
	for name, tt := range map[string]struct {
		change       func(*exec.Cmd)
		script, want string
	}{
		"in a folder of /dev/shm": {func(c *exec.Cmd) { c.Dir = shared }, "pwd", shared},
		"in /dev/shm":             {func(c *exec.Cmd) { c.Dir = "/dev/shm" }, "ls /dev/shm >/dev/null && echo there", "there"},
		"among the terminals":     {func(c *exec.Cmd) { c.Dir = "/dev/pts" }, "pwd", isolate.Home},
		"with a strict umask": {func(c *exec.Cmd) {
			c.Args = append([]string{"sh", "-c", `umask 077; exec "$0" "$@"`, "/proc/self/exe"}, c.Args[1:]...)
			self, err := os.Executable()
			check.Must(t, err)
			c.Path, c.Args[3] = kit.Need(t, "sh"), self
		}, "head -1 " + isolate.CAFile, "-----BEGIN CERTIFICATE-----"},
		"with a slow reader": {func(c *exec.Cmd) { c.Stdout = &onFirst{c.Stdout, func() { time.Sleep(longerThanAnEnd) }} }, "seq 1 20000; echo END", "END"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, tt.change, []string{"--require-isolation"}, "readlink /proc/self/ns/net; "+tt.script)
			if lines := strings.Fields(stdout); err != nil || strings.Contains(stdout, outside) || !strings.HasSuffix(strings.TrimSpace(stdout), tt.want) || len(lines) < 2 {
				t.Errorf("%v, %q%s", err, stdout[max(0, len(stdout)-200):], stderr)
			}
		})
	}
}

// longerThanAnEnd is longer than an agent has to end after SIGTERM.
const longerThanAnEnd = 6 * time.Second

// onFirst does something before it takes its first piece.
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

// TestLauncherIsGone: a session whose launcher has been killed is over, and its event is done.
func TestLauncherIsGone(t *testing.T) {
	r := newSessionRig(t)
	a := startObedient(r, t)
	check.Must(t, a.run.Process.Kill())
	_ = a.run.Wait()
	if !kit.Eventually(func() bool {
		_, out, _ := kit.Invoke(t, "events", "list", "--json", "--trigger", "unix:"+filepath.Join(r.Dir, "run", "trigger.sock"))
		return strings.Contains(out, `"done"`)
	}) {
		t.Error("the event of a session that nobody closed is not done")
	}
}

// TestRunIsAskedToEnd sends mediator run a signal. The program hears SIGTERM, and its own status counts.
func TestRunIsAskedToEnd(t *testing.T) {
	r := newSessionRig(t)
	for _, flags := range [][]string{{"--require-isolation"}, {"--share-network"}} {
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
