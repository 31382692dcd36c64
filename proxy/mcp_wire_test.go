package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/proxytest"
	"github.com/actionproof/mediator/trigger"
)

// toolRig stands before an MCP server that answers as a test wants.
func toolRig(t *testing.T, answer http.HandlerFunc, change func(*PipelineOptions)) *mcpRig {
	t.Helper()
	r := &mcpRig{}
	r.postRig = newPostRig(t, answer, func(o *PipelineOptions, actions []rules.Action) {
		actions[0].Match, actions[0].Headers = matchAt(actions[0], "/mcp", "POST"), []string{}
		actions[0].MCP = &mcp.Rule{Tools: []string{"create_issue"}, Post: true}
		o.Rules = rulesFor(t, actions[:1],
			[]rules.Egress{{Name: "server", Match: matchAt(actions[0], "/mcp", "GET", "POST", "DELETE"),
				MCP: &mcp.Rule{Tools: []string{"get_issue"}, Elicitation: true}}})
		if change != nil {
			change(o)
		}
	})
	return r
}

// both are the answer forms that a Streamable HTTP client accepts.
var both = []string{"Accept", "application/json, text/event-stream"}

func toolCall(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{"title":"a"}}}`,
		tool)
}

const toolResult = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`

func answerWith(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func TestMCPRefusals(t *testing.T) {
	r := toolRig(t, answerWith("application/json", toolResult), nil)
	for _, tt := range []struct {
		name, body   string
		header       []string
		status, code int
		id, problem  string
	}{
		{"a method", `{"jsonrpc":"2.0","id":"a\"b","method":"tasks/get"}`, nil, 200, -32601, `"a\"b"`,
			"mcp_method_refused"},
		{"a header", toolCall("create_issue"), []string{"Mcp-Method", "ping"}, 400, -32020, "7", "mcp_header_mismatch"},
		{"a revision", toolCall("create_issue"), []string{"Mcp-Protocol-Version", "1900-01-01"}, 400, -32022, "7",
			"mcp_version_unsupported"},
		{"the old transport", toolCall("create_issue"), []string{"Accept", "*/*"}, 400, -32600, "7",
			"mcp_transport_unsupported"},
		{"a batch", "[" + toolCall("get_issue") + "]", nil, 400, -32600, "", "message_malformed"},
		{"two readings", strings.Replace(toolCall("get_issue"), "{", `{"ID":8,`, 1), nil, 400, -32600, "",
			"message_ambiguous"},
		{"no message", `{}`, nil, 400, -32600, "", "message_malformed"},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/other"}`, nil, 403, -32601, "",
			"mcp_method_refused"},
		{"an answer", `{"jsonrpc":"2.0","id":7,"result":{}}`, nil, 403, 403, "", "mcp_answer_unasked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := both
			if len(tt.header) > 0 && tt.header[0] == "Accept" {
				header = nil
			}
			sent := len(r.sent)
			resp, body := r.send("POST", "/mcp", tt.body, append(header[:len(header):len(header)], tt.header...)...)
			var got struct {
				Version string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Error   struct {
					Code    int
					Message string
					Data    struct {
						problem.Details
						Supported []string `json:"supported"`
					}
				}
			}
			must(t, json.Unmarshal([]byte(body), &got))
			rec, _ := r.record.last()
			e := got.Error
			if resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != "application/json" ||
				got.Version != "2.0" || string(got.ID) != tt.id ||
				e.Code != tt.code || e.Data.Code != tt.problem || e.Data.Post != rec.ID ||
				!strings.HasPrefix(e.Message, tt.problem+": ") {
				t.Errorf("got %s %s", resp.Status, body)
			}
			if (len(e.Data.Supported) > 0) != (tt.code == -32022) {
				t.Errorf("supported are %v", e.Data.Supported)
			}
			if rec.Code != tt.problem || rec.State != ledger.StateRefused || len(r.sent) != sent {
				t.Errorf("the record is %+v, and the upstream saw %d calls", rec, len(r.sent)-sent)
			}
		})
	}
	r.wantRefused("action_unmatched", "PUT", "/mcp", toolCall("get_issue"))
	r.wantRefused("content_malformed", "POST", "/mcp", toolCall("get_issue"), "Content-Type", "text/plain")
	r.wantRefused("request_malformed", "POST", "/%6dcp", toolCall("create_issue"))
	r.wantRefused("action_unmatched", "POST", "/MCP", toolCall("create_issue"))
}

