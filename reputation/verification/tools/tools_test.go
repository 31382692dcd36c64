package tools_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/tools"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

type node struct {
	*testing.T
	url    string
	store  *verification.Store
	logged *observer.ObservedLogs
}

func newNode(t *testing.T, mode verification.Mode, step time.Duration) *node {
	t.Helper()
	start := time.Now()
	var steps atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(steps.Load()) * step) }
	kept, err := verification.Open(t.Context(), filepath.Join(t.TempDir(), "v.db"), "", now)
	check.Must(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	key, err := custody.NewMemory("appraiser-key")
	check.Must(t, err)
	sign, err := signer.New(verification.Kind, key,
		signer.Options{Issuer: "node", Audience: "policy", Lifetime: verification.Lifetime, Now: now})
	check.Must(t, err)
	service, err := verification.New(kept, sign, verification.Options{
		Mode: mode, Servers: []verification.Server{{Name: "calendar", Role: "reads calendars"},
			{Name: "tracker", Role: "reads and writes issues"}},
	})
	check.Must(t, err)
	core, logged := observer.New(zap.ErrorLevel)
	handler, err := tools.NewHandler(service,
		tools.Options{Hosts: []string{"mediator.internal"}, Version: "1.2.3", Log: zap.New(core), Caller: func(r *http.Request,
			_ []byte) (verification.Caller, error) {
			if r.Header.Get("X-Caller") == "nobody" {
				return verification.Caller{}, refusal.New("caller_invalid", "nobody")
			}
			return verification.Caller{Subject: "agent:worker-1", Session: r.Header.Get("X-Session")}, nil
		}})
	check.Must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		steps.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &node{t, server.URL + "/mcp", kept, logged}
}

func (n *node) send(message string, headers ...string) (int, []byte) {
	n.Helper()
	req, err := http.NewRequestWithContext(n.Context(), http.MethodPost, n.url, strings.NewReader(message))
	check.Must(n, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	check.Must(n, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.Must(n, err)
	return resp.StatusCode, body
}

func TestNoAnswerWithoutEnd(t *testing.T) {
	n := newNode(t, verification.ModeObserved, 0)
	message :=
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,` +
			`"resourcesListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:y"]},"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, body := n.send(message, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method",
		"subscriptions/listen"); !strings.Contains(string(body), `"result"`) {
		t.Errorf("%s", body)
	}
}

// TestFailuresInLog: strangers write little into the log of a node whose database is away.
func TestFailuresInLog(t *testing.T) {
	n := newNode(t, verification.ModeObserved, 0)
	check.Must(t, n.store.Close())
	for range 3 * flood.Lines {
		if a := n.call(verification.ToolSearch, map[string]any{"query": "x"}); a.Success {
			t.Fatal("a closed store answers")
		}
	}
	check.WantEqual(t, n.logged.Len(), flood.Lines)
}

type answer struct {
	Success bool
	Code    string
	Nonce   string
	TTL     int64
	Session struct {
		SessionID, Status string
		Task              verification.Task
	}
	TurnCount         int
	FollowUpPrompt    string
	FollowUpCompleted bool
	Results           []map[string]any
	Servers           []struct{ Name, Role string }
	Canary            string
	DID               string
	Record            struct{ DID, APIKey string }
	Verification      string
	Status            string
	Cooldown          int64
	Score             int64
	Violations        []string
	Checks            []struct{ Check, Basis string }
	RetryAfter        int
	Manifest          json.RawMessage
	text              string
}

