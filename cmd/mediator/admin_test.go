package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/launch"
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
	r := newClientsRig(t)
	for _, path := range []string{r.Stack.Socket("serve"), r.Stack.Socket("trigger"), r.Stack.Socket("control"), r.Stack.Socket("reputation")} {
		if out := asNobody(t, need(t, "curl"), "-sS", "--unix-socket", path, "http://x/healthz"); out != "" {
			t.Errorf("the agent reaches %s: %s", path, out)
		}
	}
	for _, name := range []string{"secrets/api-token", "secrets/webhook", "state/ledger.db", "reputation", "mediator.yaml", "serve.log"} {
		if out := asNobody(t, "/bin/cat", filepath.Join(r.Dir, name)); out != "" {
			t.Errorf("the agent reads %s", name)
		}
	}
}

// TestOtherEndpoint asks a process for what another one answers.
func TestOtherEndpoint(t *testing.T) {
	at := publish(t, "trigger.sock")
	if status, _, said := invoke(t, "posts", "list", "--admin", at); status != exitRefused || !strings.Contains(said, at+" is the endpoint of something that does not know GET /v1/posts") {
		t.Errorf("status %d: %s", status, said)
	}
}
