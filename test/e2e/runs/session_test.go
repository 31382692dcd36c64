package runs

import (
	"bufio"
	"bytes"
	"context"
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
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// obedient is an agent under mediator run that does what it is told through a named pipe.
type obedient struct {
	t     *testing.T
	run   *exec.Cmd // mediator run
	tells string    // the pipe
	says  *bufio.Reader
	errs  *bytes.Buffer // what it writes to standard error; to be read once it has ended
}

// startObedient starts it, isolated unless flags of mediator run say otherwise.
func startObedient(r *kit.Rig, t *testing.T, flags ...string) *obedient {
	t.Helper()
	event, err := r.DeliverRelease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "obedient-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &obedient{t: t, tells: filepath.Join(dir, "tells")}
	if err := errors.Join(os.Chmod(dir, 0o755), unix.Mkfifo(a.tells, 0o600), os.Chmod(a.tells, 0o644)); err != nil {
		t.Fatal(err)
	}
	post := `post() { curl -sS -w ' %{http_code}' -H 'Content-Type: application/json' -d '{"body":"x"}' https://` + r.Plain() + `/repos/acme/site/issues/7/comments | tr -d '\n'; echo; }`
	a.run = exec.Command("/proc/self/exe", append(append([]string{"run", "--admin", r.Stack.Admin(), "--event", event}, flags...), "--",
		"sh", "-c", post+`; echo ready; while :; do read -r line <"$0" && eval "$line"; done`, a.tells)...) // the end of the line before may be all that there is
	a.run.Dir = dir // which the agent has, although it has a /tmp of its own
	a.run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	a.errs = new(bytes.Buffer)
	a.run.Stderr = a.errs
	out, err := a.run.StdoutPipe()
	if err := errors.Join(err, a.run.Start()); err != nil {
		t.Fatal(err)
	}
	a.says = bufio.NewReader(out)
	t.Cleanup(a.end)
	a.hear("ready")
	return a
}

// end ends the agent, and so its session; more than once does no harm.
func (a *obedient) end() {
	_ = a.run.Process.Signal(syscall.SIGTERM)
	_ = a.run.Wait()
}

// hear returns the agent's next line, which has to hold want.
func (a *obedient) hear(want string) string {
	a.t.Helper()
	line, err := a.says.ReadString('\n')
	if err != nil || !strings.Contains(line, want) {
		a.t.Fatalf("the agent says %q, %v; want %q", line, err, want)
	}
	return strings.TrimSpace(line)
}

// tell has the agent run a line of shell, once it listens.
func (a *obedient) tell(line string) {
	a.t.Helper()
	var pipe *os.File
	if !kit.Eventually(func() (listens bool) {
		var err error
		pipe, err = os.OpenFile(a.tells, os.O_WRONLY|unix.O_NONBLOCK, 0) // does not wait for a reader
		if err != nil && !errors.Is(err, unix.ENXIO) {
			a.t.Fatal(err)
		}
		return err == nil
	}) {
		a.end()
		a.t.Fatalf("the agent does not listen: %v %s", a.run.ProcessState, a.errs)
	}
	if _, err := pipe.WriteString(line + "\n"); err != nil {
		a.t.Error(err)
	}
	_ = pipe.Close()
}

// pid returns the pid of a process of the run by the pid that it has in its own namespace.
func (a *obedient) pid(own string) int {
	a.t.Helper()
	for _, pid := range descendants(a.run.Process.Pid) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, pids, _ := strings.Cut(string(raw), "\nNSpid:"); strings.HasSuffix(strings.SplitN(pids, "\n", 2)[0], "\t"+own) {
			return pid
		}
	}
	a.t.Fatalf("no process of the run is %s in it", own)
	return 0
}

