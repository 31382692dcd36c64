package commands

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

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
	ask := func(node string, args ...string) kit.Ended {
		t.Helper()
		return kit.Mediator(t, append([]string{"reputation", "show", args[0], "--node", node}, args[1:]...)...)
	}
	agent := n.Kit.Agent(t).String()
	if e := ask(internal, "agents").Done(); e.Out != "[]\n" {
		t.Errorf("got %s", e.Out)
	}
	ask(internal, "agent", "--", agent).Done(`"tier": "new"`, `"entries": 0`)

	s := n.Calls(t, "ses_1", 12)
	s.Close(t)
	n.Delivered(t, 14, s.Receipts...)
	check.Must(t, n.Enter(t.Context()))
	for _, node := range []string{internal, public} {
		ask(node, "agent", "--", agent).Done(`"agent": "agent:worker-1"`, `"provisional": true`, `"total_sessions": 1`,
			`"total_interactions": 1`, `"session_id": "ses_1"`, `"token": "`, `"nonHumanIdentityProven": false`)
	}
	ask(internal, "agent", "agent:worker-1").Refused("query_malformed")
	ask(public, "agents").Refused("not_found")

	for i := range reputation.ListChunk {
		n.Logged(t, fmt.Sprintf("agent:a%03d", i))
	}
	if e := ask(internal, "agents").Done(); strings.Count(e.Out, `"agent_id": "`+n.Kit.Owner(t)) != reputation.ListChunk+
		1 ||
		strings.Count(e.Out, `"`+agent+`"`) != 1 {
		t.Errorf("got %s", e.Out)
	}
}