func (n *node) call(name string, arguments any, headers ...string) (a answer) {
	n.Helper()
	message, err := json.Marshal(
		map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": name, "arguments": arguments}})
	check.Must(n, err)
	status, body := n.send(string(message), headers...)
	var rpc struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(body, &rpc); err != nil || status != http.StatusOK || len(rpc.Result.Content) != 1 {
		n.Fatalf("%s: %d %s, %v", name, status, body, err)
	}
	a.text = rpc.Result.Content[0].Text
	check.Must(n, json.Unmarshal([]byte(a.text), &a))
	return a
}

type original struct {
	n       *node
	whole   bool
	session string            // the sidecar's
	said    map[string]answer // if it is made: what was answered, by the tool, and by the number of the turn
}

func (o original) run() answer {
	o.n.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		o.n.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		o.n.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	call := func(name string, arguments map[string]any) answer {
		a := o.n.call(name, arguments, "X-Session", o.session)
		if a.TurnCount > 0 {
			name = fmt.Sprint(name, " ", a.TurnCount)
		}
		if o.said != nil {
			o.said[name] = a
		}
		return a
	}
	challenge := call("get_registration_challenge", map[string]any{"pubkey": key})
	id, start := challenge.Session.SessionID, time.Now().UnixMilli()
	var turns []verification.Turn
	previous, canary := verification.ChainSeed, ""
	submit := func(tool, input, output, reasoning string) answer {
		t := verification.Turn{ToolCall: tool, Input: input, Output: output, Reasoning: reasoning,
			Timestamp: start + 1500*int64(len(turns)+1)}
		t.Hash = t.HashAfter(previous)
		previous, turns = t.Hash, append(turns, t)
		return call("submit_challenge_turn", map[string]any{
			"sessionId": id, "toolCall": t.ToolCall, "input": t.Input, "output": t.Output, "reasoning": t.Reasoning,
			"hash": t.Hash, "timestamp": t.Timestamp,
		})
	}
	excerpt := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			o.n.Fatal(err)
		}
		return string(text)
	}
	const query = "marketplace workflow"
	found := call("search_plugins", map[string]any{"query": query})
	input, output := query, excerpt(found.Results)
	if o.whole {
		input, output, canary = `{"query":"`+query+`"}`, found.text, found.Canary
	}
	submit("search_plugins", input, output,
		"Searched the registry for a plugin with governance signals; the automated workflow is submitted for verification.")
	listed := call("list_mcp_servers", map[string]any{})
	output = excerpt(listed.Servers[:1])
	if o.whole {
		output = listed.text
	}
	submit("list_mcp_servers", "{}", output,
		fmt.Sprintf("Identified %d servers, such as %s, for the execution of a workflow, and compare what they do. %s",
			len(listed.Servers), listed.Servers[0].Name, canary))
	tool, input, output, said := "synthesize", "Task: "+challenge.Session.Task.Prompt, "novel-guard",
		"Synthesized a concept from the servers. Task prompt: "+challenge.Session.Task.Prompt[:60]+"."
	if o.whole {
		again := call("search_plugins", map[string]any{"query": "guard"})
		tool, input, output, said, canary = "search_plugins", `{"query":"guard"}`, again.text, said+listed.Canary,
			again.Canary
	}
	prompt := submit(tool, input, output, said).FollowUpPrompt
	if prompt == "" {
		o.n.Log("no follow-up came")
	} else {
		tool, arguments := "list_mcp_servers", map[string]any{}
		if strings.Contains(prompt, "search_plugins with") {
			tool, arguments = "search_plugins", map[string]any{"query": "governance proposals"}
			if _, word, _ := strings.Cut(prompt, "with the query "); o.whole {
				arguments["query"] = word[:8]
			}
		}
		data := call(tool, arguments)
		input, output, said := prompt[:min(80, len(prompt))], excerpt(data.Results),
			"Responding to adaptive follow-up: "+prompt[:min(100, len(prompt))]+". This completes the challenge."
		if o.whole {
			input, output, said = excerpt(arguments), data.text, said+tool+canary+data.Canary
		}
		submit(tool, input, output, said)
	}
	var hashes []string
	for _, t := range turns {
		hashes = append(hashes, t.Hash)
	}
	root := verification.MerkleRoot(hashes)
	trace, err := json.Marshal(
		verification.Trace{SessionID: id, Turns: turns, MerkleRoot: root, Attestation: verification.Attestation(root, id)})
	if err != nil {
		o.n.Fatal(err)
	}
	return call("register_plugin", map[string]any{
		"pubkey": key, "payload": "agent", "metadata": map[string]any{"name": "agent"},
		"uiManifest": map[string]any{"displayMode": "form"}, "challengeNonce": challenge.Nonce,
		"signature":      hex.EncodeToString(ed25519.Sign(private, []byte(challenge.Nonce+"|agent"))),
		"challengeTrace": string(trace),
	})
}

