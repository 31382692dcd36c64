package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/mcp"
)

// TestMCPHumanDuringPost lets a server ask a human while it works on a post: the post's receipts say that no human had a part in it.
func TestMCPHumanDuringPost(t *testing.T) {
	asked, answered := make(chan struct{}), make(chan struct{})
	r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if !strings.Contains(string(body), "create_issue") {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`+"\n\n: "+strings.Repeat("x", 4096)+"\n\n")
		_ = http.NewResponseController(w).Flush()
		close(asked)
		<-answered
		_, _ = io.WriteString(w, "data: "+toolResult+"\n\n")
	}, nil)
	posted := make(chan string, 1)
	go func() {
		_, answer := r.send("POST", "/mcp", toolCall("create_issue"), both...)
		posted <- answer
	}()
	<-asked
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"title":"what I want"}}}`
	for { // until the question has passed
		if _, body := r.send("POST", "/mcp", answer, both...); strings.Contains(body, "mcp_elicitation_refused") {
			break
		} else if !strings.Contains(body, "mcp_answer_unasked") && !strings.Contains(body, "rate_limited") {
			t.Fatalf("a human's answer came to the server while it worked on a post: %s", body)
		}
	}
	if len(r.session.Report().Found) > 0 {
		t.Error("the session is tainted by an answer that was refused")
	}
	close(answered)
	<-posted
	r.wantRecord(t, "tools/call create_issue", "ok")
}

// TestMCPOneIDTwice sends a post with the id of a request that its server has not answered yet, and may answer in its place.
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
	if _, body := r.send("POST", "/mcp", toolCall("create_issue"), session...); !strings.Contains(body, "mcp_message_ambiguous") {
		t.Errorf("got %s", body)
	}
	close(hold)
	<-done
	if rec := r.wantRecord(t, "tools/call create_issue", ""); rec.State != ledger.StateRefused || len(rec.Artifacts) > 0 {
		t.Errorf("%+v", rec)
	}
	r.wantRecord(t, "tools/call get_issue", "ok")
}

// TestMCPServersOfOneURL calls a pinned tool of one server by the definition that another one has shown, which the query of the URL tells apart.
func TestMCPServersOfOneURL(t *testing.T) {
	r := toolRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if strings.Contains(string(body), "tools/list") {
			answerWith("application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"get_issue","description":%q}]}}`, req.URL.RawQuery))(w, req)
			return
		}
		answerWith("application/json", toolResult)(w, req)
	}, nil)
	at := r.pipeline.o.Rules
	for _, e := range at.endpoints {
		for _, rule := range e.rules {
			if rule.egress != nil {
				rule.egress.MCP = &mcp.Rule{Tools: []string{"get_issue"}, Pin: map[string]string{"get_issue": strings.Repeat("0", 64)}}
			}
		}
	}
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	for _, tt := range []struct{ list, call, want string }{{"a", "b", "mcp_tool_unseen"}, {"a", "a", "mcp_tool_changed"}, {"b", "", "mcp_tool_unseen"}} {
		r.send("POST", "/mcp?"+tt.list, list, both...)
		if _, body := r.send("POST", "/mcp?"+tt.call, toolCall("get_issue"), both...); !strings.Contains(body, tt.want) {
			t.Errorf("listed at %s, called at %s: %s", tt.list, tt.call, body)
		}
	}
}
