package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

const ownMCP = "http://mediator.internal/mcp"

// nodeRig has a node that answers every message alike.
type nodeRig struct {
	*postRig
	node      *fakeNode
	forgotten int // how often the reputation was forgotten
}

// Token and Forget make the rig its own Reputations.
func (r *nodeRig) Forget() { r.forgotten++ }

func (r *nodeRig) Token(context.Context, time.Duration) string { return "" }

// newNodeRig has the rules for posts and for reads at the node, or one of them, or none.
func newNodeRig(t testing.TB, posts, reads bool, edits ...func(*PipelineOptions)) *nodeRig {
	t.Helper()
	r := &nodeRig{node: &fakeNode{answer: func(string, []byte) (string, error) {
		return `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, nil
	}}}
	r.postRig = newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		at := matching(t, ownMCP, "GET", "POST", "DELETE")
		wide := matching(t, "http://*.internal/**", "GET", "POST")
		egress := []rules.Egress{{Name: "wide", Match: wide}}
		actions[0].Name, actions[0].Match, actions[0].MCP = "plugins", at,
			&mcp.Rule{Tools: []string{"register_plugin"}, Post: true}
		actions[0].Match.Methods = []string{"POST"}
		if !posts {
			actions = actions[1:]
		}
		if reads {
			egress = append(egress,
				rules.Egress{Name: "verification", Match: at, MCP: &mcp.Rule{Tools: []string{"search_plugins"}}})
		}
		o.Rules = rulesFor(t, actions, egress)
		o.Node, o.Reputations = relayTo(t, r.node, nil), r
		for _, edit := range edits {
			edit(o)
		}
	})
	return r
}

func nodeTool(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// Requests to the node need a rule, and public ones the whole chain. Only the sidecar says who calls.
func TestRulesForTheNode(t *testing.T) {
	forged := []string{
		"ActionProof-Caller", "forged", "Agent-Statement", "forged", "Authorization", "mine", "Cookie", "mine", "Origin",
		"http://evil.example", "X-Forwarded-For", "10.0.0.1",
		"Accept", "text/html", "Mcp-Protocol-Version", "2025-06-18",
	}
	for _, tt := range []struct {
		tool         string
		posts, reads bool
		code, flow   string
	}{
		{"register_plugin", false, false, "action_unmatched", ""},
		{"register_plugin", false, true, "action_unmatched", ""},
		{"register_plugin", true, true, "", flowPost},
		{"search_plugins", false, false, "action_unmatched", ""},
		{"search_plugins", true, false, "action_unmatched", ""},
		{"search_plugins", false, true, "", flowEgress},
	} {
		r := newNodeRig(t, tt.posts, tt.reads)
		resp, answer := r.send("POST", ownMCP, nodeTool(tt.tool), forged...)
		rec, n := r.record.last()
		if tt.code != "" {
			if n != 1 || rec.Code != tt.code || rec.State != ledger.StateRefused || len(r.node.asked) != 0 ||
				!strings.Contains(answer, tt.code) {
				t.Errorf("%s: %s, the record %+v, the node %+v", tt.tool, answer, rec, r.node.asked)
			}
			continue
		}
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" ||
			!strings.Contains(answer, `"result"`) {
			t.Errorf("%s: %d %v %s", tt.tool, resp.StatusCode, resp.Header, answer)
		}
		if n != 1 || rec.Flow != tt.flow || rec.State != ledger.StateForwarded || rec.Host != "mediator.internal:80" ||
			rec.Path != "/mcp" {
			t.Errorf("%s: %d records, %+v", tt.tool, n, rec)
		}
		if tt.flow == flowPost &&
			(len(rec.Artifacts) != 10 || rec.Resource != "POST /mcp tools/call "+tt.tool ||
				rec.ID != resp.Header.Get("ActionProof-Post")) {
			t.Errorf("%s: %+v, %v", tt.tool, rec, resp.Header)
		}
		if posted := tt.flow == flowPost; posted != (r.forgotten == 1) || !posted && r.forgotten > 0 {
			t.Errorf("%s: the reputation was forgotten %d times", tt.tool, r.forgotten)
		}
		if len(r.node.asked) != 1 {
			t.Fatalf("the node was asked %+v", r.node.asked)
		}
		asked := r.node.asked[0]
		if c := asked.caller; c == nil || asked.body != nodeTool(tt.tool) || c.Session != r.session.ID ||
			c.EventID != "evt_1" || c.Agent != "agent" || c.Owner != strings.Repeat("o", 43) || c.Audience != "node" {
			t.Errorf("the node was asked %+v by %+v", asked, c)
		}
		if want := "Accept: application/json, text/event-stream\r\nContent-Type: " +
			"application/json\r\nMcp-Protocol-Version: 2025-06-18\r\n"; asked.header != want {
			t.Errorf("the node was sent the header\n%s\nwant\n%s", asked.header, want)
		}
	}
}

func TestNodeAway(t *testing.T) {
	r := newNodeRig(t, true, true)
	r.node.answer = func(string, []byte) (string, error) {
		return "", refusal.New("node_unavailable", "the node does not answer")
	}
	for i, code := range []string{"node_unavailable", "not_configured"} {
		if _, answer := r.send("POST", ownMCP, nodeTool("register_plugin")); !strings.Contains(answer, code) {
			t.Errorf("got %s, want %s", answer, code)
		}
		r.wantLast(i+1, ledger.Record{Code: code, State: ledger.StateFailed})
		r.pipeline.o.Node = nil
	}
}

// A post that the node did not take costs no event, so the breaker must stop repeated tries. The node is not blamed for
// clients that leave.
func TestNodeIsLeftAlone(t *testing.T) {
	r := newNodeRig(t, true, true)
	r.node.answer = func(string, []byte) (string, error) {
		return "", refusal.New("node_unavailable", "the node does not answer")
	}
	for i := range 11 {
		want := "node_unavailable"
		if i == 10 {
			want = "upstream_suspended"
		}
		r.send("POST", ownMCP, nodeTool("register_plugin"))
		r.wantLast(i+1, ledger.Record{Code: want})
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	c := r.pipeline.newCall(nil, nil)
	c.target, c.session = upstream.Target{Scheme: "http", Host: InternalHost, Port: 80}, r.session
	out, err := http.NewRequestWithContext(gone, "GET", ownMCP, http.NoBody)
	must(t, err)
	if _, err := (toNode{c}).RoundTrip(out); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestAnswersOfTheNode(t *testing.T) {
	for name, answer := range map[string]http.Response{
		"another protocol": {StatusCode: http.StatusSwitchingProtocols,
			Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}},
		"no status":      {StatusCode: 99, Header: http.Header{}},
		"a large header": {StatusCode: http.StatusOK, Header: http.Header{"X": {strings.Repeat("x", 64<<10)}}},
	} {
		for _, tool := range []string{"register_plugin", "search_plugins"} {
			r := newNodeRig(t, true, true)
			r.node.sends = func() *http.Response {
				a := answer
				a.Body = io.NopCloser(strings.NewReader("{}"))
				return &a
			}
			resp, body := r.send("POST", ownMCP, nodeTool(tool))
			if rec, n := r.record.last(); n != 1 || rec.Code != "upstream_lost" || rec.State == ledger.StateForwarded ||
				!strings.Contains(body, "upstream_lost") {
				t.Errorf("%s to %s: %d %s, %+v", name, tool, resp.StatusCode, body, rec)
			}
		}
	}
}

// Other spellings of the name, path or method are refused, or judged as the same request.
func TestSpellingsOfTheNode(t *testing.T) {
	r := newNodeRig(t, false, true) // register_plugin has no rule
	search, register := nodeTool("search_plugins"), nodeTool("register_plugin")
	message := func(line, host, body string, header ...string) string {
		h := ""
		for i := 0; i+1 < len(header); i += 2 {
			h += header[i] + ": " + header[i+1] + "\r\n"
		}
		return line + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n" + h + "\r\n" + body
	}
	post := func(path, body string, header ...string) string {
		return message("POST http://mediator.internal"+path, "x", body, header...)
	}
	const same = "" // reaches the node once, as the session's agent
	for _, tt := range []struct{ name, connect, raw, code string }{
		{"the absolute form", "", message("POST "+ownMCP, "mediator.internal", search), same},
		{"in capitals, with a dot and the port", "", message("POST http://MEDIATOR.internal.:80/mcp", "x", search), same},
		{"a Host that names another", "", message("POST "+ownMCP, "api.example.com", search), same},
		{"another URL, with the mediator as Host", "",
			message("POST http://api.example.com/mcp", "mediator.internal", register), "action_unmatched"},
		{"a tunnel to port 80", "mediator.internal:80", message("POST /mcp", "mediator.internal", search), same},
		{"a tunnel with another Host", "mediator.internal:80", message("POST /mcp", "api.example.com", search),
			"target_mismatch"},
		{"a tunnel without TLS to port 443", "mediator.internal:443", message("POST /mcp", "mediator.internal", search),
			"not_http"},
		{"a tunnel to another port", "mediator.internal:8080", message("POST /mcp", "mediator.internal:8080", search),
			"action_unmatched"},
		{"TLS to port 443", "mediator.internal:443 TLS", message("POST /mcp", "mediator.internal", register),
			"action_unmatched"},
		{"TLS to port 443, with the URL of port 80", "mediator.internal:443 TLS",
			message("POST "+ownMCP, "mediator.internal", register), "target_mismatch"},
		{"TLS to port 80", "mediator.internal:80 TLS", message("POST /mcp", "mediator.internal:80", register),
			"action_unmatched"},
		{"a port of no digits", "", post(":/mcp", register), "request_malformed"},
		{"a port with a zero before it", "", post(":080/mcp", register),
			"request_malformed"},
		{"an escape in the name", "", message("POST http://mediator%2einternal/mcp", "x", register), "request_malformed"},
		{"two dots after the name", "", post("../mcp", register), "request_malformed"},
		{"a fragment", "", post("/mcp#x", register), "request_malformed"},
		{"a backslash", "", post("\\mcp", register), "request_malformed"},
		{"chunks", "",
			"POST " + ownMCP + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
				strconv.FormatInt(int64(len(search)), 16) + "\r\n" + search + "\r\n0\r\nActionProof-Caller: forged\r\n\r\n", same},
		{"another port", "", post(":8080/mcp", register), "action_unmatched"},
		{"https in the absolute form", "", message("POST https://mediator.internal/mcp", "x", register), "action_unmatched"},
		{"a name below it", "", message("POST http://a.mediator.internal/mcp", "x", register), "upstream_unresolvable"},
		{"two Hosts", "", message("POST "+ownMCP, "mediator.internal", register, "Host", "b.example"), "request_malformed"},
		{"user information", "", message("POST http://a@mediator.internal/mcp", "x", register), "request_malformed"},
		{"a slash at the end", "", post("/mcp/", register), "not_found"},
		{"two slashes", "", post("//mcp", register), "not_found"},
		{"a dot segment", "", post("/./mcp", register), "not_found"},
		{"an escape", "", post("/%6dcp", register), "not_found"},
		{"capitals", "", post("/MCP", register), "not_found"},
		{"a parameter of the path", "", post("/mcp;x=1", register), "not_found"},
		{"a query", "", post("/mcp?x=1", register), "not_found"},
		{"a query that is empty", "", post("/mcp?", register), "not_found"},
		{"a method in small letters", "", message("post "+ownMCP, "x", register), "request_malformed"},
		{"another method", "", message("PUT "+ownMCP, "x", register), "not_found"},
		{"HEAD", "", message("HEAD "+ownMCP, "x", ""), "not_found"},
		{"TRACE", "", message("TRACE "+ownMCP, "x", ""), "not_found"},
		{"a method in a header", "", message("GET "+ownMCP, "x", "", "X-HTTP-Method-Override", "POST"), "override_refused"},
		{"a path in a header", "", message("GET "+ownMCP, "x", "", "X-Original-URL", "/mcp"), "override_refused"},
		{"the caller's header with underscores", "", post("/mcp", search, "ActionProof_Caller", "forged"),
			"override_refused"},
		{"the caller's header named by Connection", "",
			post("/mcp", search, "Connection", "ActionProof-Caller"), "override_refused"},
		{"an upgrade to a WebSocket", "",
			message("GET "+ownMCP, "x", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
				"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), "egress_denied"},
		{"an upgrade to HTTP/2", "",
			post("/mcp", register, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings",
				""), "egress_denied"},
		{"a GET that has a message", "", message("GET "+ownMCP, "x", register), "message_malformed"},
		{"a DELETE that has a message", "", message("DELETE "+ownMCP, "x", register), "message_malformed"},
		{"a batch", "", post("/mcp", "["+search+","+register+"]"), "message_malformed"},
		{"the tool's name twice", "",
			post("/mcp", strings.Replace(search, `"name"`, `"name":"register_plugin","name"`, 1)),
			"message_ambiguous"},
		{"the tool's name in capitals", "", post("/mcp", nodeTool("Register_Plugin")), "action_unmatched"},
		{"a tool that no rule names", "", post("/mcp", register), "action_unmatched"},
		{"two lengths", "", post("/mcp", search, "Content-Length", "1"), "request_malformed"},
		{"a length and chunks", "", post("/mcp", search, "Transfer-Encoding", "chunked"),
			"request_malformed"},
	} {
		r.node.asked = nil
		_, before := r.record.last()
		var err error
		var c net.Conn
		if to, ok := strings.CutSuffix(tt.connect, " TLS"); ok {
			c, err = r.Tunnel(to, "mediator.internal", http1)
			must(t, err)
		} else if tt.connect != "" {
			c = r.Connect(tt.connect)
		} else {
			c = r.Dial()
		}
		_, err = io.WriteString(c, tt.raw)
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: tt.raw[:strings.Index(tt.raw, " ")]})
		must(t, err)
		answer, _ := io.ReadAll(resp.Body)
		_ = c.Close()
		rec, n := r.record.last()
		switch {
		case n != before+1:
			t.Errorf("%s: %d records, %s", tt.name, n-before, answer)
		case tt.code != same && (rec.Code != tt.code || len(r.node.asked) != 0):
			t.Errorf("%s: %s (%s), want %s; the node was asked %+v", tt.name, rec.Code, answer, tt.code, r.node.asked)
		case tt.code == same &&
			(rec.Rule != "verification" || rec.Host != "mediator.internal:80" || len(r.node.asked) != 1 ||
				r.node.asked[0].caller.BodyHash != evidence.HashBytes([]byte(search))):
			t.Errorf("%s: %s, %+v, the node was asked %+v", tt.name, answer, rec, r.node.asked)
		}
		if len(r.sent) != 0 {
			t.Errorf("%s: an upstream saw it", tt.name)
		}
	}
}

func TestRulesOfTheMediatorsName(t *testing.T) {
	all := []string{"GET", "POST", "DELETE"}
	for _, tt := range []struct {
		url     string
		methods []string
		action  *mcp.Rule // of an action; an egress rule if nil
		egress  *mcp.Rule
		why     string
	}{
		{ownMCP, all, nil, &mcp.Rule{Tools: []string{"search_plugins"}}, ""},
		{ownMCP, all[1:2], &mcp.Rule{Tools: []string{"register_plugin"}, Post: true}, nil, ""},
		{ownMCP, all, nil, &mcp.Rule{Tools: []string{"register_plugin"}}, "others can read what register_plugin writes"},
		{ownMCP, all, nil, nil, "is an MCP server"},
		{"https://mediator.internal/mcp", all, nil, &mcp.Rule{}, "must be for /mcp"},
		{"http://mediator.internal:8080/mcp", all, nil, &mcp.Rule{}, "must be for /mcp"},
		{ownURL + "/v1/event", all[:1], nil, nil, "must be for /mcp"},
		{"http://mediator.internal/**", all[:1], nil, nil, "must be for /mcp"},
		{"http://mediator.internal/{any}", all[:1], nil, nil, "must be for /mcp"},
		{ownMCP, []string{"PUT"}, nil, nil, "takes no PUT"},
	} {
		m, err := match.Parse(tt.url, tt.methods)
		must(t, err)
		if tt.action != nil {
			_, err = rules.New([]rules.Action{{Name: "a", Match: m, MCP: tt.action}}, nil, nil)
		} else {
			_, err = rules.New(nil, []rules.Egress{{Name: "a", Match: m, MCP: tt.egress}}, nil)
		}
		if (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s %v: %v, want %q", tt.url, tt.methods, err, tt.why)
		}
	}
}

func TestRateAtTheNode(t *testing.T) {
	began, later := time.Now(), new(atomic.Int64)
	r := newNodeRig(t, true, true, func(o *PipelineOptions) {
		o.Now = func() time.Time { return began.Add(time.Duration(later.Load())) }
		o.Timeouts.Step = time.Hour // by the real clock
	})
	r.node.answer = func(string, []byte) (string, error) { return `{}`, nil }
	ways := []struct{ method, url, body string }{
		{"GET", ownURL + "/v1/reputation/" + strings.Repeat("o", 43) + ":agent", ""}, {"POST", issueURL, "{}"},
		{"POST", ownMCP, nodeTool("search_plugins")}, {"POST", ownMCP, nodeTool("register_plugin")},
	}
	for i := range 50 {
		way := ways[i%2]
		r.send(way.method, way.url, way.body)
	}
	if len(r.node.asked) != 50 {
		t.Fatalf("the node was asked %d times", len(r.node.asked))
	}
	for _, way := range ways {
		resp, answer := r.send(way.method, way.url, way.body)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" ||
			!strings.Contains(answer, "rate_limited") {
			t.Errorf("%s %s: %d %s", way.method, way.url, resp.StatusCode, answer)
		}
	}
	if _, answer := r.send("GET", ownURL+"/v1/event", ""); !strings.Contains(answer, "evt_1") {
		t.Errorf("what the mediator answers by itself: %s", answer)
	}
	later.Store(int64(time.Second))
	r.node.answer = func(string, []byte) (string, error) { return `{"jsonrpc":"2.0","id":1,"result":{}}`, nil }
	r.send("POST", ownMCP, nodeTool("register_plugin"))
	if rec, _ := r.record.last(); rec.State != ledger.StateForwarded {
		t.Errorf("%+v", rec)
	}
}