// beside starts a command that ends with the test, and returns it with its first line.
func beside(t *testing.T, uid int, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
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

// endBeside ends a command with all that it has started, in sessions of their own too, and waits until that is gone.
func endBeside(cmd *exec.Cmd) {
	below := descendants(cmd.Process.Pid)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = cmd.Wait()
	for began := time.Now(); time.Since(began) < kit.Patience; time.Sleep(5 * time.Millisecond) {
		if !slices.ContainsFunc(below, func(pid int) bool { return syscall.Kill(pid, 0) == nil }) {
			return
		}
	}
}

func descendants(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

// receipt returns the last record of a flow post, with what its session receipt claims.
func receipt(r *kit.Rig, t *testing.T) (ledger.Record, evidence.SessionReceipt) {
	t.Helper()
	var posts []ledger.Record
	if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?limit=1&flow=post", &posts); err != nil || len(posts) == 0 {
		t.Fatalf("%d records, %v", len(posts), err)
	}
	for _, a := range posts[0].Artifacts {
		if a.Name == "sessionReceipt" {
			c, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind, a.Token)
			if err != nil {
				t.Fatal(err)
			}
			return posts[0], c
		}
	}
	t.Fatalf("the record has no session receipt: %+v", posts[0])
	return ledger.Record{}, evidence.SessionReceipt{}
}

// newSessionRig is a deployment whose agent, a user of its own, can read the CA's certificate, and post more than once.
func newSessionRig(t *testing.T) *kit.Rig {
	t.Helper()
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("only root can start an agent as a user of its own: run the tests as root")
	}
	r := kit.NewClientsRig(t, func(file string) string {
		return strings.Replace(file, "\nmaxAge: "+trial.MaxAge.String(), "\nbudget: 5\nmaxAge: 10m", 1)
	})
	for _, dir := range []string{r.Dir, filepath.Dir(r.Dir)} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

const (
	shellControl    = "agentSessionAllowsUserShellAccess"
	operatorControl = "agentSessionAllowsHumanOperators"
)

// wantEntered checks that a receipt of a run without findings lists noProcessEntered if the run is isolated, and never
// lists userShellAccess.
func wantEntered(t *testing.T, c evidence.SessionReceipt, isolated bool) {
	t.Helper()
	listed := slices.Contains(c.Observed, signer.NoProcessEntered)
	if c.UserShellAccess || slices.Contains(c.Observed, "userShellAccess") || listed != isolated {
		t.Errorf("the receipt of a run that is isolated (%t): %+v", isolated, c)
	}
}

// TestQuietRun posts; its receipt says what was looked at, and its daemons are no strangers and do not outlive it.
func TestQuietRun(t *testing.T) {
	r := newSessionRig(t)
	if _, text, controls := r.Doctor(t); slices.Contains(controls[policy.ObservedTrue], shellControl) || !strings.Contains(text, "No session is open") {
		t.Errorf("without a session something is observed\n%s", text)
	}
	a := startObedient(r, t)
	a.tell(`(setsid sh -c 'echo $$; exec sleep 1000' &)`)
	daemon := a.pid(a.hear(""))
	a.tell("post")
	a.hear(" 201")
	_, text, controls := r.Doctor(t)
	declared := controls[policy.DeclaredOnly]
	if len(controls[policy.ObservedFalse]) > 0 || !slices.Contains(declared, shellControl) || !slices.Contains(declared, operatorControl) {
		t.Errorf("with a quiet session:\n%s", text)
	}
	post, c := receipt(r, t)
	wantEntered(t, c, true)
	if post.State != ledger.StateForwarded || slices.Contains(c.Observed, "humanOperatorPresent") {
		t.Errorf("%s, receipt %+v", post.State, c)
	}
	a.end()
	if _, err := os.Stat("/proc/" + strconv.Itoa(daemon)); !os.IsNotExist(err) {
		t.Errorf("the agent's daemon outlives its session: %v", err)
	}
}

