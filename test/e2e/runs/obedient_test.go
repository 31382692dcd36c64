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

	"github.com/actionproof/mediator/internal/trial"
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
	a := &obedient{t: t, tells: filepath.Join(dir, "tells"), errs: new(bytes.Buffer)}
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
