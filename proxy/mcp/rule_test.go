package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

func TestRulesThatAreRefused(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for name, tt := range map[string]struct {
		rules []*mcp.Rule
		want  string
	}{
		"a wildcard":               {[]*mcp.Rule{{Tools: []string{"*"}}}, "not the name of a tool"},
		"a name with a space":      {[]*mcp.Rule{{Tools: []string{"create issue"}}}, "not the name of a tool"},
		"a name that is not ASCII": {[]*mcp.Rule{{Tools: []string{"сreate_issue"}}}, "not the name of a tool"},
		"a name in quotes":         {[]*mcp.Rule{{Tools: []string{`"\x01"`}}}, "not the name of a tool"},
		"an empty name":            {[]*mcp.Rule{{Tools: []string{""}}}, "not the name of a tool"},
		"an action without tools":  {[]*mcp.Rule{{Post: true}}, "an action must name its tools"},
		"tools/call as a method":   {[]*mcp.Rule{{Methods: []string{"tools/call"}}}, "name the tools"},
		"a pin of another tool": {[]*mcp.Rule{{Tools: []string{"a"}, Pin: map[string]string{"b": hash}}},
			"which it does not name"},
		"a pin that is no hash": {
			[]*mcp.Rule{{Tools: []string{"a"}, Pin: map[string]string{"a": "sha256:" + hash}}},
			"not a lowercase hex SHA-256"},
		"a tool twice": {[]*mcp.Rule{{Tools: []string{"a"}, Post: true}, {Tools: []string{"a"}}},
			`name the tools "a" and "a"`},
		"a tool in another case": {
			[]*mcp.Rule{{Tools: []string{"create_issue"}, Post: true}, {Tools: []string{"Create_Issue"}}},
			"name the tools"},
		"the usual methods twice": {[]*mcp.Rule{{Tools: []string{"a"}}, {Tools: []string{"b"}}},
			"a rule that leaves out methods names the usual ones"},
		"a method twice": {[]*mcp.Rule{{Methods: []string{"ping"}}, {Methods: []string{"ping"}}},
			`name the method "ping"`},
		"two egress rules and an action": {
			[]*mcp.Rule{{Tools: []string{"c"}, Post: true}, {Tools: []string{"a"}},
				{Tools: []string{"b"}, Methods: []string{}}},
			""},
		"a rule about methods alone":     {[]*mcp.Rule{{}}, ""},
		"a pin":                          {[]*mcp.Rule{{Tools: []string{"a"}, Pin: map[string]string{"a": hash}}}, ""},
		"a name of all kinds of letters": {[]*mcp.Rule{{Tools: []string{"a.B-c_d/e:1"}}}, ""},
		"two actions with tools of their": {
			[]*mcp.Rule{{Tools: []string{"a"}, Post: true}, {Tools: []string{"b"}, Post: true}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcp.CheckRules(tt.rules)
			for _, r := range tt.rules {
				if err == nil {
					err = r.Check()
				}
			}
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}

type results struct {
	mu  sync.Mutex
	got map[string]mcp.Result
}

func (r *results) of(name string) mcp.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[name]
}

// keep breaks off the answer to a call after an event, and keeps the call.
func (r *results) keep(t *testing.T, memory *mcp.Memory, name string, id int, event string) {
	t.Helper()
	w := begin(t, memory, "tools/call", id, "get_issue")
	a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
	_, _ = io.WriteString(a, "id: "+event+"\ndata: \n\n")
	if a.End(io.ErrUnexpectedEOF); !a.Resumable() {
		t.Fatalf("%s cannot be resumed", name)
	}
	memory.Keep(a, time.Hour, func(result mcp.Result) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[name] = result
	})
	memory.End(w.Flight, a.Result(), true)
}

func resume(memory *mcp.Memory, at mcp.Peer, lastEvent string, stream string) {
	w := watch(nil, memory)
	w.Peer, w.Header = at, http.Header{"Last-Event-Id": {lastEvent}}
	a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
	_, _ = io.WriteString(a, stream)
	a.End(io.EOF)
}

func TestResumed(t *testing.T) {
	const done, failed = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`
	s2 := mcp.Peer{Server: peer.Server, Session: "s2"}
	for name, tt := range map[string]struct {
		at                mcp.Peer
		lastEvent, stream string
		want              mcp.Result
	}{
		"another event":   {at, "e2", "data: " + done + "\n\n", mcp.ResultUnseen},
		"no event":        {at, "", "data: " + done + "\n\n", mcp.ResultUnseen},
		"another session": {s2, "e1", "data: " + done + "\n\n", mcp.ResultToolFailed},
		"another server": {mcp.Peer{Server: "https://x/mcp", Session: "s1"}, "e1", "data: " + done + "\n\n",
			mcp.ResultToolFailed},
		"the result of another call": {at, "e1", `data: {"jsonrpc":"2.0","id":3,"result":{}}` + "\n\n",
			mcp.ResultUnseen},
		"half a result": {at, "e1", "data: " + done, mcp.ResultToolFailed},
		"a request of the server": {at, "e1", `data: {"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n\n",
			mcp.ResultToolFailed},
	} {
		memory, r := new(mcp.Memory), &results{got: make(map[string]mcp.Result)}
		r.keep(t, memory, "a", 1, "e1")
		r.keep(t, memory, "b", 2, "e2")
		resume(memory, tt.at, tt.lastEvent, tt.stream)
		memory.Sent(at, "3")                           // another request's id
		resume(memory, at, "e1", "id: e3\ndata: \n\n") // breaks off once more
		if r.of("a") != "" || r.of("b") != "" {
			t.Fatalf("%s: %q, %q", name, r.of("a"), r.of("b"))
		}
		resume(memory, at, "e3", "data: "+failed+"\n\n")
		if r.of("a") != tt.want || r.of("b") != "" {
			t.Errorf("%s: %q, want %q; %q", name, r.of("a"), tt.want, r.of("b"))
		}
	}
	memory, r := new(mcp.Memory), &results{got: make(map[string]mcp.Result)}
	r.keep(t, memory, "b", 2, "e2")
	memory.Sent(at, "2")
	resume(memory, at, "e2", `data: {"jsonrpc":"2.0","id":2,"result":{}}`+"\n\n")
	if r.of("b") != mcp.ResultLost {
		t.Errorf("a call whose id is used once more has the result %q", r.of("b"))
	}
	for i := range 17 {
		r.keep(t, memory, fmt.Sprint(i), 100+i, "e")
	}
	for r.of("0") == "" {
		time.Sleep(time.Millisecond) // another goroutine gives it up
	}
	if r.of("0") != mcp.ResultLost || r.of("1") != "" {
		t.Errorf("of too many calls the first got %q, the second %q", r.of("0"), r.of("1"))
	}
	memory.Sent(at, "100")
}

func TestNoMemory(t *testing.T) {
	refused := watch(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue"}}`),
		new(mcp.Memory))
	taken := 0
	refused.Take = func(n int) bool { taken += n; return taken < 100 }
	for _, kind := range []string{"application/json", "text/event-stream"} {
		taken = 0
		a := mcp.NewAnswer(refused, http.StatusOK, http.Header{"Content-Type": {kind}})
		for range 100 {
			_, err := io.WriteString(a, "data: 0123456789")
			check.Must(t, err)
		}
		a.End(io.EOF)
		if a.Result() != mcp.ResultUnseen || a.Followed() {
			t.Errorf("%s without memory: %s", kind, a.Result())
		}
	}
}