func TestClientOfTheOriginal(t *testing.T) {
	for _, session := range []string{"", "ses_1"} {
		t.Run("seed mode "+session, func(t *testing.T) {
			got := original{n: newNode(t, verification.ModeSeed, time.Millisecond), session: session}.run()
			if !got.Success || got.Record.DID != got.DID || !strings.HasPrefix(got.DID, "did:groover:") ||
				got.Score != verification.MaxScore {
				t.Fatalf("refused: %s", got.text)
			}
			basis := make(map[string]string)
			for _, c := range got.Checks {
				basis[c.Check] = c.Basis
			}
			for _, check := range []string{verification.CheckTurns, verification.CheckDuration, verification.CheckTools,
				verification.CheckFollowUp} {
				if basis[check] != verification.BasisDeclared {
					t.Errorf("%s is %s, and the agent invented it", check, basis[check])
				}
			}
		})
		t.Run("observed "+session, func(t *testing.T) {
			got := original{n: newNode(t, "", time.Millisecond), session: session}.run()
			if got.Success || got.Status != "gray" || got.Cooldown != 300_000 ||
				!slices.Contains(got.Violations, verification.ViolationTooFast) &&
					!slices.Contains(got.Violations, verification.ViolationTraceAltered) {
				t.Errorf("got %s", got.text)
			}
		})
	}
	t.Run("nothing but the times is invented", func(t *testing.T) {
		got := original{n: newNode(t, "", time.Millisecond), whole: true, session: "ses_1"}.run()
		if got.Success || !slices.Equal(got.Violations, []string{verification.ViolationTooFast}) || got.Status != "gray" {
			t.Errorf("got %s", got.text)
		}
	})
	t.Run("nothing is invented", func(t *testing.T) {
		if got := (original{n: newNode(t, "", 2*time.Second), whole: true, session: "ses_1"}).run(); !got.Success {
			t.Errorf("got %s", got.text)
		}
	})
}

func TestMembersOfTheOriginal(t *testing.T) {
	has := func(a answer, members string) {
		t.Helper()
		var got, want any
		check.Must(t, errors.Join(json.Unmarshal([]byte(a.text), &got), json.Unmarshal([]byte(members), &want)))
		if err := like(got, want); err != nil {
			t.Errorf("%v: %s", err, a.text)
		}
	}
	const turns = `{"success": true, "sessionId": "", "turnCount": 1, "followUpPrompt": `
	for mode, want := range map[verification.Mode]string{
		verification.ModeSeed: `{"success": true, "did": "", "record": {"did": "", "pubkey": "", "registeredAt": "", ` +
			`"metadata": {"name": ""}, "uiManifest": {"displayMode": ""}}}`,
		"": `{"status": "", "cooldown": 1, "record": {"status": "", "cooldown": 1}}`,
	} {
		n := newNode(t, mode, time.Millisecond)
		o := original{n: n, whole: true, session: "ses_1", said: make(map[string]answer)}
		has(o.run(), want)
		has(o.said["get_registration_challenge"],
			`{"success": true, "nonce": "", "ttl": 1, "session": {"sessionId": "", "status": "", "followUpPrompt": null, `+
				`"followUpCompleted": false,
			"task": {"prompt": "", "requiredTools": [""], "minTurns": 1, "minDurationMs": 1}}}`)
		has(o.said["search_plugins"], `{"success": true, "count": 1, "results": []}`)
		has(o.said["list_mcp_servers"], `{"success": true, "count": 1, "servers": [{"name": "", "role": ""}]}`)
		has(o.said["submit_challenge_turn 1"], turns+`null}`)
		has(o.said["submit_challenge_turn 3"], turns+`""}`)
		has(o.said["submit_challenge_turn 4"], turns+`null}`)
	}
}

func like(got, want any) error {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", got)
		}
		for name, member := range want {
			value, ok := got[name]
			if !ok {
				return fmt.Errorf("%s is missing", name)
			}
			if err := like(value, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) < len(want) {
			return fmt.Errorf("%v is not a list like %v", got, want)
		}
		if len(want) > 0 {
			return like(got[0], want[0])
		}
	default:
		if reflect.TypeOf(got) != reflect.TypeOf(want) {
			return fmt.Errorf("%v is not of the type of %v", got, want)
		}
	}
	return nil
}

