package node

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const tools = `[get_registration_challenge, submit_challenge_turn, search_plugins, list_mcp_servers, ` +
	`get_plugin_ui_manifest]`

const verificationConfig = "verification: {hosts: [node.example], servers: [{name: calendar, role: reads calendars}]}\n"

const verificationRules = `
actions:
  - name: plugins
    match: {url: "https://PLAIN/mcp", mcp: {tools: [register_plugin]}}
    subject: agent:worker-1
    action: register_plugin
egress:
  - name: verification
    match: {url: "https://PLAIN/mcp", mcp: {tools: ` + tools + `}}
` + kit.Upstream

func TestVerificationThroughTheProxy(t *testing.T) {
	t.Parallel()
	agent := kit.NodeJS(t)
	n := kit.NewNode(t, verificationConfig)
	n.Start(t)
	r := kit.NewRig(t, kit.Plain, func(*kit.Rig) (http.Handler, string) {
		return &httputil.ReverseProxy{Transport: n.HTTPS.Transport, Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: n.Public})
			p.Out.Host = "node.example"
		}}, verificationRules
	})
	for i, generation := range []string{"v1", "v2", "v2-modern"} {
		out, err := r.AsAgent(t,
			kit.With(agent, kit.Scripts+"node/verify.mjs", generation, "https://"+r.Plain()+"/mcp", "wait")...)
		if err != nil {
			t.Fatal(generation, err)
		}
		var said struct {
			Registered struct{ Verification string }
		}
		check.Must(t, json.Unmarshal([]byte(out), &said))
		c := kit.Opened(t, n, verification.Kind, said.Registered.Verification, verification.Lifetime)
		if !c.ObservedAll || c.Score != verification.MaxScore || c.Subject != "127.0.0.1/32" ||
			c.SubjectBasis != verification.BasisDeclared || c.ModelCalls.Basis != verification.BasisNotMeasured {
			t.Errorf("%s: %+v", generation, c)
		}
		kit.Until(t, "the registration to be recorded as a post", func() bool { return r.ToolPosts(t) == i+1 })
	}
}

var ownVerificationRules = strings.Replace(
	strings.ReplaceAll(verificationRules, "https://PLAIN/mcp", "http://mediator.internal/mcp"), kit.Upstream, `
  - name: model
    match: {url: "https://PLAIN/v1/chat/completions", methods: [POST]}
    observe: openai-chat
    generate: {models: [m], maxTokens: 100}
`+kit.Upstream, 1)

func answerChat(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w,
		`{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"search"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":9,"completion_tokens":1}}`)
}

func newOwnVerificationRig(t *testing.T, rules string) *kit.Rig {
	t.Helper()
	return kit.NewRig(t, kit.Plain, func(*kit.Rig) (http.Handler, string) {
		return http.HandlerFunc(answerChat), rules
	}, func(file string) string {
		return strings.Replace(file, "verification: {}\n", verificationConfig, 1)
	})
}

func TestVerificationAtTheMediator(t *testing.T) {
	t.Parallel()
	agent := kit.NodeJS(t)
	const url = "http://mediator.internal/mcp"
	t.Run("with an action", func(t *testing.T) {
		r := newOwnVerificationRig(t, ownVerificationRules)
		for i, generation := range []string{"v1", "v2", "v2-modern"} {
			out, err := r.AsAgent(t, kit.With(agent, kit.Scripts+"node/verify.mjs", generation, url, "wait")...)
			if err != nil {
				t.Fatal(generation, err)
			}
			var said struct {
				Registered struct{ Verification string }
			}
			check.Must(t, json.Unmarshal([]byte(out), &said))
			c, err := evidence.UnverifiedClaims(verification.Kind, said.Registered.Verification)
			check.Must(t, err)
			owner, subject, _ := strings.Cut(c.Subject, ":")
			if m := c.ModelCalls; m.Basis != verification.BasisObserved || !slices.Equal(m.BeforeTurn, []int64{1, 1, 1, 1}) {
				t.Errorf("%s: the calls to models %+v", generation, m)
			}
			if !c.ObservedAll || c.Score != verification.MaxScore || c.SubjectBasis != verification.BasisObserved ||
				len(owner) != 43 || subject != "agent:worker-1" {
				t.Errorf("%s: %+v", generation, c)
			}
			result := t.TempDir() + "/result.jwt"
			kit.Write(t, result, said.Registered.Verification)
			kit.Mediator(t, "verify", result, "--dir", r.Dir).Done(
				"the verification of " + c.Subject + " (observed) is signed by")
			kit.Until(t, "the registration to be recorded as a post", func() bool { return r.ToolPosts(t) == i+1 })
		}
		// A client of the original has no MCP session and sends no Accept.
		curl := []string{kit.Need(t, "curl"), "-sS", "-H", "Accept:", "-H", "Content-Type: application/json", url, "-d"}
		out, err := r.AsAgent(t, append(curl, callOf("list_mcp_servers", "{}"))...)
		if err != nil || !strings.Contains(out, "calendar") {
			t.Errorf("%s, %v", out, err)
		}
		out, err = r.AsAgent(t, append(curl, callOf("register_plugin", "{}"))...)
		if err != nil || !strings.Contains(out, "query_malformed") {
			t.Errorf("%s, %v", out, err)
		}
	})
	t.Run("without one", func(t *testing.T) {
		_, egress, _ := strings.Cut(ownVerificationRules, "egress:")
		r := newOwnVerificationRig(t, "\nactions: []\negress:"+egress)
		out, err := r.AsAgent(t, kit.With(agent, kit.Scripts+"node/verify.mjs", "v1", url, "wait")...)
		if err == nil || !strings.Contains(err.Error(), "action_unmatched") {
			t.Errorf("%s, %v", out, err)
		}
	})
}

