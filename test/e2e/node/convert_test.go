package node

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/nodetest"
)

// TestConverter reads documents of the form that agent-reputation-network gives its examples.
func TestConverter(t *testing.T) {
	t.Parallel()
	full.Only(t, "node")
	agent := nodetest.NewStranger(t).ID
	convert := func(theirs string) []byte {
		t.Helper()
		file := t.TempDir() + "/theirs.json"
		kit.Write(t, file, theirs)
		cmd := exec.CommandContext(t.Context(), kit.Need(t, "node"),
			filepath.Join(kit.Top, "examples/disputes/convert.mjs"), file, agent)
		out, err := cmd.Output()
		check.Must(t, err)
		return out
	}
	signal, err := dispute.ParseSignal(convert(`{"signal_id": "SIG-7", "origin_agent": "agent.a", "context_hash": "0x1",
		"confidence_metrics": {"probability": 0.6, "confidence_level": "medium"}, "risk_band": "moderate",
		"verification_hash": "0x2", "timestamp": "2026-02-22T09:00:00Z", "challenge_window_hours": 72,
		"reasoning_trace": ["one", "two"], "source_refs": ["log://1"]}`))
	check.Must(t, err)
	want := `{"context_hash":"0x1","confidence_metrics":{"probability":0.6,"confidence_level":"medium"},` +
		`"risk_band":"moderate","verification_hash":"0x2","reasoning_trace":["one","two"],"source_refs":["log://1"]}`
	if signal.SignalID != "SIG-7" || signal.AgentID != agent || signal.Horizon != dispute.HorizonLong ||
		signal.Statement != want {
		t.Errorf("%+v", signal)
	}
	filing, err := dispute.ParseFiling(convert(`{"challenge_id": "CH-7", "original_signal_id": "SIG-7",
		"challenger_agent_id": "agent.b", "counter_claim": {"note": "no", "risk_band": "low"},
		"reasoning_trace": ["one", "two"], "timestamp": "2026-02-22T10:00:00Z"}`))
	check.Must(t, err)
	if c := filing.Contract; c == nil || c.ChallengerAgentID != agent ||
		c.CounterClaim != `{"note":"no","risk_band":"low"}` || c.ReasoningTrace != "one\ntwo" {
		t.Errorf("%+v", filing)
	}
}