func TestMCPOnTheWay(t *testing.T) {
	r := toolRig(t, answerWith("application/json", toolResult), nil)
	body := " " + toolCall("create_issue")
	resp, answer := r.send("POST", "/mcp", body,
		append(both, "Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "tools/call")...)
	if resp.StatusCode != http.StatusOK || answer != toolResult || resp.Header.Get("Actionproof-Post") == "" {
		t.Fatalf("got %s %s", resp.Status, answer)
	}
	if h := r.sent[0].Header; r.body[0] != body || h.Get("Mcp-Session-Id") != "s1" ||
		h.Get("Mcp-Protocol-Version") != "2025-11-25" || h.Get("Accept-Encoding") != "identity" ||
		h.Get("Authorization") != "Bearer "+secretToken {
		t.Errorf("the upstream saw %q, %v", r.body[0], h)
	}
	want, err := evidence.HashJSON([]byte(body))
	must(t, err)
	rec := r.wantRecord(t, "tools/call create_issue", "ok")
	if rec.ContentHash != want || rec.Resource != "POST /mcp tools/call create_issue" || rec.Rule != "posts" {
		t.Errorf("%+v", rec)
	}
	m := r.roles.decided.Call.Message
	if m == nil || m.MCP.Tool != "create_issue" || !strings.HasSuffix(m.MCP.Server, "/mcp") ||
		string(m.MCP.Arguments) != `{"title":"a"}` {
		t.Errorf("the control plane was asked about %+v", m)
	}
	r.send("POST", "/mcp",
		strings.Replace(toolCall("create_issue"), `"a"`, `"`+strings.Repeat("a", policy.MaxArguments)+`"`, 1), both...)
	if m := r.roles.decided.Call.Message; m == nil || m.MCP.Arguments != nil {
		t.Errorf("too many arguments went to the control plane: %d bytes", len(m.MCP.Arguments))
	}
	// JSON is no stream
	for method, want := range map[string]int{"GET": http.StatusBadGateway, "DELETE": http.StatusOK} {
		if resp, _ := r.send(method, "/mcp", ""); resp.StatusCode != want {
			t.Errorf("%s: %s", method, resp.Status)
		}
		eventually(t, func() bool {
			rec, _ := r.record.last()
			return rec.Method == method && rec.Rule == "server" && rec.Flow == flowEgress
		}, "%s is not recorded", method)
	}
}

func TestMCPBrokenAnswers(t *testing.T) {
	const event = "id: e1\ndata: \n\n"
	for _, tt := range []struct {
		name, tool, contentType, body, result string
		state                                 ledger.State
	}{
		{"half a result", "create_issue", "application/json", toolResult[:20], "lost", ledger.StateIndeterminate},
		{"half a stream", "create_issue", "text/event-stream", ": hello\n\n", "lost", ledger.StateIndeterminate},
		{"a stream with half of its result", "create_issue", "text/event-stream", "data: " + toolResult + "\n", "lost",
			ledger.StateIndeterminate},
		{"half a stream of a read", "get_issue", "text/event-stream", ": hello\n\n", "lost", ledger.StateIndeterminate},
		{"a stream that nobody resumes", "get_issue", "text/event-stream", event, "lost", ledger.StateIndeterminate},
		{"a stream with its result", "create_issue", "text/event-stream", event + "data: " + toolResult + "\n\n", "ok",
			ledger.StateForwarded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := toolRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				flush(w, tt.body)
				panic(http.ErrAbortHandler)
			}, func(o *PipelineOptions) {
				if tt.name == "a stream that nobody resumes" {
					o.Timeouts.Forward = time.Millisecond // the wait for a resumption; a read has no other bound
				}
			})
			said, err := io.ReadAll(r.start(t.Context(), "POST", "/mcp", toolCall(tt.tool), both...).Body)
			if err == nil && !strings.Contains(string(said), "upstream_lost") {
				t.Errorf("the client was not told that the answer is not whole: %s", said)
			}
			if rec := r.wantRecord(t, "tools/call "+tt.tool, tt.result); rec.State != tt.state {
				t.Errorf("%+v", rec)
			}
		})
	}
}

