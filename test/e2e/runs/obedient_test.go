package runs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// newRig starts a deployment whose agents can read the CA's certificate, and post more than once for an event.
func newRig(t *testing.T) *kit.Rig {
	t.Helper()
	kit.NeedRoot(t)
	r := kit.NewClientsRig(t, func(file string) string {
		return strings.Replace(file, "\nmaxAge: "+trial.MaxAge.String(), "\nbudget: 5\nmaxAge: 10m", 1)
	})
	kit.OpenTo(t, r.Dir)
	return r
}

func uid(user int) []string { return []string{"--uid", strconv.Itoa(user)} }

type obedient struct {
	t     *testing.T
	run   *exec.Cmd // mediator run
	tells string    // the pipe
	says  *bufio.Reader
	errs  *bytes.Buffer // standard error, complete once the run has ended
}

func startObedient(t *testing.T, r *kit.Rig, flags ...string) *obedient {
	t.Helper()
	dir := openFolder(t, "")
	a := &obedient{t: t, tells: dir + "/tells", errs: new(bytes.Buffer)}
	check.Must(t, errors.Join(unix.Mkfifo(a.tells, 0o600), os.Chmod(a.tells, 0o644)))
	post :=
		`url=$1; post() { curl -sS -w ' %{http_code}' -H 'Content-Type: application/json' -d '{"body":"x"}' "$url" ` +
			`| tr -d '\n'; echo; }; `
	// The end of the line before may be all that a read gets.
	obey := `echo ready; while :; do read -r line <"$0" && eval "$line"; done`
	a.run = r.RunCommand(t, r.Event(t), flags, "sh", "-c", post+obey, a.tells, "https://"+r.Plain()+kit.Comments)
	a.run.SysProcAttr.Pdeathsig = syscall.SIGTERM
	a.run.Dir, a.run.Stderr = dir, a.errs
	out, err := a.run.StdoutPipe()
	check.Must(t, errors.Join(err, a.run.Start()))
	a.says = bufio.NewReader(out)
	t.Cleanup(a.end)
	a.hear("ready")
	return a
}

func (a *obedient) end() {
	_ = a.run.Process.Signal(syscall.SIGTERM)
	_ = a.run.Wait()
}

func (a *obedient) hear(want string) string {
	a.t.Helper()
	line, err := a.says.ReadString('\n')
	if err != nil || !strings.Contains(line, want) {
		a.t.Fatalf("the agent says %q, %v; want %q", line, err, want)
	}
	return strings.TrimSpace(line)
}

func (a *obedient) tell(line string) {
	a.t.Helper()
	var pipe *os.File
	if !kit.Eventually(func() (listens bool) {
		var err error
		pipe, err = os.OpenFile(a.tells, os.O_WRONLY|unix.O_NONBLOCK, 0) // without waiting for a reader
		if err != nil && !errors.Is(err, unix.ENXIO) {
			a.t.Fatal(err)
		}
		return err == nil
	}) {
		a.end()
		a.t.Fatalf("the agent does not listen: %v %s", a.run.ProcessState, a.errs)
	}
	_, err := pipe.WriteString(line + "\n")
	check.Must(a.t, errors.Join(err, pipe.Close()))
}

func (a *obedient) post(want string) {
	a.t.Helper()
	a.tell("post")
	a.hear(want)
}

func (a *obedient) pid(own string) int {
	a.t.Helper()
	for _, pid := range descendants(a.run.Process.Pid) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, pids, _ := strings.Cut(string(raw), "\nNSpid:")
		if pids, _, _ = strings.Cut(pids, "\n"); strings.HasSuffix(pids, "\t"+own) {
			return pid
		}
	}
	a.t.Fatalf("no process of the run is %s in it", own)
	return 0
}

func beside(t *testing.T, uid int, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: credential(uid)}
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatalf("%v: %v (run make setup)", args, err)
	}
	t.Cleanup(func() { endBeside(cmd) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v says nothing: %v", args, err)
	}
	return cmd, line
}

func credential(uid int, groups ...uint32) *syscall.Credential {
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: groups}
}

