package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// A server asks a human while it works on a post, whose receipts deny any human part.
func TestMCPHumanDuringPost(t *testing.T) {
	asked, answered := make(chan struct{}), make(chan struct{})
	r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if !strings.Contains(string(body), "create_issue") {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`+"\n\n: "+
			strings.Repeat("x", 4096)+"\n\n")
		close(asked)
		<-answered
		_, _ = io.WriteString(w, "data: "+toolResult+"\n\n")
	}, nil)
	resp := r.start(t.Context(), "POST", "/mcp", toolCall("create_issue"), both...)
	<-asked
	if _, err := io.ReadFull(resp.Body, make([]byte, 60)); err != nil { // the client sees the question
		t.Fatal(err)
	}
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"title":"what I want"}}}`
	if _, body := r.send("POST", "/mcp", answer, both...); !strings.Contains(body, "mcp_answer_refused") {
		t.Errorf("a human's answer came to the server while it worked on a post: %s", body)
	}
	if len(r.session.Report().Found) > 0 {
		t.Error("the session is tainted by an answer that was refused")
	}
	close(answered)
	_, err := io.Copy(io.Discard, resp.Body)
	must(t, err)
	r.wantRecord(t, "tools/call create_issue", "ok")
}

// A server asks a human while a post that is no message goes to its owner.
func TestMCPHumanDuringAnotherPost(t *testing.T) {
	came, answered := make(chan struct{}), make(chan struct{})
	r := &mcpRig{}
	r.postRig = newPostRig(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/posts":
			close(came)
			<-answered
			created(w, req)
		case req.Method == "GET":
			answerWith("text/event-stream",
				`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`+"\n\n")(w, req)
		}
	}, func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(t, actions[:1], []rules.Egress{{Name: "server", Match: matchAt(actions[0], "/mcp",
			"GET", "POST"),
			MCP: &mcp.Rule{Elicitation: true}}})
	})
	r.send("GET", "/mcp", "")
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.send("POST", "/posts", `{"title":"a"}`)
	}()
	<-came
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"title":"what I want"}}}`
	if _, body := r.send("POST", "/mcp", answer, both...); !strings.Contains(body, "mcp_answer_refused") {
		t.Errorf("a human's answer came to a server during a post: %s", body)
	}
	close(answered)
	<-done
	eventually(t, func() bool {
		resp, _ := r.send("POST", "/mcp", answer, both...)
		return resp.StatusCode == http.StatusOK
	}, "the human cannot answer after the post")
	r.wantRefused("session_tainted", "POST", "/posts", `{"title":"b"}`)
}

// A request has one answer: a result, or the error that tells the client that its answer cannot be read.
func TestMCPOneAnswer(t *testing.T) {
	const extended = "data: " + `{"jsonrpc":"2.0","id":7,"result":{"resultType":"x"}}` + "\n\n"
	for name, said := range map[string]string{"after a result": extended + "data: {\n\n", "no result": "data: {\n\n"} {
		r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodGet {
				said = "data: " + toolResult + "\n\n"
			}
			answerWith("text/event-stream", said)(w, req)
		}, nil)
		read, _ := io.ReadAll(r.start(t.Context(), "POST", "/mcp", toolCall("get_issue"), both...).Body)
		r.wantRecord(t, "tools/call get_issue", "unseen")
		_, late := r.send("GET", "/mcp", "")
		if all := string(read) + late; strings.Count(all, `"id":7`) != 1 {
			t.Errorf("%s: the client reads %s", name, all)
		}
	}
}

// A rule for the whole host lets no stream of an MCP server pass unread.
func TestMCPStreamUnderAnotherRule(t *testing.T) {
	r := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		actions[0].Match = matchAt(actions[0], "/mcp", "POST")
		actions[0].MCP = &mcp.Rule{Tools: []string{"create_issue"}, Post: true}
		o.Rules = rulesFor(t, actions[:1],
			[]rules.Egress{{Name: "reads", Match: matchAt(actions[0], "/**", "GET", "HEAD")}})
	})
	r.wantRefused("mcp_method_refused", "GET", "/mcp", "")
	if resp, _ := r.send("HEAD", "/mcp", ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("HEAD: %s", resp.Status)
	}
}

// TestMCPRedirected has a server send the client's call on to where it could ask for a human's answer unread.
func TestMCPRedirected(t *testing.T) {
	for name, tt := range map[string]struct {
		to     string
		status int
		passes bool
	}{
		"a page": {"/pages/1", 303, false}, "a stream of the server": {"/mcp", 303, false},
		"a post that is not read": {"/pages/1", 307, false}, "another origin": {"https://example.org/mcp", 307,
			false},
		"the server": {"/mcp?a", 307, true}, "the server, relative": {"mcp?a", 308, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPostRig(t, func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodPost && req.URL.RawQuery == "" {
					w.Header().Set("Location", tt.to)
					w.WriteHeader(tt.status)
					return
				}
				answerWith("application/json", toolResult)(w, req)
			}, func(o *PipelineOptions, actions []rules.Action) {
				o.Rules = rulesFor(t, actions[:1], []rules.Egress{
					{Name: "server", Match: matchAt(actions[0], "/mcp", "GET", "POST"),
						MCP: &mcp.Rule{Tools: []string{"get_issue"}, Elicitation: true}},
					{Name: "pages", Match: matchAt(actions[0], "/pages/{id}", "GET", "POST")}})
			})
			_, body := r.send("POST", "/mcp", toolCall("get_issue"), both...) // the client follows redirects
			if passes := body == toolResult; passes != tt.passes || !passes && !strings.Contains(body,
				"mcp_answer_unread") {
				t.Errorf("the client got %s", body)
			}
		})
	}
}

// TestMCPEndpoint has a server of the old transport lead the client's messages, and a human's answer, elsewhere.
func TestMCPEndpoint(t *testing.T) {
	for name, tt := range map[string]struct {
		event, to string
		passes    string
	}{
		"read":                 {"endpoint", "/mcp?session=1", "/mcp?session=1"},
		"refused":              {"endpoint", "/nowhere", "/nowhere"},
		"not read":             {"endpoint", "/upload", ""},
		"not read, with query": {"endpoint", "/upload?session=1", ""},
		"a post":               {"endpoint", "/posts", ""},
		"another origin":       {"endpoint", "https://api.example.com/mcp", ""},
		"relative":             {"endpoint", "mcp?session=1", "/mcp?session=1"},
		"relative, not read":   {"endpoint", "upload", ""},
		"relative, to some":    {"endpoint", "some", "/some"},
		// not what a client finds that joins /mcp and some
		"another scheme":      {"endpoint", "http:mcp", ""},
		"a longer host":       {"endpoint", "ORIGINmcp", ""},
		"another host":        {"endpoint", "//api.example.com/mcp", ""},
		"another host's path": {"endpoint", "ORIGIN//api.example.com/mcp", ""},
		"absolute":            {"endpoint", "ORIGIN/mcp", "/mcp"},
		"not normal":          {"endpoint", "/nowhere/../upload", ""},
		"denied, not normal":  {"endpoint", "/denied/../upload", ""},
		"two":                 {"endpoint", "/mcp\n\nevent: endpoint\ndata: /mcp/2", ""},
		"one, twice": {"endpoint", "/mcp\n\nevent: endpoint\ndata: ORIGIN/mcp",
			"/mcp\n\nevent: endpoint\ndata: /mcp"},
		"a URL that ends elsewhere": {"endpoint", "/mcp\x1c", ""},
		"a query that some end":     {"endpoint", "/mcp?\u2028data: {}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPostRig(t, func(w http.ResponseWriter, req *http.Request) {
				said := "event: " + tt.event + "\ndata: " + tt.to + "\n\n"
				answerWith("text/event-stream", strings.ReplaceAll(said, "ORIGIN", "https://"+req.Host))(w, req)
			}, func(o *PipelineOptions, actions []rules.Action) {
				denied, err := match.ParseDenied([]string{
					fmt.Sprintf("https://%s:%d/denied/**", actions[0].Match.Host, actions[0].Match.Port)})
				must(t, err)
				o.Rules, err = rules.New(actions[:1], []rules.Egress{
					{Name: "server", Match: matchAt(actions[0], "/mcp", "GET", "POST"),
						MCP: &mcp.Rule{ListAll: true}},
					{Name: "upload", Match: matchAt(actions[0], "/upload", "POST")},
					{Name: "some", Match: matchAt(actions[0], "/mcp/some", "POST")}}, denied)
				must(t, err)
			})
			resp := r.start(t.Context(), "GET", "/mcp", "")
			got, err := io.ReadAll(resp.Body)
			if want := "event: endpoint\ndata: " + tt.passes + "\n\n"; (err == nil) != (tt.passes != "") ||
				err == nil && string(got) != want {
				t.Errorf("the client gets %q: %v", got, err)
			}
		})
	}
}

// TestMCPOneIDTwice sends a post with the id of a request that its server has not answered yet, and may answer in its
// place.
func TestMCPOneIDTwice(t *testing.T) {
	came, hold := make(chan struct{}), make(chan struct{})
	r := toolRig(t, func(w http.ResponseWriter, _ *http.Request) {
		close(came)
		<-hold
		answerWith("application/json", toolResult)(w, nil)
	}, nil)
	session := append(both[:len(both):len(both)], "Mcp-Session-Id", "s1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.send("POST", "/mcp", toolCall("get_issue"), session...)
	}()
	<-came
	if _, body := r.send("POST", "/mcp", toolCall("create_issue"), session...); !strings.Contains(body,
		"message_ambiguous") {
		t.Errorf("got %s", body)
	}
	close(hold)
	<-done
	if rec := r.wantRecord(t, "tools/call create_issue", ""); rec.State != ledger.StateRefused ||
		len(rec.Artifacts) > 0 {
		t.Errorf("%+v", rec)
	}
	r.wantRecord(t, "tools/call get_issue", "ok")
}

// TestMCPServersOfOneURL calls a pinned tool of one server by the definition that another one has shown, which the
// query of the URL tells apart.
func TestMCPServersOfOneURL(t *testing.T) {
	r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if strings.Contains(string(body), "tools/list") {
			answerWith("application/json",
				fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"get_issue","description":%q}]}}`,
					req.URL.RawQuery))(w, req)
			return
		}
		answerWith("application/json", toolResult)(w, req)
	}, nil)
	r.reads().MCP = &mcp.Rule{Tools: []string{"get_issue"}, Pin: map[string]string{"get_issue": strings.Repeat("0",
		64)}}
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	for _, tt := range []struct{ list, call, want string }{{"a", "b", "mcp_tool_unseen"}, {"a", "a",
		"mcp_tool_changed"},
		{"b", "", "mcp_tool_unseen"}} {
		r.send("POST", "/mcp?"+tt.list, list, both...)
		if _, body := r.send("POST", "/mcp?"+tt.call, toolCall("get_issue"), both...); !strings.Contains(body,
			tt.want) {
			t.Errorf("listed at %s, called at %s: %s", tt.list, tt.call, body)
		}
	}
}