// atEnd calls do when a call's answer is closed for the last time, after its result is noted.
type atEnd struct {
	http.RoundTripper
	do func()
}

func (e *atEnd) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		resp.Body = &closedTwice{ReadCloser: resp.Body, do: e.do}
	}
	return resp, err
}

type closedTwice struct {
	io.ReadCloser
	closed int
	do     func()
}

func (c *closedTwice) Close() error {
	if c.closed++; c.closed == 2 {
		c.do()
	}
	return c.ReadCloser.Close()
}

// TestMCPResumedAtOnce: the result of a broken answer passes on a stream before the call waits for it.
func TestMCPResumedAtOnce(t *testing.T) {
	end := &atEnd{}
	r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if req.Method == http.MethodGet {
			_, _ = io.WriteString(w, "data: "+toolResult+"\n\n")
			return
		}
		_, _ = io.WriteString(w, "id: e1\ndata: \n\n")
	}, func(o *PipelineOptions) { o.Transport = end })
	end.RoundTripper = proxytest.NewTransport(t, r.upstream)
	passed := ""
	end.do = func() { _, passed = r.send("GET", "/mcp", "", "Last-Event-Id", "e1") }
	r.send("POST", "/mcp", toolCall("create_issue"), both...)
	if rec := r.wantRecord(t, "tools/call create_issue", "ok"); rec.State != ledger.StateForwarded || rec.Code != "" {
		t.Errorf("the client reads %q: %+v", passed, rec)
	}
}

func TestMCPAgentGone(t *testing.T) {
	gone := make(chan struct{})
	r := toolRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{": hello\n\n", ": " + strings.Repeat("x", 1<<20) + "\n\n",
			"data: " + toolResult + "\n\n"} {
			flush(w, piece)
			<-gone
		}
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	resp := r.start(ctx, "POST", "/mcp", toolCall("create_issue"), both...)
	cancel()
	_ = resp.Body.Close()
	close(gone)
	if rec := r.wantRecord(t, "tools/call create_issue", "ok"); rec.State != ledger.StateForwarded {
		t.Errorf("%+v", rec)
	}
}

func TestMCPAnswersThatAreNotRead(t *testing.T) {
	r := toolRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not really")
	}, nil)
	_, answer := r.send("POST", "/mcp", toolCall("get_issue"), append(both, "Accept-Encoding", "gzip")...)
	if !strings.Contains(answer, "the server's answer is compressed") {
		t.Fatalf("got %q", answer)
	}
	rec := r.wantRecord(t, "tools/call get_issue", "unseen")
	if rec.State != ledger.StateForwarded || len(rec.Checks) != 1 || rec.Checks[0].Code != "mcp_answer_unread" {
		t.Errorf("%+v", rec)
	}
	r.send("POST", "/mcp", toolCall("create_issue"), both...) // with a credential, so the answer does not pass
	rec = r.wantRecord(t, "tools/call create_issue", "unseen")
	if rec.State != ledger.StateIndeterminate || rec.Code != "answer_withheld" {
		t.Errorf("%+v", rec)
	}
}

