package kit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// AsAgent runs a command as an agent, in the top folder of the source and in a new session. It returns what the
// command prints.
func (r *Rig) AsAgent(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	event, err := r.DeliverRelease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"run", "--admin", r.Stack.Admin(), "--event", event, "--"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = Top, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(stdout.String()), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Need fails, and says what to run, where a client is not installed.
func Need(t *testing.T, command string) string {
	t.Helper()
	full.Only(t, "programs that make setup installs")
	path, err := exec.LookPath(command)
	if err != nil {
		t.Fatalf("%s is not installed: run make setup", command)
	}
	return path
}

// Top is the top folder of the source, seen from a package of these tests. Scripts is the folder of what agents run, seen
// from there.
const (
	Top     = "../../.."
	Scripts = "test/e2e/testdata/"
)

// NodeAgent is the start of a Node command line whose fetch follows the proxy's environment.
func NodeAgent(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(Top, Scripts, "node/node_modules/.ok")); err != nil {
		t.Fatal("Node's packages are not installed: run make setup")
	}
	return []string{Need(t, "node"), "--no-warnings", "--import", "./" + Scripts + "node/proxy.mjs"}
}

// StartRun runs mediator run with flags and a shell script for a new event. change alters the command before it starts.
func (r *Rig) StartRun(t *testing.T, change func(*exec.Cmd), flags []string, script string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	event, err := r.DeliverRelease(t.Context())
	check.Must(t, err)
	return r.StartRunFor(t, event, change, flags, script, args...)
}

// StartRunFor is startRun for an event that has been delivered. It may be called concurrently.
func (r *Rig) StartRunFor(t *testing.T, event string, change func(*exec.Cmd), flags []string, script string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	all := append(append([]string{"run", "--admin", r.Stack.Admin(), "--event", event}, flags...), "--", "sh", "-c", script)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append(all, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if change != nil {
		change(cmd)
	}
	err = cmd.Run()
	return out.String(), errs.String(), err
}
