package xray_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/xray"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

type server struct {
	url  string
	port string
	stop func()

	mu    sync.Mutex // guards lines
	lines []string
}

func start(t *testing.T, port string, answers map[string]any) *server {
	t.Helper()
	full.Only(t, "Node's packages, which make setup installs")
	const scripts = "../../../test/e2e/testdata/node/"
	if _, err := os.Stat(scripts + "node_modules/.ok"); err != nil {
		t.Fatal("Node's packages are not installed: run make setup")
	}
	how, err := json.Marshal(answers)
	check.Must(t, err)
	cmd := exec.Command("node", "--no-warnings", scripts+"xray-server.mjs", port, string(how))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check.Must(t, errors.Join(err, cmd.Start()))
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		t.Fatal("xray-server.mjs does not start")
	}
	s := &server{port: strings.TrimPrefix(lines.Text(), "listening ")}
	s.url = "http://127.0.0.1:" + s.port + "/mcp"
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines.Scan() {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
		}
	}()
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) calls() string {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func bridge(url string, timeout time.Duration) *xray.Bridge {
	one := xray.Server{URL: url}
	return xray.New(xray.Options{Orchestrate: one, Govern: one, Enforce: one, Timeout: timeout})
}

var question = verification.Question{
	DID: "did:groover:1", Prompt: "Search",
	Turns: []verification.Turn{{ToolCall: "search_plugins", Output: "long output", Reasoning: "because"}},
}

type answer = verification.Answer

func unavailable(reason string) answer {
	return answer{Status: verification.GateUnavailable, Reason: reason}
}

func report(success string) any {
	return map[string]any{
		"text": "Orchestration Complete: \"Verification\"\n\n**Session ID:** session_1\n**Success:** " + success +
			"\n**Tasks:** 1 total\n"}
}

func governance(final, overall string) any {
	return map[string]any{
		"results": []any{
			map[string]any{"proposalId": "did:groover:1", "finalDecision": final, "averageConfidence": 0.9}},
		"overallDecision": overall}
}

func ask(t *testing.T, b *xray.Bridge, gate string) answer {
	t.Helper()
	return b.Ask(t.Context(), gate, question)
}

func TestBridge(t *testing.T) {
	const generous = time.Minute // no answer of a busy machine may look slow
	passed, failed := answer{Status: verification.GatePassed}, answer{Status: verification.GateFailed}
	resonant := func(thousandths int64) answer { return answer{Status: verification.GatePassed, Resonance: thousandths} }
	scored := func(score int64) answer { return answer{Status: verification.GatePassed, Score: score} }
	for _, tt := range []struct {
		name                          string
		orchestrates, govern, enforce any
		want                          [3]answer
	}{
		{"healthy", map[string]any{"success": true}, map[string]any{"decision": "approve", "resonance": 0.8},
			map[string]any{"score": 92.9}, [3]answer{passed, resonant(800), scored(92)}},
		{"other spellings", map[string]any{"plan": []int{1}},
			map[string]any{"decision": "approved", "resonanceScore": 0.7999},
			map[string]any{"result": map[string]any{"score": 100}}, [3]answer{passed, resonant(799), scored(100)}},
		{"structured", map[string]any{"structured": map[string]any{}},
			map[string]any{"structured": map[string]any{"decision": "Approved"}},
			map[string]any{"structured": map[string]any{"score": 0}}, [3]answer{passed, resonant(0), scored(0)}},
		{"no", map[string]any{"success": false}, map[string]any{"decision": "reject", "resonance": 0.1},
			map[string]any{"score": 74}, [3]answer{failed, {Status: verification.GateFailed, Resonance: 100}, scored(74)}},
		{"0xRay", report("✅ COMPLETED"), governance("approve", "approve"),
			map[string]any{"operation": "reasoning-evaluation", "codexCheck": map[string]any{"score": 88}, "complianceScore": 88,
				"violations": 1}, [3]answer{passed, resonant(0), scored(88)}},
		{"0xRay says no", report("❌ FAILED"), governance("reject", "reject"),
			map[string]any{"codexCheck": map[string]any{"score": 40}, "complianceScore": 90},
			[3]answer{failed, failed, scored(40)}},
		{"0xRay in doubt", map[string]any{"status": "failed"}, governance("abstain", "approve"),
			map[string]any{"codexCheck": map[string]any{"score": 100}, "score": 101},
			[3]answer{failed, failed, unavailable("wrong_shape")}},
		{"0xRay contradicts itself", map[string]any{"status": "error", "success": true},
			governance("approve", "needs_revision"), map[string]any{"complianceScore": -1},
			[3]answer{failed, failed, unavailable("wrong_shape")}},
		{"another proposal", nil,
			map[string]any{"results": []any{map[string]any{"proposalId": "other", "finalDecision": "approve"}},
				"overallDecision": "approve"}, map[string]any{"codexCheck": map[string]any{}}, [3]answer{unavailable("wrong_shape"),
				unavailable("wrong_shape"), unavailable("wrong_shape")}},
		{"no decision", map[string]any{"status": "delegated"},
			map[string]any{"results": []any{map[string]any{"proposalId": "did:groover:1"}}, "overallDecision": "approve"},
			map[string]any{"complianceScore": 100}, [3]answer{passed, unavailable("wrong_shape"), scored(100)}},
		{"no JSON", "text", "text", "text",
			[3]answer{unavailable("wrong_shape"), unavailable("wrong_shape"), unavailable("wrong_shape")}},
		{"other JSON", 1, map[string]any{"resonance": 0.9}, map[string]any{"score": "100"},
			[3]answer{unavailable("wrong_shape"), unavailable("wrong_shape"), unavailable("wrong_shape")}},
		{"out of range", nil, map[string]any{"decision": "approve", "resonance": 1.1}, map[string]any{"score": 101},
			[3]answer{unavailable("wrong_shape"), unavailable("wrong_shape"), unavailable("wrong_shape")}},
		{"below zero", nil, map[string]any{"decision": "approve", "resonance": -0.1}, map[string]any{"score": -1},
			[3]answer{unavailable("wrong_shape"), unavailable("wrong_shape"), unavailable("wrong_shape")}},
		{"failing tools", "error", "error", "error",
			[3]answer{unavailable("tool_error"), unavailable("tool_error"), unavailable("tool_error")}},
		{"8 MB", "huge", "huge", "huge",
			[3]answer{unavailable("unreachable"), unavailable("unreachable"), unavailable("unreachable")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, "0",
				map[string]any{"orchestrate-task": tt.orchestrates, "govern_proposals": tt.govern, "codex-enforcement": tt.enforce})
			b := bridge(s.url, generous)
			got := [3]answer{ask(t, b, verification.GateOrchestrate), ask(t, b, verification.GateGovern),
				ask(t, b, verification.GateEnforce)}
			if got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
			asked := s.calls()
			for _, want := range []string{`orchestrate-task {"description":"Verification of did:groover:1"`, `"source":"system"`,
				`"operation":"reasoning-evaluation"`, "because"} {
				if !strings.Contains(asked, want) {
					t.Errorf("the servers were not told %s: %s", want, asked)
				}
			}
			if strings.Contains(asked, "secret payload") || strings.Contains(asked, "long output") {
				t.Errorf("the servers were told more than they are asked about: %s", asked)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		s := start(t, "0", map[string]any{"govern_proposals": "slow"})
		if got := ask(t, bridge(s.url, 300*time.Millisecond), verification.GateGovern); got != unavailable("timeout") {
			t.Errorf("got %+v", got)
		}
	})
	for _, how := range []string{"redirect", "garbage"} {
		t.Run(how, func(t *testing.T) {
			s := start(t, "0", map[string]any{"http": how})
			if got := ask(t, bridge(s.url, generous), verification.GateGovern); got != unavailable("unreachable") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestToken(t *testing.T) {
	for _, header := range []string{"", "X-Api-Key"} {
		name, value := "authorization", "Bearer secret-1"
		if header != "" {
			name, value = strings.ToLower(header), "secret-1"
		}
		s := start(t, "0",
			map[string]any{"header": []string{name, value}, "govern_proposals": map[string]any{"decision": "approve"}})
		for token, want := range map[string]answer{"secret-1": {Status: verification.GatePassed},
			"secret-2": unavailable("unreachable"), "": unavailable("unreachable")} {
			b := xray.New(xray.Options{Govern: xray.Server{URL: s.url, Token: token, Header: header}, Timeout: time.Minute})
			if got := ask(t, b, verification.GateGovern); got != want {
				t.Errorf("%q with the token %q: %+v", header, token, got)
			}
		}
	}
}

func TestBridgeComesBack(t *testing.T) {
	answers := map[string]any{"govern_proposals": map[string]any{"decision": "approve", "resonance": 1}}
	s := start(t, "0", answers)
	log, lines := observer.New(zap.WarnLevel)
	b := xray.New(xray.Options{Govern: xray.Server{URL: s.url}, Timeout: time.Minute, Log: zap.New(log)})
	there := answer{Status: verification.GatePassed, Resonance: 1000}
	if got := ask(t, b, verification.GateGovern); got != there || lines.Len() != 0 {
		t.Fatalf("got %+v, %d warnings", got, lines.Len())
	}
	s.stop()
	if got := ask(t, b, verification.GateGovern); got != unavailable("unreachable") || lines.Len() != 1 {
		t.Errorf("away: %+v, %d warnings", got, lines.Len())
	}
	start(t, s.port, answers)
	if got := ask(t, b, verification.GateGovern); got != there {
		t.Errorf("back: %+v", got)
	}
	if got := ask(t, b, verification.GateEnforce); got != (answer{Status: verification.GateNotConfigured}) {
		t.Errorf("not configured: %+v", got)
	}
}
