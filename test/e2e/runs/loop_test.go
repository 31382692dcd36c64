package runs

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestLoop waits for events, and gives each a run, also after one that failed.
func TestLoop(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t)
	out := r.In("loop.out")
	said, err := os.Create(out)
	check.Must(t, err)
	defer said.Close()
	cmd := exec.Command(kit.Self(t), "run", "--admin", r.Stack.Admin(), "--loop", "--", "sh", "-c", "echo run; exit 3")
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check.Must(t, cmd.Start())
	for n := 1; n <= 2; n++ {
		r.Event(t)
		kit.Until(t, "a run", func() bool {
			return strings.Count(string(kit.Read(t, out)), "run\nmediator: the agent failed: exit status 3\n") == n
		})
	}
	check.Must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, kit.Read(t, out))
	}
}
