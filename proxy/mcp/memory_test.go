package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

func tools(id, about string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[{"name":"get_issue","description":"` + about +
		`","inputSchema":{}}]}}`
}

func judgeCall(t testing.TB, of []*mcp.Rule, memory *mcp.Memory) (mcp.Verdict, error) {
	t.Helper()
	return mcp.Judge(request(t, "tools/call", 9), entry{}.header(), of, at, memory)
}

// pinned are rules by which get_issue is pinned to its good definition.
func pinned(t testing.TB) []*mcp.Rule {
	t.Helper()
	memory, of := new(mcp.Memory), rules("")
	answer(watch(t, memory, at, request(t, "tools/list", 1)), http.StatusOK, typed(plain), tools("1", "good"))
	of[1].Pin = map[string]string{"get_issue": strings.Repeat("0", 64)}
	_, err := judgeCall(t, of, memory)
	_, hash, ok := strings.Cut(fmt.Sprint(err), "its hash is ")
	if !ok {
		t.Fatalf("no hash in %v", err)
	}
	of[1].Pin["get_issue"], _, _ = strings.Cut(hash, ")")
	return of
}

// TestPinsHold: a pinned tool is not called if the client has read another definition of it.
func TestPinsHold(t *testing.T) {
	of := pinned(t)
	evil, good := tools("1", "evil"), tools("1", "good")
	swap := func(old, now string) string { return strings.Replace(evil, old, now, 1) }
	for name, tt := range map[string]struct {
		kind, said string
		status     int
		later      string // on a stream that the client opens
		called     bool   // because the client has read no other definition
	}{
		"the good one":         {plain, good, 200, "", true},
		"the other":            {plain, evil, 200, "", false},
		"on the first of two":  {stream, events(evil, good), 200, "", false},
		"on the second of two": {stream, events(good, evil), 200, "", true},
		"beside the good one": {plain, swap(`"inputSchema":{}}`,
			`"inputSchema":{}},{"name":"get_issue","description":"good","inputSchema":{}}`), 200, "", false},
		"on a stream later":                 {stream, "", 200, evil, false},
		"for another request":               {stream, "", 200, tools("2", "evil"), true},
		"late":                              {stream, events(good), 200, evil, true},
		"in a failure":                      {plain, evil, 400, "", true},
		"in another case":                   {plain, swap(`"tools"`, `"Tools"`), 200, "", true},
		"by a name in another case":         {plain, swap(`"name"`, `"name":"a","Name"`), 200, "", true},
		"without a name":                    {plain, swap(`"name":"get_issue",`, ""), 200, "", true},
		"in no list":                        {plain, swap(`"tools":[`, `"tools":{"a":[`) + "}", 200, "", true},
		"where the server sends the client": {plain, "", 307, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			answer(watch(t, memory, at, request(t, "tools/list", 5)), http.StatusOK, typed(plain), tools("5", "good"))
			if _, err := judgeCall(t, of, memory); err != nil {
				t.Fatalf("the pinned tool: %v", err)
			}
			header := http.Header{"Content-Type": {tt.kind}, "Location": {"/mcp/other"}}
			read, _, _ := answer(watch(t, memory, at, request(t, "tools/list", 1)), tt.status, header, tt.said)
			if tt.later != "" {
				read, _ = listen(t, memory, at, events(tt.later))
			}
			_, err := judgeCall(t, of, memory)
			if code := check.CodeOf(err); (err == nil) != tt.called || err != nil && code != "mcp_tool_changed" &&
				code != "mcp_tool_unseen" {
				t.Errorf("the pinned tool is called: %v", err)
			}
			if tt.called && strings.Contains(read, `"description":"evil"`) {
				t.Errorf("the client reads %s", read)
			}
			answer(watch(t, memory, at, request(t, "tools/list", 6)), http.StatusOK, typed(plain), tools("6", "good"))
			if _, err := judgeCall(t, of, memory); (err == nil) != tt.called {
				t.Errorf("after a new list, which takes nothing back: %v", err)
			}
		})
	}
}

// TestManyTools checks that a server cannot push out a named tool, and that its texts are not kept.
func TestManyTools(t *testing.T) {
	memory, shared := new(mcp.Memory), new(mcp.Definitions)
	var changed []string
	list := func(id int, from mcp.Peer, tools string) {
		w := watch(t, memory, from, request(t, "tools/list", id))
		w.Shared, w.Changed = shared, func(tool, _, _ string) { changed = append(changed, tool) }
		said := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]}}`, id, tools)
		if _, _, result := answer(w, http.StatusOK, typed(plain), said); result != mcp.ResultOK {
			t.Fatalf("%s", result)
		}
	}
	list(1, at, `{"name":"get_issue","description":"good"}`)
	for i := range 30 {
		var junk []string
		for j := range 100 {
			junk = append(junk, fmt.Sprintf(`{"name":"junk_%d_%d"}`, i, j))
		}
		list(2+i, at, strings.Join(junk, ","))
	}
	memory = new(mcp.Memory) // of another session
	list(50, at, `{"name":"get_issue","description":"evil"}`)
	if !slices.Equal(changed, []string{"get_issue"}) {
		t.Errorf("changed are %q", changed)
	}
	changed, memory = nil, new(mcp.Memory)
	for i := range 1100 { // of URLs that the agent makes up
		list(100+i, mcp.NewPeer(origin, "/mcp", fmt.Sprint(i), ""), `{"name":"get_issue","description":"evil"}`)
	}
	memory = new(mcp.Memory)
	list(55, at, `{"name":"get_issue","description":"worse"}`)
	if len(changed) != 1 {
		t.Errorf("after many URLs changed are %q", changed)
	}
	long := strings.Repeat("x", 1<<20)
	// Names that no rule can have, and headers that no server takes.
	list(60, at, `{"name":"`+long+`"},{"name":"get_issue","inputSchema":{"properties":{"`+long+
		`":{"x-mcp-header":"A"},"b":{"x-mcp-header":"`+long+`"}}}}`)
	if kept := fmt.Sprintf("%+v %+v", memory, shared); !strings.Contains(kept, "get_issue") || len(kept) > 1<<19 {
		t.Errorf("%d bytes of the texts of a server are kept", len(kept))
	}
}

func TestOneIDTwice(t *testing.T) {
	memory := new(mcp.Memory)
	a := begin(t, watch(t, memory, at, request(t, "tools/call", 7)), stream)
	again := request(t, "ping", 7)
	for _, other := range []mcp.Peer{at, mcp.NewPeer(origin, "/mcp", "another", at.Session),
		mcp.NewPeer("https://alias.example.com", "/mcp", "", at.Session)} {
		_, err := memory.Begin(again, other, nil, true)
		check.WantCode(t, err, "message_ambiguous")
	}
	for _, other := range []mcp.Peer{mcp.NewPeer(origin, "/mcp", "", "s2"), peer, peer} {
		if _, err := memory.Begin(again, other, nil, true); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
	a.say(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	if _, err := memory.Begin(again, at, nil, true); err != nil {
		t.Errorf("after the answer: %v", err)
	}
	a.end(io.EOF)
}

func TestOneSession(t *testing.T) {
	for _, tt := range []struct {
		method      string
		given, want []string
	}{
		{"ping", []string{"s1"}, []string{"s1"}},
		{"ping", []string{"s2"}, nil},
		{"ping", []string{"s1", "s2"}, nil},
		{"", []string{"s2"}, nil},
		{"initialize", []string{"s2"}, []string{"s2"}},
		{"initialize", []string{"s2", "s3"}, nil},
		{"initialize", []string{strings.Repeat("x", 4097)}, nil},
		// no request could name it, and the memory would keep it
	} {
		var sent *mcp.Message
		if tt.method != "" {
			sent = read(t,
				`{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":{"protocolVersion":"2025-06-18"}}`)
		}
		h := http.Header{"Mcp-Session-Id": tt.given, "Content-Type": {stream}}
		answer(watch(t, new(mcp.Memory), at, sent), http.StatusOK, h, "")
		if got := h["Mcp-Session-Id"]; !slices.Equal(got, tt.want) {
			t.Errorf("%s given %q: %q, want %q", tt.method, tt.given, got, tt.want)
		}
	}
}

const done, toolFailed = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`

// TestAnsweredElsewhere: a result may come on a stream that the client opens. The first counts, and no other passes.
func TestAnsweredElsewhere(t *testing.T) {
	memory := new(mcp.Memory)
	a := begin(t, watch(t, memory, at, request(t, "tools/call", 1)), stream)
	for name, tt := range map[string]struct {
		from mcp.Peer
		said string
	}{
		"another session": {mcp.NewPeer(origin, "/mcp", "", "s2"), done}, "another path": {mcp.NewPeer(origin,
			"/mcp/a", "", "s1"), done},
		"another query": {mcp.NewPeer(origin, "/mcp", "a", "s1"), done}, "another id": {at, strings.Replace(done,
			"1", "2", 1)},
		"no id": {at, strings.Replace(toolFailed, `"id":1,`, "", 1)}, "a text in hex": {at, strings.Replace(done,
			`:1`, `:"0x1"`, 1)},
	} {
		if read, refused := listen(t, memory, tt.from, events(tt.said)); read != "" || refused != "" {
			t.Errorf("%s: the client reads %s, %s", name, read, refused)
		}
	}
	if read, _ := listen(t, memory, at, events(toolFailed, done)); read != events(toolFailed) {
		t.Errorf("the client reads %s", read)
	}
	a.say(done)
	if read := comments.ReplaceAllString(a.end(io.EOF), ""); read != "" || a.Result() != mcp.ResultToolFailed {
		t.Errorf("the client reads %s, and the result is %s", read, a.Result())
	}
	// Several clients without sessions may wait for an answer with one id.
	for range 2 {
		answer(watch(t, memory, peer, request(t, "tools/call", 1)), http.StatusAccepted, typed(""), "")
	}
	if read, refused := listen(t, memory, peer, events(done)); read != "" || refused != "mcp_answer_unread" {
		t.Errorf("the client reads %s, %s", read, refused)
	}
}

// TestKept keeps calls whose answers broke off.
func TestKept(t *testing.T) {
	memory := new(mcp.Memory)
	keep := func(id int, wait time.Duration) chan mcp.Result {
		a := begin(t, watch(t, memory, at, request(t, "tools/call", id)), stream)
		_, _ = io.WriteString(a.to, "id: e1\ndata: \n\n:\n")
		_ = a.to.CloseWithError(io.ErrUnexpectedEOF)
		<-a.got
		if !a.Resumable(a.Result()) {
			t.Fatal("the answer cannot be resumed")
		}
		got := make(chan mcp.Result, 2)
		memory.Keep(a.Flight, wait, func(r mcp.Result) { got <- r })
		a.call.Done(true)
		return got
	}
	want := func(name string, got chan mcp.Result, result mcp.Result) {
		t.Helper()
		if r := <-got; r != result {
			t.Errorf("%s: %s, want %s", name, r, result)
		}
	}
	resumed, other := keep(1, time.Hour), keep(2, time.Hour)
	listen(t, memory, at, "data: "+done) // breaks off once more
	listen(t, memory, at, events(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, toolFailed, done))
	want("resumed", resumed, mcp.ResultToolFailed)
	want("nobody resumes it", keep(3, 0), mcp.ResultLost)
	late := `{"jsonrpc":"2.0","id":3,"result":{}}`
	if read, _ := listen(t, memory, at, events(late, late)); read != events(late) {
		t.Errorf("the client reads %q of a late result", read)
	}
	again := mcp.Call{Watch: watch(t, memory, at, request(t, "tools/call", 2))}
	again.Prepare(&http.Request{Header: http.Header{}})
	want("its id is sent again", other, mcp.ResultLost)
	var many []chan mcp.Result
	for i := range 17 {
		many = append(many, keep(100+i, time.Hour))
	}
	want("the first of many", many[0], mcp.ResultLost)
	listen(t, memory, at, events(`{"jsonrpc":"2.0","id":116,"result":{}}`, `{"jsonrpc":"2.0","id":101,"result":{}}`))
	want("the second of many", many[1], mcp.ResultOK)
	want("the last of many", many[16], mcp.ResultOK)
	memory.Close()
	for _, rest := range many[2:16] {
		if len(rest) == 0 {
			t.Fatal("the process ends before the record of a call is written")
		}
		want("when the process ends", rest, mcp.ResultLost)
	}
}

// TestStartResumed: the answer that starts a session breaks off. The client resumes it in that session.
func TestStartResumed(t *testing.T) {
	memory := new(mcp.Memory)
	sent := read(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	header := http.Header{"Mcp-Session-Id": {at.Session}, "Content-Type": {stream}}
	answer(watch(t, memory, mcp.NewPeer(origin, "/mcp", "", ""), sent), http.StatusOK, header, "id: e1\ndata: \n\n")
	for _, session := range []string{"", "s2"} {
		if read, _ := listen(t, memory, mcp.NewPeer(origin, "/mcp", "", session), events(done)); read != "" {
			t.Errorf("in the session %q the client reads %q", session, read)
		}
	}
	if read, _ := listen(t, memory, at, events(done, done)); read != events(done) {
		t.Errorf("the client reads %q", read)
	}
}

// TestOldTransport makes more calls than are kept one by one, from two clients with the same ids. Each gets the answers
// on the stream that has named its endpoint.
func TestOldTransport(t *testing.T) {
	memory := new(mcp.Memory)
	open := func(session string) (a *reply, messages mcp.Peer) {
		w := watch(t, memory, mcp.NewPeer(origin, "/sse", "", ""), nil)
		w.Path = "/sse"
		a = begin(t, w, stream)
		_, _ = io.WriteString(a.to, "event: endpoint\ndata: /messages?session="+session+"\n\n")
		return a, mcp.NewPeer(origin, "/messages", "session="+session, "")
	}
	first, toFirst := open("a")
	second, toSecond := open("b")
	for id := range 300 {
		for _, to := range []mcp.Peer{toFirst, toSecond} {
			answer(watch(t, memory, to, request(t, "tools/call", id)), http.StatusAccepted, typed("text/plain"),
				"Accepted")
		}
		result := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"of":"a"}}`, id)
		first.say(result)
		second.say(strings.Replace(result, `"a"`, `"b"`, 1), result) // the second one is late
	}
	first.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if _, err := mcp.Judge(read(t, empty), entry{}.header(), rules(""), toFirst, memory); err != nil {
		t.Errorf("a ping is answered at the endpoint: %v", err)
	}
	if _, err := judgeCall(t, rules(""), memory); err != nil || memory.Prompted() {
		t.Errorf("a human is noted: %v", err)
	}
	for of, a := range map[string]*reply{"a": first, "b": second} {
		if read := a.end(io.EOF); strings.Count(read, `"result":{"of":"`+of+`"}`) != 300 || strings.Count(read,
			`"result"`) != 300 {
			t.Errorf("the client %s reads %.2000s", of, read)
		}
	}
}

// TestManyRedirects: a server that sends its clients on for each list, as some do to add a slash, ends no other
// server's pins.
func TestManyRedirects(t *testing.T) {
	memory, of := new(mcp.Memory), pinned(t)
	answer(watch(t, memory, at, request(t, "tools/list", 1)), http.StatusOK, typed(plain), tools("1", "good"))
	other := mcp.NewPeer("https://other.example:443", "/mcp", "", "")
	header := http.Header{"Location": {"/mcp/"}}
	for range 300 {
		answer(watch(t, memory, other, request(t, "tools/list", 1)), http.StatusTemporaryRedirect, header, "")
	}
	if _, err := judgeCall(t, of, memory); err != nil {
		t.Errorf("another server's redirects end a pinned tool: %v", err)
	}
}
