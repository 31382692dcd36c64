package runs

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// asNobody runs a command as a user without rights and returns its output.
func asNobody(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: launch.DefaultUID, Gid: launch.DefaultUID}}
	cmd.Stdout = &out
	_ = cmd.Run() // a refusal is what some callers expect
	return out.String()
}

// TestAgentCannotReachTheMediator starts an agent as mediator run does for root, and lets it reach for what is not its own.
func TestAgentCannotReachTheMediator(t *testing.T) {
	r := kit.NewClientsRig(t)
	for _, path := range []string{r.Stack.Socket("serve"), r.Stack.Socket("trigger"), r.Stack.Socket("control"), r.Stack.Socket("reputation")} {
		if out := asNobody(t, kit.Need(t, "curl"), "-sS", "--unix-socket", path, "http://x/healthz"); out != "" {
			t.Errorf("the agent reaches %s: %s", path, out)
		}
	}
	for _, name := range []string{"secrets/api-token", "secrets/webhook", "state/ledger.db", "reputation", "mediator.yaml", "serve.log"} {
		if out := asNobody(t, "/bin/cat", filepath.Join(r.Dir, name)); out != "" {
			t.Errorf("the agent reads %s", name)
		}
	}
}