// TestRunEnds ends as its command does. A command that is not there costs no event.
func TestRunEnds(t *testing.T) {
	r := kit.NewClientsRig(t)
	event, err := r.DeliverRelease(t.Context())
	check.Must(t, err)
	for _, tt := range []struct {
		command []string
		says    string
		status  int
	}{
		{[]string{"/nowhere/agent"}, "and its event still waits: ", program.Refused},
		{[]string{"no-such-agent"}, "and its event still waits: ", program.Refused},
		{[]string{"sh", "-c", "kill -KILL $$"}, "", 128 + 9},
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{"run", "--admin", r.Stack.Admin(), "--event", event, "--uid", strconv.Itoa(trial.User()), "--"}, tt.command...)...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != tt.status || !strings.Contains(string(out), tt.says) {
			t.Errorf("%s: %d, want %d: %s", tt.command, got, tt.status, out)
		}
	}
}

// TestTaintedRun has something in its run that an unattended run does not have. Its posts are refused, also when that has ended; the receipt,
// the record and the doctor say what it was. Of other sessions the posts of those are refused that share its user.
func TestTaintedRun(t *testing.T) {
	r := newSessionRig(t)
	for _, tt := range []struct {
		name   string
		shared bool // the agent shares its user
		taint  func(t *testing.T, a *obedient) (end func())
		kinds  string // of the sentence
		claims evidence.SessionReceipt
		false  string // a control that is observed false
	}{
		{"a terminal", true, func(t *testing.T, a *obedient) func() {
			a.tell(`script -qc 'exec </dev/null; echo ready; sleep 1000' /dev/null &`)
			a.hear("ready")
			return func() { a.tell(`kill -9 $!; wait; echo ended`); a.hear("ended") }
		}, "has a controlling terminal", evidence.SessionReceipt{HumanOperatorPresent: true}, operatorControl},
		{"a debugger", true, func(t *testing.T, a *obedient) func() {
			a.tell(`sh -c 'echo $$; sleep 1000; :' &`) // a program that is not about to execute another
			pid := strconv.Itoa(a.pid(a.hear("")))
			gdb, _ := beside(t, 0, "gdb", "-q", "-nx", "-batch", "-p", pid, "-iex", "set debuginfod enabled off", "-ex", "echo attached\\n", "-ex", "shell sleep 1000")
			check.AwaitTracer(t, pid)
			return func() { endBeside(gdb) }
		}, "is traced by a debugger", evidence.SessionReceipt{AgentEnvironmentUserAccessible: true}, "agentEnvironmentAccessibleToUsers"},
		{"an exec by another process", true, func(t *testing.T, _ *obedient) func() {
			cmd, _ := beside(t, trial.User(), "sh", "-c", "echo ready; exec sleep 1000")
			return func() { endBeside(cmd) }
		}, "was not started by the agent", evidence.SessionReceipt{UserShellAccess: true}, shellControl},
		{"an interactive exec", true, func(t *testing.T, _ *obedient) func() {
			cmd, _ := beside(t, trial.User(), "script", "-qc", "echo ready; exec sleep 1000", "/dev/null")
			return func() { endBeside(cmd) }
		}, "reads a terminal as its standard input", evidence.SessionReceipt{HumanOperatorPresent: true, HumanPromptPresent: true, UserShellAccess: true}, shellControl},
		{"a debugger of root at an isolated agent", false, func(t *testing.T, a *obedient) func() {
			a.tell(`sh -c 'echo $$; sleep 1000; :' &`)
			pid := strconv.Itoa(a.pid(a.hear("")))
			gdb, _ := beside(t, 0, "gdb", "-q", "-nx", "-batch", "-p", pid, "-iex", "set debuginfod enabled off", "-ex", "echo attached\\n", "-ex", "shell sleep 1000")
			check.AwaitTracer(t, pid)
			return func() { endBeside(gdb) }
		}, "is traced by a debugger", evidence.SessionReceipt{AgentEnvironmentUserAccessible: true}, "agentEnvironmentAccessibleToUsers"},
		{"a shell of root in an isolated run", false, func(t *testing.T, a *obedient) func() {
			cmd, _ := beside(t, 0, "script", "-qc", fmt.Sprintf("nsenter --target %d --all sh -c 'echo ready; exec sleep 1000'", a.pid("1")), "/dev/null")
			return func() { endBeside(cmd) }
		}, "was not started by the agent", evidence.SessionReceipt{HumanPromptPresent: true, UserShellAccess: true}, shellControl},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var flags []string
			if tt.shared {
				flags = []string{"--uid", strconv.Itoa(trial.User())}
			}
			a := startObedient(r, t, flags...)
			a.tell("post")
			a.hear(" 201")
			before := r.Posts.Load()
			end := tt.taint(t, a)
			check := func() {
				t.Helper()
				a.tell("post")
				a.hear(`"code":"session_tainted"`)
				post, c := receipt(r, t)
				if post.State != ledger.StateRefused || post.Code != "session_tainted" || !strings.Contains(post.Reason, tt.kinds) {
					t.Errorf("%s %s: %s", post.State, post.Code, post.Reason)
				}
				got := evidence.SessionReceipt{
					HumanPromptPresent: c.HumanPromptPresent, HumanOperatorPresent: c.HumanOperatorPresent,
					UserShellAccess: c.UserShellAccess, AgentEnvironmentUserAccessible: c.AgentEnvironmentUserAccessible,
				}
				if fmt.Sprint(got) != fmt.Sprint(tt.claims) {
					t.Errorf("the receipt says %+v", c)
				}
				var shown strings.Builder
				if status := program.Run(t.Context(), []string{"posts", "show", post.ID, "--admin", r.Stack.Admin()}, nil, &shown, &shown); status != 0 ||
					!strings.Contains(shown.String(), "REFUSED unattended run") || !strings.Contains(shown.String(), "session_tainted") || !strings.Contains(shown.String(), tt.kinds) {
					t.Errorf("status %d\n%s", status, shown.String())
				}
			}
			check()
			status, text, controls := r.Doctor(t)
			if status != program.Refused || !slices.Contains(controls[policy.ObservedFalse], tt.false) || !strings.Contains(text, tt.kinds) {
				t.Errorf("status %d\n%s", status, text)
			}
			end()
			check() // still
			for i, says := range []string{" 201", map[bool]string{true: `"code":"deployment_contradicted"`, false: " 201"}[tt.shared]} {
				other := startObedient(r, t, []string{"--uid", strconv.Itoa(trial.User())}[:2*i]...) // isolated, and with the agent's user
				other.tell("post")
				other.hear(says)
				other.end()
			}
			if got := r.Posts.Load() - before; got == 0 || got == 2 == tt.shared {
				t.Errorf("%d posts went out", got)
			}
			a.end()
			if status, text, _ := r.Doctor(t); status != 0 {
				t.Errorf("it does not recover with the end of the session: status %d\n%s", status, text)
			}
		})
	}
}

