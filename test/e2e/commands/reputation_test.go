package commands

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

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

func TestScoreShow(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, gatetest.New(t), nil)
	_, err := n.Issue(t.Context(), n.By(t, "ses_1"))
	check.Must(t, err)
	options := api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop(), Operators: true}
	node := kit.ServeUnix(t, "node.sock", api.Handler(n.Service, options))
	s := n.Calls(t, "ses_1", 12)
	n.Delivered(t, 13, s.Receipts...)
	show := func(args ...string) kit.Ended {
		t.Helper()
		return kit.Mediator(t, append([]string{"reputation", "show", "score", "--node", node}, args...)...)
	}
	show("ses_1").Done(`"session_id": "ses_1"`, `"closed": false`, `"n": 12`, `"interaction_count": 12`,
		`"challenges_issued": 1`)
	show("ses_2").Refused("not_found")

	s.Close(t)
	n.Delivered(t, 14, s.Receipts...)
	n.Sampled(t)
	show(evidence.HashToken(s.Receipts[3])).Done(`"session_id": "ses_1"`, `"closed": true`)
	out := show("ses_1", "--owner", s.Owner).Done(`"baseline": {`, `"revealed": [`).Out
	dir := t.TempDir()
	f := n.Kit.Files(t, dir)
	n.Kit.WriteBundle(t, f.Bundle, n.Kit.Certificates[evidence.PurposeInteraction],
		n.Kit.Certificates[evidence.PurposeAppraiser])
	scored, receipts := dir+"/score.json", dir+"/receipts.txt"
	kit.Write(t, scored, out)
	kit.Write(t, receipts, strings.Join(s.Receipts, "\n")+"\n")
	verify := func(args ...string) kit.Ended {
		return kit.Mediator(t, append(args, "--registry", f.Registry, "--auditor", f.Auditor, "--bundle", f.Bundle,
			"--manifest", f.Manifest)...)
	}
	verify("verify", receipts, "--score", scored).Done("computed again from receipts 1 to 13: it is the same")
	kit.Write(t, scored, strings.Replace(out, `"band": "low"`, `"band": "high"`, 1)) // beside the token
	verify("verify", scored).Refused("evidence_malformed")
	verify("verify", receipts, "--score", scored).Refused("evidence_malformed")
	kit.Write(t, scored, strings.Replace(out, `"token":`, `"token": "another", "Token":`, 1))
	verify("verify", scored).Refused()
}

// TestScoreShowOverHTTPS asks a node at its public address, not for what only operators may read.
func TestScoreShowOverHTTPS(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, gatetest.New(t), nil)
	server := httptest.NewTLSServer(api.Handler(n.Service, api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop()}))
	defer server.Close()
	authority := t.TempDir() + "/ca.pem"
	kit.Write(t, authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	_, err := n.Issue(t.Context(), n.By(t, "ses_1"))
	check.Must(t, err)
	s := n.Calls(t, "ses_1", 3)
	s.Close(t)
	n.Delivered(t, 5, s.Receipts...)
	show := func(trusted, node string, args ...string) (out, said string, status int) {
		cmd := exec.CommandContext(t.Context(), kit.Self(t),
			append([]string{"reputation", "show", "score", "--node", node}, args...)...)
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+trusted, "SSL_CERT_DIR="+t.TempDir()+"/none")
		out, said, _ = kit.Output(cmd) // the status tells
		return out, said, cmd.ProcessState.ExitCode()
	}
	out, text, status := show(authority, server.URL+"/", "ses_1")
	var shown archive.Score
	if status != program.Done || json.Unmarshal([]byte(out), &shown) != nil || !archive.IsScore(shown.Token) ||
		shown.Revealed != nil {
		t.Errorf("status %d\n%s%s", status, out, text)
	}
	for _, tt := range []struct {
		trusted, node, of string
		status            int
		says              string
	}{
		{authority, server.URL, evidence.HashToken(s.Receipts[0]), program.Done, `"closed": true`},
		{authority, server.URL, "ses_2", program.Refused, "not_found"},
		{authority, server.URL + "/none", "ses_1", program.Refused, "not_found"},
		{os.DevNull, server.URL, "ses_1", program.Refused, "certificate"},
	} {
		out, text, status := show(tt.trusted, tt.node, tt.of)
		if status != tt.status || !strings.Contains(out+text, tt.says) {
			t.Errorf("%+v: status %d\n%s%s", tt, status, out, text)
		}
	}
}