func TestVerifiedReputation(t *testing.T) {
	t.Parallel()
	r := newOwnVerificationRig(t, ownVerificationRules)
	// the agent's user starts it
	check.Must(t, errors.Join(os.Chmod(filepath.Dir(r.Dir), 0o711), os.Chmod(r.Dir, 0o711), r.CopySelf()))
	node := "unix:" + r.Stack.Socket("reputation")
	raw := kit.Read(t, r.Dir+"/registry.jwk")
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	check.Must(t, err)
	agent := interaction.Owner(root.Public) + ":agent:worker-1"
	verified := func() *accrual.Verified {
		t.Helper()
		var answer accrual.Claims
		check.Must(t, json.Unmarshal([]byte(kit.Run(t, "reputation", "show", "agent", "--node", node, "--", agent)), &answer))
		return answer.Verification
	}
	if v := verified(); v != nil {
		t.Errorf("before: %+v", v)
	}
	event, err := r.DeliverRelease(t.Context())
	check.Must(t, err)
	got, err := r.Run(t.Context(), event, "POST", "http://mediator.internal/mcp", "--verify")
	if err != nil || got.Detail != "105 of 105" || got.Post == "" {
		t.Fatal(got, err)
	}
	v := verified()
	if v == nil || v.Mode != accrual.ModeObserved || v.Degraded ||
		v.Expires-v.At != int64(verification.Lifetime/time.Second) {
		t.Errorf("after: %+v", v)
	}
	// The agent of examples follows the proxy by itself, as its README says.
	out, err := r.AsAgent(t, kit.NodeJS(t)[0], "--no-warnings", kit.Scripts+"node/example.mjs")
	if err != nil || !strings.Contains(out, `"score": 105,`) {
		t.Errorf("%s, %v", out, err)
	}
	kit.Until(t, "the example's registration to be recorded as a post", func() bool { return r.ToolPosts(t) == 2 })
}

const quickTask = `[{"id": "compare", ` +
	`"prompt": "Compare the plugins of the registry with the servers of this deployment.", ` +
	`"requiredTools": ["list_mcp_servers"], "minTurns": 2, "minDurationMs": 0}]`

func quickly(t *testing.T, n *kit.NodeRig) {
	t.Helper()
	kit.Write(t, n.At("tasks.json"), quickTask)
}

const quickConfig = "verification: {hosts: [node.example], tasks: tasks.json, servers: [{name: calendar, role: " +
	"reads calendars}]}\n"

func TestVerificationScripts(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t, quickConfig)
	quickly(t, n)
	n.Start(t)
	for range 2 { // the second list puts the first one into the bundle's history
		n.Must(t, "revoke", "--artifact", "jti-1", "--reason", "found")
	}
	kit.Read(t, n.At("trust-history.json"))
	testscript.Run(t, testscript.Params{Dir: "testdata/verification", Setup: func(e *testscript.Env) error {
		for name, value := range map[string]string{
			"NODE": "https://" + n.Public + "/mcp", "CA": n.At("api-ca.pem"), "GORACE": os.Getenv("GORACE"),
		} {
			e.Setenv(name, value)
		}
		return nil
	}})
}