func TestOfficialSDK(t *testing.T) {
	full.Only(t, "Node's packages, which make setup installs")
	const scripts = "../../../test/e2e/testdata/node/"
	if _, err := os.Stat(scripts + "node_modules/.ok"); err != nil {
		t.Fatal("Node's packages are not installed: run make setup")
	}
	for _, generation := range []string{"v1", "v2", "v2-modern"} {
		t.Run(generation, func(t *testing.T) {
			n := newNode(t, "", 5*time.Second)
			cmd := exec.CommandContext(t.Context(), "node", "--no-warnings", scripts+"verify.mjs", generation, n.url)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			check.Must(t, err)
			var got struct {
				Tools                []string
				Task                 verification.Task
				Registered, Manifest answer
			}
			check.Must(t, json.Unmarshal(out, &got))
			slices.Sort(got.Tools)
			if want := []string{"get_plugin_ui_manifest", "get_registration_challenge", "list_mcp_servers", "register_plugin",
				"search_plugins", "submit_challenge_turn"}; !slices.Equal(got.Tools, want) {
				t.Errorf("tools %v", got.Tools)
			}
			if !got.Registered.Success || got.Registered.Score != verification.MaxScore ||
				string(got.Manifest.Manifest) != `{"view":"<none>"}` || got.Task.MinTurns != 3 {
				t.Errorf("got %s", out)
			}
			if found, err := n.store.Search(t.Context(), "agent "+generation, 9); err != nil || len(found) != 1 {
				t.Errorf("registered %v, %v", found, err)
			}
		})
	}
}