// A list that cannot be read ends with an error that the client's request gets, in both forms of answers.
func TestMCPUnreadableLists(t *testing.T) {
	for kind, body := range map[string]string{"application/json": "{", "text/event-stream": "data: {\n\n"} {
		r := toolRig(t, answerWith(kind, body), nil)
		resp := r.start(t.Context(), "POST", "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, both...)
		if said, _ := io.ReadAll(resp.Body); !strings.Contains(string(said),
			`{"jsonrpc":"2.0","id":7,"error":{"code":502,`) {
			t.Errorf("%s: the client reads %q", kind, said)
		}
		if rec := r.wantRecord(t, "tools/list", "unseen"); rec.Code != "mcp_answer_unread" {
			t.Errorf("%s: %+v", kind, rec)
		}
	}
}

// A server answers another request with the list that the client waits for: with tools that no rule names.
func TestMCPListElsewhere(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"delete_repo","inputSchema":{}}]}}`
	for name, other := range map[string]func(w http.ResponseWriter){
		"in JSON of unknown length": func(w http.ResponseWriter) { flush(w, list) },
		"in JSON":                   func(w http.ResponseWriter) { _, _ = io.WriteString(w, list) },
		"in events": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			flush(w, "data: "+list+"\n\n")
		},
		"unread": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip") // which it is not
			_, _ = io.WriteString(w, list)
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if body, _ := io.ReadAll(req.Body); strings.Contains(string(body), "tools/list") {
					close(begun)
					<-req.Context().Done()
					return
				}
				other(w)
			}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var listing sync.WaitGroup
			listing.Go(func() {
				_, _ = r.client.Do(r.request(ctx, "POST", "/mcp", //nolint:bodyclose // there is no answer
					`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, both...))
			})
			defer listing.Wait()
			defer cancel()
			<-begun
			said, _ := io.ReadAll(r.start(t.Context(), "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, both...).Body)
			if strings.Contains(string(said), "delete_repo") || !strings.Contains(string(said), "mcp_answer_unread") {
				t.Errorf("the client reads %s", said)
			}
			eventually(t, func() bool { return len(r.recorded("ping")) > 0 }, "there is no record")
			if rec := r.recorded("ping")[0]; rec.Code != "mcp_answer_unread" {
				t.Errorf("%+v", rec)
			}
		})
	}
}

func TestMCPSessions(t *testing.T) {
	question := `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}` + "\n\n"
	r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == "GET" {
			answerWith("text/event-stream", question)(w, req)
		}
	}, nil)
	if _, got := r.send("GET", "/mcp", ""); got != question {
		t.Fatalf("got %q", got)
	}
	asked, tainted := r.session, func(s *session.Session) bool { return len(s.Report().Found) > 0 }
	other := r.sessions.OpenStanding(trigger.Event{ID: "evt_2", Kind: evidence.TriggerSourceEvent, Source: "github"},
		"worker-1", "")
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`
	if resp, _ := r.send("POST", "/mcp", answer, both...); resp.StatusCode != http.StatusForbidden || tainted(asked) ||
		!tainted(other) {
		t.Errorf("another session may answer: %s", resp.Status)
	}
	next := r.sessions.OpenStanding(trigger.Event{ID: "evt_3", Kind: evidence.TriggerSourceEvent, Source: "github"},
		"worker-1", "")
	r.send("GET", "/mcp", "")
	if resp, _ := r.send("POST", "/mcp", answer, both...); resp.StatusCode != http.StatusOK || tainted(asked) ||
		!tainted(next) {
		t.Errorf("the session that was asked: %s", resp.Status)
	}
	if resp, _ := r.send("POST", "/mcp", answer, both...); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a question is answered twice: %s", resp.Status)
	}
	before := r.pipeline.lasting
	if r.reload(); r.pipeline.lasting != before {
		t.Error("a reload forgets the definitions of tools")
	}
}