// TestSessionThatIsNotSeen is only declared, and posts: a session that no launcher opened, and one of an agent whose user is not configured.
func TestSessionThatIsNotSeen(t *testing.T) {
	r := newSessionRig(t)
	event, err := r.DeliverRelease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var s admin.Session
	if err := admin.Call(t.Context(), r.Stack.Admin(), "POST", "/v1/sessions", admin.SessionRequest{Event: event}, &s); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(kit.Need(t, "curl"), "-sS", "-w", " %{http_code}", "-H", "Content-Type: application/json", "-d", `{"body":"x"}`, "https://"+r.Plain()+"/repos/acme/site/issues/7/comments")
	cmd.Env = launch.Environment(os.Environ(), s.ProxyURL, s.CAFile)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), " 201") {
		t.Fatalf("%s %v", out, err)
	}
	post, c := receipt(r, t)
	wantEntered(t, c, false)
	if slices.ContainsFunc(post.Checks, func(k ledger.Check) bool { return k.Name == "unattended run" }) {
		t.Errorf("the record claims to have seen something: %+v %+v", c, post.Checks)
	}
	_, text, controls := r.Doctor(t)
	if !slices.Contains(controls[policy.DeclaredOnly], shellControl) || !strings.Contains(text, "not started by mediator run") {
		t.Errorf("%s", text)
	}
	if looks := observe.OfRuns([]*observe.Run{nil}); len(looks) != 4 {
		t.Errorf("%d looks", len(looks))
	}
}