func TestRevisions(t *testing.T) {
	n := newNode(t, "", time.Second)
	for _, revision := range mcp.SupportedProtocolVersions() {
		status, body := n.send(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision +
				`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if status != http.StatusOK || !bytes.Contains(body, []byte(`{"name":"mediator-verification","version":"1.2.3"}`)) {
			t.Errorf("%s: %d %s", revision, status, body)
		}
		if revision < "2026-07-28" && !bytes.Contains(body, []byte(`"protocolVersion":"`+revision+`"`)) {
			t.Errorf("%s became another: %s", revision, body)
		}
	}
	const bare = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if status, body := n.send(bare); status != http.StatusOK || !bytes.Contains(body, []byte(`"result"`)) {
		t.Errorf("%s: %d %s", bare, status, body)
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_mcp_servers","arguments":{}}}`
	for _, accept := range []string{"", "*/*", "application/json", "text/event-stream", "text/html"} {
		if status, body := n.send(list, "Accept", accept); status != http.StatusOK ||
			!bytes.Contains(body, []byte("calendar")) {
			t.Errorf("Accept %q: %d %s", accept, status, body)
		}
	}
	if status, body := n.send(list, "X-Caller", "nobody"); status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", status, body)
	}
	for host, want := range map[string]int{
		"mediator.internal": 200, "Mediator.internal:80": 200, "[::1]:1": 200, "10.0.0.1": 200, "localhost": 421,
		"evil.example": 421, "127.0.0.1.evil.example:80": 421,
	} {
		if status, body := n.send(list, "Host", host); status != want ||
			(status == http.StatusOK) == bytes.Contains(body, []byte(`"code":"target_mismatch"`)) {
			t.Errorf("Host %s: %d %s", host, status, body)
		}
	}
	if status, body := n.send(list, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); status !=
		http.StatusForbidden {
		t.Errorf("a page in a browser: %d %s", status, body)
	}
}

// TestCostly: a message that would take many times its memory, or make as many answers as it has bytes, is refused.
func TestCostly(t *testing.T) {
	n := newNode(t, "", time.Minute)
	many := func(one string, most int) string {
		return strings.TrimSuffix(strings.Repeat(one+",", most/(len(one)+1)), ",")
	}
	const most = tools.MaxBody - 1000
	register := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register_plugin","arguments":{` +
		`"pubkey":"x","payload":"x","signature":"x","challengeNonce":"x","challengeTrace":`
	for name, message := range map[string]string{
		"a batch":                         "[" + many(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, most) + "]",
		"a batch of one":                  ` [{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`,
		"a trace of empty turns":          register + `{"turns":[` + many("{}", most) + `]}}}}`,
		"members that nobody reads":       `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[` + many("0", most) + `]}}`,
		"a member twice":                  `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"ping"}`,
		"a trace of empty turns, as text": register + `"{\"turns\":[` + many("{}", most) + `]}"}}}`,
	} {
		status, body := n.send(message)
		if !bytes.Contains(body, []byte("query_malformed")) || len(body) > 2000 {
			t.Errorf("%s: %d %.2000s", name, status, body)
		}
	}
}

func TestArguments(t *testing.T) {
	n := newNode(t, "", time.Minute)
	for _, tt := range []struct {
		tool      string
		arguments string
		code      string
	}{
		{"get_registration_challenge", `{}`, "query_malformed: pubkey is missing"},
		{"submit_challenge_turn", `{"sessionId": "x", "toolCall": "x"}`, "query_malformed: hash is missing"},
		{"register_plugin", `{"pubkey": "x"}`, "query_malformed: payload is missing"},
		{"get_registration_challenge", `{"pubkey": 1}`, "query_malformed"},
		{"get_registration_challenge", `{"pubkey": "x", "more": 1}`, "query_malformed"},
		{"get_registration_challenge", `{"Pubkey": "x"}`, "query_malformed"},
		{"submit_challenge_turn", `{"sessionId": "x", "toolCall": "x", "hash": "x"}`, "not_found"},
		{"submit_challenge_turn", `{"sessionId": "x", "toolCall": "x", "hash": "x", "timestamp": ` +
			`1.5}`, "query_malformed"},
		{"search_plugins", `{"sessionId": "x"}`, "not_found"},
		{"list_mcp_servers", `{"sessionId": "x"}`, "not_found"},
		{"search_plugins", `{"sessionId": "\u0000"}`, "not_found"},
		{"search_plugins", `{"query": "\u0000"}`, "query_malformed"},
		{"get_plugin_ui_manifest", `{"did": "did:groover:1"}`, "not_found"},
		{"get_plugin_ui_manifest", `{"did": "did:groover:0123456789abcdef"}`, "not_found"},
		{"get_plugin_ui_manifest", `{"did": "\u0000"}`, "not_found"},
		{"register_plugin", `{"pubkey": "x", "payload": "", "signature": "", "challengeNonce": "", "challengeTrace": ` +
			`"{"}`,
			"query_malformed"},
		{"register_plugin",
			`{"pubkey": "x", "payload": "", "signature": "", "challengeNonce": "", "challengeTrace": {"turns": {}}}`,
			"query_malformed"},
		{"register_plugin",
			`{"pubkey": "x", "payload": "", "signature": "", "challengeNonce": "", "challengeTrace": {}, "metadata": {` +
				`"role": "x"}}`, "query_malformed"},
	} {
		code, says, _ := strings.Cut(tt.code, ": ")
		if got := n.call(tt.tool, json.RawMessage(tt.arguments)); got.Success || got.Code != code ||
			strings.Contains(got.text, "retryAfter") || !strings.Contains(got.text, says) {
			t.Errorf("%s %s: %s", tt.tool, tt.arguments, got.text)
		}
	}
	if status, _ := n.send(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"submit_challenge_turn","arguments":{` +
			`"sessionId":"x","toolCall":"x","hash":"x","output":"` + strings.Repeat("x", 10<<20) +
			`"}}}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a turn of 10 MB: %d", status)
	}
	for range 40 { // a caller who has to wait learns the time
		if got := n.call("get_registration_challenge", map[string]any{"pubkey": "x"}, "X-Session", "x"); got.RetryAfter > 0 {
			t.Errorf("one call a minute: %s", got.text)
		}
	}
	fast := newNode(t, "", 0)
	for i := range 31 {
		got := fast.call("list_mcp_servers", map[string]any{})
		if limited := got.Code == "rate_limited"; limited != (i == 30) || limited && got.RetryAfter != 2 {
			t.Errorf("call %d: %s", i+1, got.text)
		}
	}
}

func TestNewHandlerRefuses(t *testing.T) {
	if _, err := tools.NewHandler(nil, tools.Options{}); err == nil {
		t.Error("accepted no service")
	}
}

// FuzzArguments: for any arguments the answer is a result with JSON in it, or an error of JSON-RPC.
func FuzzArguments(f *testing.F) {
	f.Add("submit_challenge_turn", `{"sessionId": "x", "toolCall": "x", "hash": "x", "timestamp": 1}`)
	f.Add("register_plugin",
		`{"pubkey": "x", "challengeTrace": "{\"turns\":[{}]}", "uiManifest": {}, "metadata": {"tags": ["a"]}}`)
	f.Add("search_plugins", `{"query": "\u0000"}`)
	f.Fuzz(func(t *testing.T, tool, arguments string) {
		n := newNode(t, "", time.Minute)
		message, err := json.Marshal(
			map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool}})
		if err != nil {
			t.Skip()
		}
		status, body := n.send(strings.TrimSuffix(string(message), "}}") + `,"arguments":` + arguments + "}}")
		var rpc struct {
			Result *struct{ Content []struct{ Text string } }
		}
		if status == http.StatusOK && json.Unmarshal(body, &rpc) != nil {
			t.Errorf("%d %s", status, body)
		}
		if rpc.Result != nil && (len(rpc.Result.Content) != 1 || !json.Valid([]byte(rpc.Result.Content[0].Text))) {
			t.Errorf("%s", body)
		}
	})
}