// reads returns the egress rule.
func (r *mcpRig) reads() *rules.Egress {
	target, err := upstream.ParseOrigin("https", strings.TrimPrefix(r.base, "https://"))
	must(r.T, err)
	found, err := r.pipeline.o.Rules.Find(target, "GET", "/mcp")
	must(r.T, err)
	return found.Rules[len(found.Rules)-1].Egress
}

// TestMCPAnswerNotSent refuses, before it is sent, a call that goes on with an earlier one. The agent does as the
// refusal says and sends it again: the server's question still waits.
func TestMCPAnswerNotSent(t *testing.T) {
	for name, tool := range map[string]string{"of a post": "create_issue", "of another call": "get_issue"} {
		t.Run(name, func(t *testing.T) {
			const wantsMore = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","requestState":"s1"}}`
			r := toolRig(t, answerWith("application/json", wantsMore), nil)
			source := &rotating{secrets: []string{secretToken}}
			var err error
			r.reads().Credential, err = newCredential("Authorization", "Bearer ", source)
			must(t, err)
			goOn := strings.Replace(toolCall(tool), `"name"`, `"requestState":"s1","name"`, 1)
			r.send("POST", "/mcp", toolCall(tool), both...)
			r.wantRecord(t, "tools/call "+tool, "unfinished")
			away := refusal.New("custody_unavailable", "for now")
			source.fail, r.roles.fail = away, map[string]error{"deployment": away}
			if _, body := r.send("POST", "/mcp", goOn, both...); !strings.Contains(body, "custody_unavailable") {
				t.Fatalf("got %s", body)
			}
			source.fail, r.roles.fail = nil, nil
			if _, body := r.send("POST", "/mcp", goOn, both...); strings.Contains(body, "error") {
				t.Errorf("sent again: %s", body)
			}
			if found := r.session.Report().Found; len(found) > 0 {
				t.Errorf("the session makes no posts any more: %v", found)
			}
		})
	}
}

// TestMemoryOfLongPaths: an agent chooses a path, and the server there shows a tool at each.
func TestMemoryOfLongPaths(t *testing.T) {
	const lists = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"get_issue","inputSchema":{}}]}}`
	r := newPostRig(t, answerWith("application/json", lists), func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(t, nil, []rules.Egress{{Name: "tenants", Match: matchAt(actions[0], "/{tenant}/mcp",
			"POST"),
			MCP: &mcp.Rule{Tools: []string{"get_issue"}}}})
	})
	const size = 10 << 10
	for i := range 8 {
		path := fmt.Sprintf("/%d%s/mcp", i, strings.Repeat("a", size))
		r.want(http.StatusOK, "POST", path, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, both...)
	}
	if held := fmt.Sprintf("%v", &r.session.Memory); strings.Count(held, "get_issue") != 8 || len(held) > size {
		t.Errorf("the session remembers %d bytes", len(held))
	}
}
