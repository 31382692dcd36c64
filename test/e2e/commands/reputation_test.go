package commands

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

// TestReputationShow shows reputations of a node. Their list is for operators alone, and continues after its first
// page.
func TestReputationShow(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, gatetest.New(t), nil)
	serve := func(operators bool) (endpoint string) {
		options := api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop(), Operators: operators}
		return kit.ServeUnix(t, "node.sock", api.Handler(n.Service, options))
	}
	internal, public := serve(true), serve(false)
	ask := func(node string, args ...string) (status int, out, errors string) {
		var stdout, stderr bytes.Buffer
		status = program.Run(t.Context(), append([]string{"reputation", "show", args[0], "--node", node}, args[1:]...), nil,
			&stdout, &stderr)
		return status, stdout.String(), stderr.String()
	}
	agent := n.Kit.Agent(t).String()
	if status, out, text := ask(internal, "agents"); status != program.Done || strings.Count(out, "\n") != 1 {
		t.Errorf("status %d, %s%s", status, out, text)
	}
	if status, out, text := ask(internal, "agent", "--", agent); status != program.Done ||
		!strings.Contains(out, "tier          new\n") || !strings.Contains(out, "log           0 entries") {
		t.Errorf("status %d, %s%s", status, out, text)
	}

	s := n.Calls(t, "ses_1", 12)
	s.Close(t)
	n.Delivered(t, 14, s.Receipts...)
	check.Must(t, n.Enter(t.Context()))
	for _, node := range []string{internal, public} {
		status, out, text := ask(node, "agent", "--", agent)
		for _, want := range []string{"agent         agent:worker-1\n", " (provisional), stable", "sessions      1\n",
			"interactions  1 that count", "  ses_1\n", "nonHumanIdentityProven: false"} {
			if status != program.Done || !strings.Contains(out, want) {
				t.Errorf("status %d, want %q in\n%s%s", status, want, out, text)
			}
		}
	}
	if status, out, _ := ask(internal, "agent", "--json", "--", agent); status != program.Done ||
		!strings.Contains(out, `"token"`) || !strings.Contains(out, agent) {
		t.Errorf("status %d, %s", status, out)
	}
	if status, _, text := ask(internal, "agent", "agent:worker-1"); status != program.Refused ||
		!strings.Contains(text, "query_malformed") {
		t.Errorf("status %d, %s", status, text)
	}
	if status, _, text := ask(public, "agents"); status != program.Refused || !strings.Contains(text, "not_found") {
		t.Errorf("status %d, %s", status, text)
	}

	for i := range reputation.ListChunk {
		n.Logged(t, fmt.Sprintf("agent:a%03d", i))
	}
	status, out, text := ask(internal, "agents")
	if status != program.Done || strings.Count(out, n.Kit.Owner(t)) != reputation.ListChunk+1 ||
		strings.Count(out, agent+" ") != 1 {
		t.Errorf("status %d, %s%s", status, out, text)
	}
}
