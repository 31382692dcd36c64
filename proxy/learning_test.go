package proxy

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// newLearningRig has an action, an egress rule with a credential, and a session that learns.
func newLearningRig(t *testing.T, change func(*PipelineOptions)) *postRig {
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/mcp"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(
				[]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}}`))
		default:
			created(w, r)
		}
	}, func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(t, actions[:1],
			[]rules.Egress{{Name: "keyed", Match: matchAt(actions[0], "/inference", "PUT"),
				Credential: actions[0].Credential}})
		if change != nil {
			change(o)
		}
	})
	p.session.Learning = true
	return p
}

func (p *postRig) wantUnused() {
	p.T.Helper()
	if rec, _ := p.record.last(); len(rec.Artifacts) > 0 || p.roles.decided.ChallengeID != "" ||
		len(p.record.keys) > 0 {
		p.T.Errorf("a learning session made evidence: %+v", rec)
	}
}

const (
	pingWithMore = `{"jsonrpc":"2.0","id":1,"method":"ping","text":"hi"}`
	callsTool    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{}}}`
	listsTools   = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
)

func TestLearningSessionPostsNothing(t *testing.T) {
	p := newLearningRig(t, func(o *PipelineOptions) {
		metadata := names{"rebound.example": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")}}
		o.Transport = upstream.NewTransport(upstream.Options{Dialer: upstream.Dialer{Resolver: metadata}})
	})
	const refused = "learning_refused"
	for _, tt := range []struct {
		code, method, path, body string
		header                   []string
	}{
		{refused, "POST", "/posts", "{}", nil}, // an action's
		{refused, "POST", "/other", `{"text":"hi"}`, nil},
		{refused, "POST", "/other", "", nil},
		{refused, "PUT", "/other", "{}", nil},
		{refused, "PATCH", "/other", "{}", nil},
		{refused, "DELETE", "/other", "", nil},
		{refused, "POST", "/other", listsTools, []string{"Content-Type", "text/plain"}},
		{refused, "POST", "/other", strings.Repeat(" ", 9<<20), nil},
		{refused, "POST", "/graphql", `{"query":"mutation { pay }"}`, nil},
		{refused, "POST", "/graphql", `{"query":"{ a }","text":"hi"}`, nil},
		{refused, "POST", "/graphql?query=mutation{pay}", `{"query":"{ a }"}`, nil},
		{refused, "POST", "/search", `{"query":"cats"}`, nil},
		{refused, "POST", "/mcp", pingWithMore, nil},                  // some webhooks take the text
		{refused, "POST", "/send?token=own&text=hi", listsTools, nil}, // Slack takes it all from the URL
		{refused, "DELETE", "/mcp", "", []string{"Mcp-Session-Id", "1"}},
		{refused, "GET", "/other", `{"text":"hi"}`, nil},
		{refused, "OPTIONS", "/other", "{}", nil},
		{refused, "GET", "/graphql?query=mutation%7Bpay%7D", "", nil},
		{refused, "GET", "/graphql?query={a}&query=mutation{pay}", "", nil},
		{refused, "GET", "/graphql?query=mutation%7Bpay%7D%23%zz", "", nil}, // Node keeps a broken escape
		{refused, "GET", "/graphql?+query=mutation%7Bpay%7D", "", nil},      // PHP drops the space
		{refused, "GET", `/graphql?extensions={"persistedQuery":{"sha256Hash":"0"}}`, "", nil},
		{"override_refused", "GET", "/other?_method=DELETE", "", nil},
		{"override_refused", "GET", "/other", "", []string{"X-HTTP-Method-Override", "POST"}},
		{"egress_denied", "GET", "/other", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		{"egress_denied", "GET", "/other", "", []string{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c",
			"HTTP2-Settings", "AAMAAABkAAQAAP__"}},
		{refused, "POST", "http://mediator.internal/v1/challenge/issue", "{}", nil},
		{"not_found", "POST", "http://mediator.internal/v1/sessions", `{"learning":true}`, nil},
		{"egress_address_denied", "GET", "http://169.254.169.254/latest/meta-data/", "", nil},
		{"egress_address_denied", "GET", "http://127.0.0.1:1/", "", nil},
		{"egress_address_denied", "GET", "https://rebound.example/", "", nil},
	} {
		if len(tt.header) > 0 && tt.header[0] == "Content-Type" { // replaces the default
			req := p.request(t.Context(), tt.method, tt.path, tt.body)
			req.Header.Set("Content-Type", tt.header[1])
			resp, err := p.client.Do(req)
			must(t, err)
			_ = resp.Body.Close()
		} else {
			p.wantRefused(tt.code, tt.method, tt.path, tt.body, tt.header...)
		}
		carries := map[string]string{"text/plain": "text/plain", "websocket": ledger.WebSocket}
		if rec, _ := p.record.last(); !rec.Learning || rec.Code != tt.code || len(p.sent) > 0 ||
			rec.Carries != carries[strings.Join(tt.header[max(0, len(tt.header)-1):], "")] {
			t.Errorf("%s %s %.60s: %d sent, recorded %+v", tt.method, tt.path, tt.body, len(p.sent), rec)
		}
		p.wantUnused()
	}
	if _, answer := p.send("POST", "/mcp", callsTool); !strings.Contains(answer, refused) ||
		!strings.Contains(answer, `"isError":true`) {
		t.Errorf("a tool call got %s", answer)
	}
	rec, _ := p.record.last()
	if got := rec.MCP; got == nil || got.Method != "tools/call" || got.Tool != "pay" || len(p.sent) > 0 ||
		rec.Unfit != "egress_address_denied" {
		t.Errorf("recorded %+v", rec)
	}
	p.send("DELETE", "/mcp", "", "Mcp-Session-Id", "1")
	if rec, _ := p.record.last(); rec.MCP == nil || rec.MCP.Method != "" {
		t.Errorf("the end of an MCP session is recorded as %+v", rec)
	}
	p.session.Learning = false // the same calls in another session
	p.wantRefused("egress_denied", "GET", "/other", "", "Learning", "true")
}

func TestLearningSessionReads(t *testing.T) {
	p := newLearningRig(t, nil)
	own := []string{"Authorization", "Bearer the-agents-own", "Cookie", "a=b", "X-Auth-Key", "of Cloudflare"}
	for _, tt := range []struct {
		method, path, body string
		owns               bool // the upstream gets the agent's credentials
		want               ledger.Record
	}{
		{"GET", "/items/7?page=2&token", "", true, ledger.Record{QueryNames: []string{"page"}, Scheme: "https"}},
		{"GET", "/search?query=cats&filter={}", "", true, ledger.Record{}},
		{"HEAD", "/items", "", true, ledger.Record{}},
		{"OPTIONS", "/items", "", true, ledger.Record{}},
		{"GET", "/graphql?query={viewer{login}}", "", true,
			ledger.Record{GraphQL: []ledger.Operation{{Type: "query", Fields: []string{"viewer"}}}}},
		{"PUT", "/inference", "{}", true, ledger.Record{Rule: "keyed"}},
		{"POST", "/graphql", `{"query":"{ me: viewer { login } }"}`, false,
			ledger.Record{GraphQL: []ledger.Operation{{Type: "query", Fields: []string{"viewer"}}}}},
		{"POST", "/mcp", listsTools, false, ledger.Record{MCP: &ledger.MCPMessage{Method: "tools/list"}}},
	} {
		header := append([]string{"Accept", "application/json, text/event-stream"}, own...)
		if resp, answer := p.send(tt.method, tt.path, tt.body, header...); resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %s", tt.method, tt.path, answer)
		}
		got := p.sent[len(p.sent)-1].Header
		if (got.Get("Authorization") == own[1]) != tt.owns || (got.Get("Cookie") != "") != tt.owns ||
			(got.Get("X-Auth-Key") != "") != tt.owns {
			t.Errorf("%s %s: the upstream got %v", tt.method, tt.path, got)
		}
		tt.want.Learning, tt.want.State = true, ledger.StateForwarded
		if rec := p.wantLast(len(p.sent), tt.want); rec.Unfit != "" {
			t.Errorf("%+v", rec)
		}
		p.wantUnused()
	}
	if rec, _ := p.record.last(); len(rec.Tools) != 1 || rec.Tools[0].Name != "pay" {
		t.Errorf("the listed tools are %+v", rec.Tools)
	}
	p.client = p.rig.Client(http2)
	p.want(http.StatusCreated, "GET", "/items", "")
	_, answer := p.send("GET", "/away", "") // the client follows the redirect
	if rec, _ := p.record.last(); rec.Code != "egress_address_denied" || rec.Unfit != rec.Code {
		t.Errorf("%s, recorded %+v", answer, rec)
	}
}

// Refused calls beyond a quota leave no record, but one that makes the session unfit always does.
func TestUnfitSessionIsRecorded(t *testing.T) {
	p := newLearningRig(t, func(o *PipelineOptions) { o.Load.Refused = 1 })
	for range 3 {
		p.send("POST", "/other", "{}")
	}
	p.send("GET", "http://169.254.169.254/", "")
	p.wantLast(2, ledger.Record{Code: "egress_address_denied", Unfit: "egress_address_denied"})
}

func TestCeilingBoundsCalls(t *testing.T) {
	for _, learning := range []bool{true, false} {
		p := newLearningRig(t, nil)
		p.pipeline.o.Ceiling = match.Ceiling{matching(t, p.base+"/public/{id}")}
		p.session.Learning = learning
		p.wantRefused("ceiling_exceeded", "PUT", "/inference", "{}")
		p.wantRefused("ceiling_exceeded", "POST", "/posts", "{}")
		if !learning {
			continue
		}
		p.wantRefused("ceiling_exceeded", "GET", "/other", "")
		p.wantRefused("ceiling_exceeded", "GET", "/public/x%2Fy", "") // to some servers a longer path
		p.want(http.StatusCreated, "GET", "/public/x", "")
	}
}

// A client of the official SDK gets as far as it can at a server that no rule names.
func TestLearningSessionAtAnMCPServer(t *testing.T) {
	r := newMCPRig(t, &sdk.StreamableHTTPOptions{Stateless: true}, nil)
	r.reload(rules.Egress{Name: "other", Match: matching(t, r.base+"/other", "GET")})
	r.session.Learning = true
	s := r.connect(t, mcp.Versions[1])
	listed, err := s.ListTools(t.Context(), nil)
	must(t, err)
	result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "create_issue", Arguments: issue{Title: "a"}})
	must(t, err)
	if said, _ := json.Marshal(result); len(listed.Tools) < 2 || !result.IsError || r.calls.Load() > 0 ||
		!strings.Contains(string(said), "learning_refused") {
		t.Errorf("%d tools, then %s", len(listed.Tools), said)
	}
}

func TestLearningSessionHasNoReceipts(t *testing.T) {
	r := newReceiptsRig(t, created)
	r.session.Learning = true
	r.want(http.StatusCreated, "POST", "/v1/chat/completions", askModel)
	if rec := r.wantLast(1, ledger.Record{Rule: "model", Learning: true}); rec.Model == nil {
		t.Errorf("recorded %+v", rec)
	}
	if head, err := r.pipeline.o.Receipts.Head(t.Context(), r.session.Chain); err != nil || head.Number > 0 ||
		len(head.OpenCalls) > 0 {
		t.Errorf("the chain's head is %+v, %v", head, err)
	}
}