// endBeside ends a command with everything that it started, also in other sessions, and waits until that is gone.
func endBeside(cmd *exec.Cmd) {
	below := descendants(cmd.Process.Pid)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = cmd.Wait()
	kit.Eventually(func() bool {
		return !slices.ContainsFunc(below, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
}

func descendants(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

func openFolder(t *testing.T, below string) string {
	t.Helper()
	dir, err := os.MkdirTemp(below, "folder-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.Must(t, os.Chmod(dir, 0o755)) //nolint:gosec // on purpose
	return dir
}

func receipt(t *testing.T, r *kit.Rig) (ledger.Record, evidence.SessionReceipt) {
	t.Helper()
	posts := r.Records(t, "limit=1&flow=post")
	if len(posts) == 0 {
		t.Fatal("there is no record")
	}
	i := slices.IndexFunc(posts[0].Artifacts, func(a ledger.Artifact) bool { return a.Name == "sessionReceipt" })
	if i < 0 {
		t.Fatalf("the record has no session receipt: %+v", posts[0])
	}
	c, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), posts[0].Artifacts[i].Token)
	check.Must(t, err)
	return posts[0], c
}

const (
	shellControl    = "agentSessionAllowsUserShellAccess"
	operatorControl = "agentSessionAllowsHumanOperators"
	environment     = "agentEnvironmentAccessibleToUsers"
)

// wantEntered checks the receipt of a run without findings: it lists noProcessEntered if the run is isolated, and never
// userShellAccess.
func wantEntered(t *testing.T, r *kit.Rig, isolated bool) (ledger.Record, evidence.SessionReceipt) {
	t.Helper()
	post, c := receipt(t, r)
	listed := slices.Contains(c.Observed, signer.NoProcessEntered)
	enforced := map[bool]string{true: evidence.EnforcedIsolated, false: evidence.EnforcedNone}[isolated]
	if c.UserShellAccess || slices.Contains(c.Observed, "userShellAccess") || listed != isolated ||
		c.Enforcement != enforced || slices.Contains(c.Observed, "enforcement") != isolated {
		t.Errorf("the receipt of a run that is isolated (%t): %+v", isolated, c)
	}
	return post, c
}

// wantDeclared runs the doctor, which has to find it only declared that no user has a shell, and to say these texts.
func wantDeclared(t *testing.T, r *kit.Rig, texts ...string) (controls map[string][]string) {
	t.Helper()
	doctor, controls := r.Doctor(t)
	doctor.Done(texts...)
	if !slices.Contains(controls[policy.DeclaredOnly], shellControl) {
		t.Error(doctor.Out)
	}
	return controls
}

// TestQuietRun posts. Its receipt says what was observed. Its daemons are no strangers and do not outlive it.
func TestQuietRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	doctor, controls := r.Doctor(t)
	if slices.Contains(controls[policy.ObservedTrue], shellControl) ||
		!strings.Contains(doctor.Out, "No session is open") {
		t.Errorf("without a session something is observed\n%s", doctor.Out)
	}
	a := startObedient(t, r)
	a.tell(`(setsid sh -c 'echo $$; exec sleep 1000' &)`)
	daemon := a.pid(a.hear(""))
	a.post(" 201")
	controls = wantDeclared(t, r)
	if len(controls[policy.ObservedFalse]) > 0 || !slices.Contains(controls[policy.DeclaredOnly], operatorControl) {
		t.Errorf("with a quiet session: %v", controls)
	}
	post, c := wantEntered(t, r, true)
	if post.State != ledger.StateForwarded || slices.Contains(c.Observed, "humanOperatorPresent") {
		t.Errorf("%s, receipt %+v", post.State, c)
	}
	a.end()
	if _, err := os.Stat("/proc/" + strconv.Itoa(daemon)); !os.IsNotExist(err) {
		t.Errorf("the agent's daemon outlives its session: %v", err)
	}
}

// Posts of a run with a human in it are refused, also after that has ended, and those of others that share its user.
func TestTaintedRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	debug := func(t *testing.T, a *obedient) func() {
		a.tell(`sh -c 'echo $$; sleep 1000; :' &`) // a program that does not execute another
		pid := strconv.Itoa(a.pid(a.hear("")))
		gdb, _ := beside(t, 0, "gdb", "-q", "-nx", "-batch", "-p", pid, "-iex", "set debuginfod enabled off",
			"-ex", "echo attached\\n", "-ex", "shell sleep 1000")
		check.AwaitTracer(t, pid)
		return func() { endBeside(gdb) }
	}
	enter := func(user int, args ...string) func(*testing.T, *obedient) func() {
		return func(t *testing.T, _ *obedient) func() {
			cmd, _ := beside(t, user, args...)
			return func() { endBeside(cmd) }
		}
	}
	traced := evidence.SessionReceipt{AgentEnvironmentUserAccessible: true}
	for _, tt := range []struct {
		name    string
		shared  bool // the agent shares its user
		taint   func(t *testing.T, a *obedient) (end func())
		finding string
		claims  evidence.SessionReceipt
		control string // observed false
	}{
		{"a terminal", true, func(_ *testing.T, a *obedient) func() {
			a.tell(`script -qc 'exec </dev/null; echo ready; sleep 1000' /dev/null &`)
			a.hear("ready")
			return func() { a.tell(`kill -9 $!; wait; echo ended`); a.hear("ended") }
		}, "has a controlling terminal", evidence.SessionReceipt{HumanOperatorPresent: true}, operatorControl},
		{"a debugger", true, debug, "is traced by a debugger", traced, environment},
		{"an exec by another process", true, enter(r.User, "sh", "-c", "echo ready; exec sleep 1000"),
			"was not started by the agent", evidence.SessionReceipt{UserShellAccess: true}, shellControl},
		{"an interactive exec", true, enter(r.User, "script", "-qc", "echo ready; exec sleep 1000", "/dev/null"),
			"reads a terminal as its standard input",
			evidence.SessionReceipt{HumanOperatorPresent: true, HumanPromptPresent: true, UserShellAccess: true}, shellControl},
		{"a debugger of root at an isolated agent", false, debug, "is traced by a debugger", traced, environment},
		{"a shell of root in an isolated run", false, func(t *testing.T, a *obedient) func() {
			shell := fmt.Sprintf("nsenter --target %d --all sh -c 'echo ready; exec sleep 1000'", a.pid("1"))
			return enter(0, "script", "-qc", shell, "/dev/null")(t, a)
		}, "was not started by the agent", evidence.SessionReceipt{HumanPromptPresent: true,
			UserShellAccess: true}, shellControl},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var flags []string
			if tt.shared {
				flags = uid(r.User)
			}
			a := startObedient(t, r, flags...)
			a.post(" 201")
			before := r.Posts.Load()
			end := tt.taint(t, a)
			refused := func() {
				t.Helper()
				a.post(`"code":"session_tainted"`)
				post, c := receipt(t, r)
				if post.State != ledger.StateRefused || post.Code != "session_tainted" ||
					!strings.Contains(post.Reason, tt.finding) {
					t.Errorf("%s %s: %s", post.State, post.Code, post.Reason)
				}
				got := evidence.SessionReceipt{
					HumanPromptPresent: c.HumanPromptPresent, HumanOperatorPresent: c.HumanOperatorPresent,
					UserShellAccess: c.UserShellAccess, AgentEnvironmentUserAccessible: c.AgentEnvironmentUserAccessible,
				}
				check.WantEqual(t, got, tt.claims)
				kit.Mediator(t, "posts", "show", post.ID, "--admin", r.Stack.Admin()).Done("REFUSED unattended run",
					"session_tainted", tt.finding)
			}
			refused()
			doctor, controls := r.Doctor(t)
			if doctor.Refused(tt.finding); !slices.Contains(controls[policy.ObservedFalse], tt.control) {
				t.Errorf("observed false: %v", controls[policy.ObservedFalse])
			}
			end()
			refused()
			others := map[bool]string{true: `"code":"deployment_contradicted"`, false: " 201"}
			isolated := startObedient(t, r)
			isolated.post(" 201")
			isolated.end()
			sharing := startObedient(t, r, uid(r.User)...)
			sharing.post(others[tt.shared])
			sharing.end()
			if got := r.Posts.Load() - before; got == 0 || got == 2 == tt.shared {
				t.Errorf("%d posts went out", got)
			}
			a.end()
			doctor, _ = r.Doctor(t)
			doctor.Done() // it recovers with the end of the session
		})
	}
}

func TestSessionThatIsNotSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.OpenAgent(t)
	a.MustPost(t)
	post, c := wantEntered(t, r, false)
	if slices.ContainsFunc(post.Checks, func(k ledger.Check) bool { return k.Name == "unattended run" }) {
		t.Errorf("the record claims to have seen something: %+v %+v", c, post.Checks)
	}
	wantDeclared(t, r, "not started by mediator run")
	if looks := observe.OfRuns([]*observe.Run{nil}); len(looks) != 4 {
		t.Errorf("%d looks", len(looks))
	}
}

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) int{"way": runWay, "denied": runDenied})
}