func TestVerificationCallers(t *testing.T) {
	t.Parallel()
	for name, store := range nodeStores(t) {
		t.Run(name, func(t *testing.T) {
			gate, more := newGate(t)
			n := kit.NewNode(t, store(t)+strings.Replace(verificationConfig, "}\n", ", "+more+"}\n", 1))
			n.Start(t)
			sidecar, base := endpoint.Client(config.Peer{Unix: n.Socket()}, nil)
			t.Cleanup(sidecar.CloseIdleConnections)
			call := func(c *http.Client, url, host, token, tool, arguments string) (status int, said string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp",
					strings.NewReader(callOf(tool, arguments)))
				check.Must(t, err)
				req.Host = host
				req.Header.Set("Content-Type", "application/json")
				if token != "" {
					req.Header.Set(interaction.CallerHeader, token)
				}
				resp, err := c.Do(req)
				check.Must(t, err)
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				check.Must(t, err)
				return resp.StatusCode, string(bytes.ReplaceAll(raw, []byte(`\"`), []byte(`"`)))
			}
			const list, challenge = "list_mcp_servers", "get_registration_challenge"
			const key = `{"pubkey":"-----BEGIN PUBLIC KEY-----\n` +
				`MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"}`
			token := callerToken(t, n, callOf(list, "{}"))
			for _, tt := range []struct {
				name                         string
				client                       *http.Client
				url, host, token, tool, args string
				status                       int
				want                         string
			}{
				{"a sidecar", sidecar, base, "", token, list, "{}", 200, "calendar"},
				{"a token twice", sidecar, base, "", token, list, "{}", 401, "caller_invalid"},
				{"a token for another request", sidecar, base, "", callerToken(t, n, "{}"), list, "{}", 401, "caller_invalid"},
				{"no token of a sidecar", sidecar, base, "", "", list, "{}", 401, "caller_invalid"},
				{"the public address", n.HTTPS, "https://" + n.Public, "", "", list, "{}", 200, "calendar"},
				{"its name", n.HTTPS, "https://" + n.Public, "node.example", "", list, "{}", 200, "calendar"},
				{"another name", n.HTTPS, "https://" + n.Public, "evil.example", "", list, "{}", 421,
					"not offered under the host name"},
				{"a sidecar elsewhere", n.HTTPS, "https://" + n.Public, "other.example", callerToken(t, n, callOf(list, "{}")),
					list, "{}", 200, "calendar"},
				{"a token that is none", n.HTTPS, "https://" + n.Public, "", "x", list, "{}", 403, "artifact_malformed"},
				{"a session of a sidecar", sidecar, base, "", callerToken(t, n, callOf(challenge, key)), challenge, key, 200,
					`"success":true`},
				{"which gives the agent canaries", sidecar, base, "", callerToken(t, n, callOf(list, `{ }`)), list, `{ }`, 200,
					`"canary":`},
			} {
				if status, said := call(tt.client, tt.url, tt.host, tt.token, tt.tool, tt.args); status != tt.status ||
					!strings.Contains(said, tt.want) {
					t.Errorf("%s: %d %s, want %d with %s", tt.name, status, said, tt.status, tt.want)
				}
			}
			if token := gate(); token != "Bearer gate-token" {
				t.Errorf("the governance server was asked with %q", token)
			}
			check.Must(t, n.End(t, syscall.SIGTERM))
			n.Start(t)
			if status, said := call(sidecar, base, "", callerToken(t, n, callOf(list, `{}`)), list, `{}`); status != 200 ||
				!strings.Contains(said, `"canary":`) {
				t.Errorf("the session is over with the process: %d %s", status, said)
			}
		})
	}
	t.Run("off by default", func(t *testing.T) {
		n := kit.NewNode(t, "")
		n.Start(t)
		var p struct{ Code string }
		if status := n.Get(t, "/mcp", &p); status != http.StatusNotFound || p.Code != "not_found" {
			t.Errorf("%d %s", status, p.Code)
		}
	})
}

func newGate(t *testing.T) (asked func() string, more string) {
	t.Helper()
	var token atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		http.Error(w, "away", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	check.Must(t,
		os.WriteFile(dir+"/ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			0o600))
	kit.Write(t, dir+"/token", "gate-token\n")
	return func() string { s, _ := token.Load().(string); return s },
		`xray: {govern: {url: "` + server.URL + `/mcp", ca: ` + dir + `/ca.pem, tokenFile: ` + dir + `/token}}`
}

func callOf(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

func callerToken(t *testing.T, n *kit.NodeRig, body string) string {
	t.Helper()
	token, err := evidence.Sign(t.Context(), n.Kit.Key(t, evidence.PurposeInteraction), interaction.CallerKind,
		interaction.Caller{
			Registered: evidence.NewRegistered(n.Kit.Issuer(evidence.PurposeInteraction), "node", time.Now(), time.Minute),
			KeyClaims:  evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
			Agent:      "agent:worker-1", Owner: n.Kit.Owner(t), Session: "ses_1", EventID: "evt_1",
			Method: http.MethodPost, Path: "/mcp", BodyHash: evidence.HashBytes([]byte(body)),
		})
	check.Must(t, err)
	return token
}
