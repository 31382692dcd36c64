package mcp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

// at is a server that gave the client a session.
var at = mcp.Peer{Server: peer.Server, Session: "s1"}

func begin(t testing.TB, memory *mcp.Memory, method string, id int, tool string) mcp.Watch {
	t.Helper()
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":%q}}`, id, method, tool)
	w := watch(read(t, text), memory)
	w.Peer = at
	var err error
	w.Flight, err = memory.Begin(w.Sent, at, tool == "create_issue")
	check.Must(t, err)
	return w
}

func send(t testing.TB, memory *mcp.Memory, method string, id int, kind string, status int) (a *mcp.Answer,
	end func() mcp.Result) {
	t.Helper()
	w := begin(t, memory, method, id, "get_issue")
	a = mcp.NewAnswer(w, status, http.Header{"Content-Type": {kind}})
	return a, func() mcp.Result {
		a.End(io.EOF)
		memory.End(w.Flight, a.Result(), true)
		a.Close()
		return a.Result()
	}
}

const stream, plain = "text/event-stream", "application/json"

func say(a io.Writer, messages ...string) {
	for _, m := range messages {
		_, _ = io.WriteString(a, "data: "+m+"\n\n")
	}
}

func tools(id, about string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[{"name":"get_issue","description":"` + about +
		`","inputSchema":{}}]}}`
}

func pinned(t testing.TB) []*mcp.Rule {
	t.Helper()
	memory := new(mcp.Memory)
	a, end := send(t, memory, "tools/list", 1, plain, http.StatusOK)
	_, _ = io.WriteString(a, tools("1", "good"))
	end()
	of := rules("")
	of[1].Pin = map[string]string{"get_issue": strings.Repeat("0", 64)}
	_, err := judgeCall(t, of, memory)
	_, hash, ok := strings.Cut(fmt.Sprint(err), "its hash is ")
	if !ok {
		t.Fatalf("no hash in %v", err)
	}
	of[1].Pin["get_issue"], _, _ = strings.Cut(hash, ")")
	return of
}

func judgeCall(t testing.TB, of []*mcp.Rule, memory *mcp.Memory) (mcp.Verdict, error) {
	t.Helper()
	return mcp.Judge(read(t, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"get_issue"}}`),
		entry{}.header(), of, at, memory)
}

type play struct {
	testing.TB
	*mcp.Memory
}

// list answers a tools/list with a stream, in which said is followed by messages.
func (p play) list(id int, said func(own io.Writer), messages ...string) {
	own, end := send(p, p.Memory, "tools/list", id, stream, http.StatusOK)
	if said != nil {
		said(own)
	}
	say(own, messages...)
	end()
}

func (p play) ping(kind, text string) {
	a, end := send(p, p.Memory, "ping", 2, kind, http.StatusOK)
	_, _ = io.WriteString(a, text)
	end()
}

func (p play) resume(lastEvent, text string) { resume(p.Memory, at, lastEvent, text) }

func (p play) open(status int, kind string) *mcp.Answer {
	w := watch(nil, p.Memory)
	w.Peer = at
	return mcp.NewAnswer(w, status, http.Header{"Content-Type": {kind}})
}

// TestPinsHold shows the client another definition than the pinned one, in each way in which a client may take it for
// the answer to its request. The pinned tool must not be called.
func TestPinsHold(t *testing.T) {
	of := pinned(t)
	evil, good := tools("1", "evil"), tools("1", "good")
	replaced := func(old, now string) string { return strings.Replace(evil, old, now, 1) }
	unread := replaced(`{`, `{"x":1,"x":1,`)
	event := func(text string) string { return "data: " + text + "\n\n" }
	write := func(text string) func(io.Writer) {
		return func(own io.Writer) { _, _ = io.WriteString(own, text) }
	}
	// beside does something while a list of tools is open, which then shows the good definition.
	beside := func(do func(p play)) func(p play) {
		return func(p play) { p.list(1, func(io.Writer) { do(p) }, good) }
	}
	says := func(messages ...string) func(p play) {
		return func(p play) { p.list(1, nil, messages...) }
	}
	two := func(first, second string) func(p play) {
		return func(p play) { p.list(1, nil, first); p.list(2, nil, second) }
	}
	const resumable = "id: e1\ndata: \n\n"
	for name, way := range map[string]func(p play){
		"an answer to another request brings it": beside(func(p play) { p.ping(stream, event(evil)) }),
		"as a plain answer":                      beside(func(p play) { p.ping(plain, evil) }),
		"its id is spelled as a text":            says(tools(`"1"`, "evil"), good),
		"its id is spelled in another way":       says(tools(`1.0`, "evil"), good),
		"it comes first":                         says(evil, good),
		"it cannot be read":                      beside(func(p play) { p.ping(stream, event(unread)) }),
		"on a stream that the client opened":     beside(func(p play) { p.resume("", event(evil)) }),
		"on a stream at another query": beside(func(p play) {
			resume(p.Memory, mcp.Peer{Server: at.Server, Session: at.Session, Query: "q"}, "", event(evil))
		}),
		"on a stream at another query, once the memory of tools is full": func(p play) {
			for i := range 1100 {
				resume(p.Memory, mcp.Peer{Server: at.Server, Session: at.Session, Query: fmt.Sprint(i)}, "",
					event(replaced("get_issue", "create_issue")))
			}
			resume(p.Memory, mcp.Peer{Server: at.Server, Session: at.Session, Query: "q"}, "", event(evil))
		},
		"on a stream at another query, after the answer": func(p play) {
			resume(p.Memory, mcp.Peer{Server: at.Server, Session: at.Session, Query: "q"}, "", event(evil))
		},
		"on a stream at another path, after the answer": func(p play) {
			resume(p.Memory, mcp.Peer{Server: at.Server + "/sse", Session: at.Session}, "", event(evil))
		},
		"on a stream at another path, whose rule does not name it": beside(func(p play) {
			w := watch(nil, p.Memory)
			w.Peer = mcp.Peer{Server: at.Server + "/sse", Session: at.Session}
			w.Rules = []*mcp.Rule{{ListAll: true}}
			a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
			say(a, evil)
			a.End(io.EOF)
		}),
		"on such a stream, after many tools": beside(func(p play) {
			w := watch(nil, p.Memory)
			w.Peer = mcp.Peer{Server: at.Server + "/sse", Session: at.Session}
			w.Rules = []*mcp.Rule{{ListAll: true}}
			a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
			for i := range 1100 {
				say(a, replaced("get_issue", fmt.Sprint("tool", i)))
			}
			say(a, evil)
			a.End(io.EOF)
		}),
		"on a stream at another path, after more tools than a session keeps": func(p play) {
			for id := range 1100 {
				w := begin(p, p.Memory, "tools/list", 10+id, "")
				w.Peer.Query = fmt.Sprint(id)
				a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {plain}})
				_, _ = io.WriteString(a, tools(string(w.Sent.ID), "good"))
				a.End(io.EOF)
				p.End(w.Flight, a.Result(), true)
			}
			resume(p.Memory, mcp.Peer{Server: at.Server + "/sse", Session: at.Session}, "", event(evil))
		},
		"in a prototype (TypeScript with zod 4.1)": two(replaced(`"tools"`, `"__proto__":{"tools"`)+"}", tools("2", "good")),
		"in an event of another type":              beside(func(p play) { p.resume("", "event: note\n"+event(evil)) }),
		"in an event of another type, without a version (Go's mcp-go)": beside(func(p play) {
			p.ping(stream, "event: note\n"+event(strings.Replace(evil, `"jsonrpc":"2.0",`, "", 1)))
		}),
		"in a list of another case":                two(replaced(`"tools"`, `"Tools"`), tools("2", "good")),
		"by a name in another case":                two(replaced(`"name"`, `"name":"a","Name"`), tools("2", "good")),
		"on the first of two pages":                two(evil, tools("2", "good")),
		"in an event without its end":              func(p play) { p.list(1, write("data: "+evil)) },
		"in an event without its end, spaced (Go)": func(p play) { p.list(1, write("data: \u00a0"+evil)) },
		"in a failure of another type (Go's mcp-go)": func(p play) {
			a, end := send(p, p.Memory, "tools/list", 1, "text/plain", http.StatusBadRequest)
			_, _ = io.WriteString(a, evil)
			end()
		},
		"in a failure of another type and case (Go's mcp-go)": func(p play) {
			a, end := send(p, p.Memory, "tools/list", 1, "", http.StatusBadRequest)
			_, _ = io.WriteString(a, replaced("result", "Result"))
			end()
		},
		"in a failure too large to be read (Go's mcp-go)": func(p play) {
			a, end := send(p, p.Memory, "tools/list", 1, "text/plain", http.StatusBadRequest)
			_, _ = io.WriteString(a, evil+strings.Repeat(" ", 5<<20))
			end()
		},
		"in a compressed failure (Go's mcp-go)": func(p play) {
			w := begin(p, p.Memory, "tools/list", 1, "")
			a := mcp.NewAnswer(w, http.StatusBadRequest, http.Header{"Content-Type": {"text/plain"},
				"Content-Encoding": {"gzip"}})
			a.End(io.EOF)
			p.Memory.End(w.Flight, a.Result(), true)
		},
		"in a line that only some readers find": func(p play) { p.list(1, write("data:\r"+evil+"\n\n"), good) },
		"where the server sends the client elsewhere": func(p play) {
			_, end := send(p, p.Memory, "tools/list", 1, "", http.StatusTemporaryRedirect)
			end()
		},
		"where the server sends the client elsewhere, with a list": func(p play) {
			a, end := send(p, p.Memory, "tools/list", 1, plain, http.StatusSeeOther)
			_, _ = io.WriteString(a, good)
			end()
		},
		"where the server sends the client elsewhere, with a stream": func(p play) {
			a, end := send(p, p.Memory, "tools/list", 1, stream, http.StatusTemporaryRedirect)
			say(a, good)
			end()
		},
		"the other one is in an event that clients pass over": func(p play) {
			p.list(1, write(event(evil)+"event: note\n"+event(good)))
		},
		"the other one is in an event that clients pass over, and comes first": func(p play) {
			p.list(1, write("event: note\n"+event(good)), evil)
		},
		"after the other one by an id that no client takes": func(p play) {
			p.list(1, write(resumable), tools("1.5", "good"))
			p.resume("e1", event(unread))
		},
		"in a second odd line": func(p play) {
			opened := p.open(http.StatusOK, stream)
			_, _ = io.WriteString(opened, "note: a\n\n")
			p.list(1, func(io.Writer) { _, _ = io.WriteString(opened, ":\u2028"+event(evil)) }, good)
		},
		"on a stream that could not be read before": func(p play) {
			opened := p.open(http.StatusOK, stream+"; charset=utf-16")
			p.list(1, func(io.Writer) { say(opened, evil) }, good)
		},
		"on a stream that was too large to be read before": func(p play) {
			opened := p.open(http.StatusOK, stream)
			say(opened, strings.Repeat("x", 5<<20))
			p.list(1, func(io.Writer) { say(opened, evil) }, good)
		},
		"where it cannot be read, after an answer that clients pass over": func(p play) {
			p.list(1, nil, strings.Replace(good, `"2.0"`, `"2"`, 1))
			p.resume("", event(unread))
		},
		"on a stream that came with the status Accepted": beside(func(p play) {
			_, _ = io.WriteString(p.open(http.StatusAccepted, ""), event(evil))
		}),
		"behind a length that is not the answer's": beside(func(p play) {
			c := mcp.Call{Watch: watch(read(p, `{"jsonrpc":"2.0","id":2,"method":"ping"}`), p.Memory)}
			c.Peer = at
			resp := &http.Response{StatusCode: http.StatusOK, ContentLength: -1,
				Header: http.Header{"Content-Type": {plain}, "Content-Length": {"2", "500"}}}
			resp.Body = io.NopCloser(strings.NewReader("  " + evil))
			c.Begin(resp)
			_, _ = io.CopyN(io.Discard, resp.Body, 2)
			_, _ = io.Copy(io.Discard, resp.Body)
		}),
		"on a stream that the client resumed, where it cannot be read": func(p play) {
			p.list(1, write(resumable))
			p.resume("e1", event(unread))
		},
		"and then the other one for a request that was never sent": func(p play) {
			p.list(1, nil, evil)
			p.resume("", event(tools("77", "good")))
		},
		"beside the other one, in one list": says(replaced(`"inputSchema":{}}`,
			`"inputSchema":{}},{"name":"get_issue","description":"good","inputSchema":{}}`)),
		"in a list that is cut short": func(p play) {
			a, end := send(p, p.Memory, "tools/list", 2, plain, http.StatusOK)
			_, _ = io.WriteString(a, evil[:40])
			end()
		},
		"and then a list that breaks off": func(p play) { p.list(1, nil, evil); p.list(2, nil) },
		"on a resumed stream, after many lists that broke off": func(p play) {
			for id := range 20 {
				p.list(100+id, nil)
			}
			p.resume("", event(strings.Replace(tools("100", "evil"), `{`, `{"x":1,"x":1,`, 1)))
		},
		"and then the other one once more": func(p play) {
			p.list(1, nil, evil)
			p.resume("", event(good))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := play{t, new(mcp.Memory)}
			p.list(1, nil, good)
			if _, err := judgeCall(t, of, p.Memory); err != nil {
				t.Fatalf("the pinned tool: %v", err)
			}
			way(p)
			if _, err := judgeCall(t, of, p.Memory); check.CodeOf(err) != "mcp_tool_changed" &&
				check.CodeOf(err) != "mcp_tool_unseen" {
				t.Errorf("the pinned tool is called: %v", err)
			}
			p.list(5, nil, tools("5", "good"))
			if _, err := judgeCall(t, of, p.Memory); check.CodeOf(err) != "mcp_tool_changed" &&
				check.CodeOf(err) != "mcp_tool_unseen" {
				t.Errorf("after a new list, which takes nothing back: %v", err)
			}
		})
	}
	// A resumed list counts as shown.
	p := play{t, new(mcp.Memory)}
	p.list(1, write(resumable))
	p.resume("e1", event(good))
	if _, err := judgeCall(t, of, p.Memory); err != nil {
		t.Errorf("after a list that was resumed: %v", err)
	}
}

// If another result came elsewhere, none counts.
func TestFirstResult(t *testing.T) {
	const good, bad = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`
	event := func(text string) string { return "data: " + text + "\n\n" }
	for name, tt := range map[string]struct {
		elsewhere, own string
		status         int
		want           mcp.Result
	}{
		"twice":              {"", event(bad) + event(good), 200, mcp.ResultToolFailed},
		"after a status":     {"", event(good), 500, mcp.ResultError},
		"in a foreign event": {"", "event: x\n" + event(good) + event(bad), 200, mcp.ResultUnseen},
		"in an event of another type, without a version (Go's mcp-go)": {"",
			"event: x\n" + event(strings.Replace(bad, `"jsonrpc":"2.0",`, "", 1)) + event(good), 200, mcp.ResultUnseen},
		"in the only event": {"", "event: x\n" + event(good), 200, mcp.ResultUnseen},
		"elsewhere":         {event(bad), event(good), 200, mcp.ResultUnseen},
		"elsewhere, after a list of its id (another client's)": {event(bad), event(good), 200, mcp.ResultUnseen},
		"typed as a message": {"", "event: message\n" + event(good), 200, mcp.ResultOK},
		"by an id as a text": {"", event(strings.Replace(bad, `"id":1`, `"id":"1"`, 1)) + event(good), 200,
			mcp.ResultUnseen},
		"with no error": {"", event(strings.Replace(good, `"result"`, `"error":null,"result"`, 1)), 200,
			mcp.ResultUnseen},
		"with nothing": {"", event(strings.Replace(good, `{"content":[]}`, `null`, 1)), 200, mcp.ResultUnseen},
		"by a text that some clients read as its id": {"",
			event(strings.Replace(bad, `"id":1`, `"id":"0x1"`, 1)) + event(good), 200, mcp.ResultUnseen},
		"by a text in digits of another script": {"",
			event(strings.Replace(bad, `"id":1`, `"id":"\uff11"`, 1)) + event(good), 200, mcp.ResultUnseen},
		"by an id that some clients take for its own": {"",
			event(strings.Replace(bad, `"id":1`, `"id":1.0`, 1)) + event(good), 200, mcp.ResultUnseen},
		"failed in another case": {"", event(strings.Replace(good, `"content"`, `"IsError":true,"content"`, 1)), 200,
			mcp.ResultUnseen},
		"failed in Python's spelling": {"", event(strings.Replace(good, `"content"`, `"is_error":true,"content"`, 1)), 200,
			mcp.ResultUnseen},
		"failed in a prototype": {"",
			event(strings.Replace(good, `"content"`, `"__proto__":{"isError":true},"content"`, 1)), 200,
			mcp.ResultUnseen},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			if strings.Contains(name, "after a list of its id") {
				_, end := send(t, memory, "tools/list", 1, stream, 200)
				end() // broken
			}
			a, end := send(t, memory, "tools/call", 1, stream, tt.status)
			if tt.elsewhere != "" {
				resume(memory, at, "", tt.elsewhere)
			}
			_, _ = io.WriteString(a, tt.own)
			if got := end(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	for said, want := range map[string]mcp.Result{ // some clients ignore the status
		good: mcp.ResultUnseen,
		strings.Replace(good, "result", "Result", 1):                                mcp.ResultUnseen,
		strings.Replace(good, `"id":1`, `"id":2`, 1):                                mcp.ResultUnseen,
		strings.Replace(good, `{`, `{"id":1,`, 1):                                   mcp.ResultUnseen,
		strings.Replace(good, `{`, `{"large":"`+strings.Repeat("x", 4<<20)+`",`, 1): mcp.ResultUnseen,
		`{"result":"no","error":"no","message":"x"}`:                                mcp.ResultError,
		`{"error":"no"`: mcp.ResultError,
		"<p>{a:b}":      mcp.ResultError,
		"":              mcp.ResultError,
	} {
		for _, kind := range []string{plain, "text/plain"} {
			for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
				a, _ := send(t, new(mcp.Memory), "tools/call", 1, kind, http.StatusServiceUnavailable)
				_, _ = io.WriteString(a, said)
				if a.End(end); a.Result() != want {
					t.Errorf("%.200s by %s, %v: got %s, want %s", said, kind, end, a.Result(), want)
				}
			}
		}
	}
}

func TestOneIDTwice(t *testing.T) {
	memory := new(mcp.Memory)
	_, end := send(t, memory, "tools/call", 7, stream, http.StatusOK)
	call := read(t, `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	_, err := memory.Begin(call, at, true)
	check.WantCode(t, err, "message_ambiguous")
	_, err = memory.Begin(call, mcp.Peer{Server: at.Server, Session: at.Session, Query: "another"}, true)
	check.WantCode(t, err, "message_ambiguous")
	_, err = memory.Begin(call, mcp.Peer{Server: "https://alias.example.com/mcp", Session: at.Session}, true)
	check.WantCode(t, err, "message_ambiguous")
	for _, other := range []mcp.Peer{{Server: at.Server, Session: "s2"}, {Server: at.Server}, {Server: at.Server}} {
		if _, err := memory.Begin(call, other, true); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
	end()
	if _, err := memory.Begin(call, at, true); err != nil {
		t.Errorf("after the answer: %v", err)
	}
}

// humanAnswers has a human answer a server, which a rule allows.
func humanAnswers(t *testing.T, memory *mcp.Memory) error {
	t.Helper()
	show(t, memory, `{"jsonrpc":"2.0","id":"human","method":"elicitation/create"}`)
	_, err := mcp.Judge(read(t, `{"jsonrpc":"2.0","id":"human","result":{"action":"accept"}}`), entry{}.header(),
		rules("elicitation"), peer, memory)
	return err
}

func TestHumanBesidesPost(t *testing.T) {
	for resumed, refused := range map[string]bool{`"result":{}`: false, `"error":{"code":1,"message":""}`: false,
		`"error":{}`:                       true, // some clients drop it
		`"result":{"task":{"taskId":"t"}}`: true, `"result":{"resultType":"task"}`: true} {
		memory := new(mcp.Memory)
		w := begin(t, memory, "tools/call", 7, "create_issue")
		check.WantCode(t, humanAnswers(t, memory), "mcp_answer_refused")
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
		_, _ = io.WriteString(a, "id: e1\ndata: \n\n")
		a.End(errors.New("broken"))
		memory.Keep(a, 1<<40, func(mcp.Result) {})
		memory.End(w.Flight, a.Result(), true)
		check.WantCode(t, humanAnswers(t, memory), "mcp_answer_refused")
		if memory.Prompted() {
			t.Error("an answer that was refused counts")
		}
		resume(memory, at, "e1", `data: {"jsonrpc":"2.0","id":7,`+resumed+"}\n\n")
		if err := humanAnswers(t, memory); (err != nil) != refused || memory.Prompted() == refused {
			t.Errorf("after %s: %v, %t", resumed, err, memory.Prompted())
		}
	}
}

func TestHumanAfterPost(t *testing.T) {
	for _, tt := range []struct {
		result  mcp.Result
		sent    bool
		refused bool
	}{
		{mcp.ResultOK, true, false}, {mcp.ResultToolFailed, true, false}, {mcp.ResultError, true, false},
		{"", false, false},
		{mcp.ResultLost, true, true}, {mcp.ResultUnseen, true, true}, {mcp.ResultUnfinished, true, false},
		{"", true, true},
	} {
		memory := new(mcp.Memory)
		memory.End(begin(t, memory, "tools/call", 7, "create_issue").Flight, tt.result, tt.sent)
		if err := humanAnswers(t, memory); (err != nil) != tt.refused {
			t.Errorf("%q, sent %t: %v", tt.result, tt.sent, err)
		}
	}
	for answer, refused := range map[string]bool{`"task":{"taskId":"t"}`: true,
		`"resultType":"input_required","requestState":"s"`: false} {
		memory := new(mcp.Memory)
		w := begin(t, memory, "tools/call", 7, "create_issue")
		text := `{"jsonrpc":"2.0","id":7,"result":{` + answer + `}}`
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {plain},
			"Content-Length": {fmt.Sprint(len(text))}})
		_, _ = io.WriteString(a, text[:5])
		check.WantCode(t, humanAnswers(t, memory), "mcp_answer_refused")
		_, _ = io.WriteString(a, text[5:]) // the client has its answer now, and may go on at once
		if err := humanAnswers(t, memory); (err != nil) != refused {
			t.Errorf("%s: %v", answer, err)
		}
		a.End(io.EOF)
		memory.End(w.Flight, a.Result(), true)
		if err := humanAnswers(t, memory); (err != nil) != refused {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// TestManyTools checks that a server cannot push out a named tool, and that its texts are not kept.
func TestManyTools(t *testing.T) {
	memory, shared := new(mcp.Memory), new(mcp.Definitions)
	var changed []string
	list := func(id int, tools string) {
		w := watch(read(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id)), memory)
		w.Shared, w.Changed = shared, func(tool, _, _ string) { changed = append(changed, tool) }
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {plain}})
		_, _ = fmt.Fprintf(a, `{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]}}`, id, tools)
		if a.End(io.EOF); a.Result() != mcp.ResultOK {
			t.Fatalf("%s", a.Result())
		}
	}
	list(1, `{"name":"get_issue","description":"good"}`)
	for i := range 30 {
		var junk []string
		for j := range 100 {
			junk = append(junk, fmt.Sprintf(`{"name":"junk_%d_%d"}`, i, j))
		}
		list(2+i, strings.Join(junk, ","))
	}
	memory = new(mcp.Memory) // of another session
	list(50, `{"name":"get_issue","description":"evil"}`)
	if len(changed) != 1 || changed[0] != "get_issue" {
		t.Errorf("changed are %q", changed)
	}
	changed = nil
	for i := range 1100 { // of URLs that the agent makes up
		w := watch(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), new(mcp.Memory))
		w.Shared, w.Peer.Query = shared, fmt.Sprint(i)
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {plain}})
		_, _ = io.WriteString(a, tools("1", "good"))
		a.End(io.EOF)
	}
	memory = new(mcp.Memory)
	list(55, `{"name":"get_issue","description":"worse"}`)
	if len(changed) != 1 {
		t.Errorf("after many URLs changed are %q", changed)
	}
	long := strings.Repeat("x", 1<<20)
	// Names that no rule can have, and headers that no server takes.
	list(60, `{"name":"`+long+`"},{"name":"get_issue","inputSchema":{"properties":{"`+long+
		`":{"x-mcp-header":"A"},"b":{"x-mcp-header":"`+long+`"}}}}`)
	if kept := fmt.Sprintf("%+v %+v", memory, shared); !strings.Contains(kept, "get_issue") || len(kept) > 1<<19 {
		t.Errorf("%d bytes of the texts of a server are kept", len(kept))
	}
}

func TestTurns(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	for name, tt := range map[string]struct{ kind, said string }{
		"JSON": {plain, text}, "an event": {stream, "data: " + text + "\n\n"},
		"the last event":           {stream, "data: " + text},
		"an event of another type": {stream, "event: x\ndata: " + text + "\n\n"},
	} {
		w := watch(read(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), new(mcp.Memory))
		began, ended := 0, 0
		w.Turn = func(size int) func() {
			began += size
			return func() { ended += size }
		}
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {tt.kind}})
		_, _ = io.WriteString(a, tt.said)
		a.End(io.EOF)
		if began != len(text) || ended != began {
			t.Errorf("%s: turns for %d bytes began, for %d ended", name, began, ended)
		}
	}
}

// TestHeadersOfStreams: some servers take an underscore for a hyphen, and so would open another stream.
func TestHeadersOfStreams(t *testing.T) {
	for name, code := range map[string]string{"Mcp_session_id": "override_refused", "Mcp-Session_id": "override_refused",
		"Last_event_id": "override_refused", "Mcp-Session-Id": "", "Last-Event-Id": "", "X_a": ""} {
		err := mcp.CheckStream(http.Header{name: {"x"}})
		if err == nil && code != "" || err != nil && check.CodeOf(err) != code {
			t.Errorf("%s: %v, want %q", name, err, code)
		}
	}
}

func TestLongHeaders(t *testing.T) {
	for name, n := range map[string]int{"Mcp-Session-Id": 4097, "Last-Event-Id": 4097} {
		check.WantCode(t, mcp.CheckStream(http.Header{name: {strings.Repeat("x", n)}}), "message_malformed")
		if err := mcp.CheckStream(http.Header{name: {strings.Repeat("x", n-1)}}); err != nil {
			t.Error(err)
		}
	}
	_, err := mcp.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`),
		http.Header{"Mcp-Session-Id": {strings.Repeat("x", 4097)}})
	check.WantCode(t, err, "message_malformed")
}

func TestSameConnection(t *testing.T) {
	said := rules("")
	said[0].SameConnection = true
	post := read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_issue"}}`)
	for _, h := range []http.Header{{}, {"Accept": {"*/*"}},
		{"Mcp-Protocol-Version": {"2024-11-05"}, "Accept": {"application/json, text/event-stream"}}} {
		if v, err := mcp.Judge(post, h, said, peer, new(mcp.Memory)); err != nil || v.Rule != 0 {
			t.Errorf("%v: %+v, %v", h, v, err)
		}
		_, err := mcp.Judge(post, h, rules(""), peer, new(mcp.Memory))
		check.WantCode(t, err, "mcp_transport_unsupported")
	}
}

func TestWhatAPostAccepts(t *testing.T) {
	for accept, want := range map[string]string{
		"application/json, text/event-stream": "", "text/event-stream;q=0.5, application/json;charset=utf-8": "",
		"application/json": "mcp_transport_unsupported", "text/event-stream": "mcp_transport_unsupported",
		"*/*": "mcp_transport_unsupported", "": "mcp_transport_unsupported",
	} {
		h := http.Header{"Accept": {accept}}
		_, err := mcp.Judge(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_issue"}}`), h,
			rules(""), peer, new(mcp.Memory))
		if (err == nil) != (want == "") || err != nil && check.CodeOf(err) != want || err != nil &&
			!strings.Contains(err.Error(), "send the header Accept: application/json, text/event-stream") {
			t.Errorf("%q: %v", accept, err)
		}
		if _, err := mcp.Judge(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue"}}`), h,
			rules(""), peer, new(mcp.Memory)); err != nil {
			t.Errorf("a read that accepts %q: %v", accept, err)
		}
	}
}

// The arguments are read once: reading them for each header would take too long.
func TestManyParamHeaders(t *testing.T) {
	args := `{"z":"` + strings.Repeat("x", 1<<20) + `","a":"v"}`
	for range 55 {
		args = `{"a":` + args + `}`
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_issue","arguments":` + args + `}}`
	h := make(http.Header)
	for i := range 4000 {
		h.Set(fmt.Sprintf("Mcp-Param-%d", i), "v")
	}
	_, err := mcp.Read([]byte(body), h)
	check.Must(t, err)
	h.Set("Mcp-Param-0", "w")
	_, err = mcp.Read([]byte(body), h)
	check.WantCode(t, err, "mcp_header_mismatch")
}

// TestHumanUnseen has a server refuse a call with [byURL] where the mediator does not see it, or sees it late. A human
// may have answered when the client repeats the call.
func TestHumanUnseen(t *testing.T) {
	refuses := func(id any) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"error":{"code":-32042}}`, id) }
	const good = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
	unread := twice + refuses(7)[1:]
	event := func(text string) string { return "data: " + text + "\n\n" }
	call := func(p play, kind, said string, during func()) {
		a, end := send(p, p.Memory, "tools/call", 7, kind, http.StatusOK)
		if during != nil {
			during()
		}
		_, _ = io.WriteString(a, said)
		end()
	}
	says := func(kind, said string) func(p play) { return func(p play) { call(p, kind, said, nil) } }
	redirected := func(p play, id, status int, to string) {
		w := begin(p, p.Memory, "tools/call", id, "get_issue")
		a := mcp.NewAnswer(w, status, http.Header{"Location": {to}})
		a.End(io.EOF)
		p.End(w.Flight, a.Result(), true)
	}
	for name, tt := range map[string]struct {
		way   func(p play)
		human bool
	}{
		"in no way":                        {says(plain, good), false},
		"in an answer that breaks off":     {says(stream, ""), false},
		"in a message with a member twice": {says(plain, unread), true},
		"under no id":                      {says(plain, refuses("null")), true},
		"without an id":                    {says(plain, strings.Replace(refuses(7), `"id":7,`, "", 1)), true},
		"in an event of another type":      {says(stream, "event: x\n"+event(unread)), true},
		"in the answer to another request": {func(p play) {
			call(p, plain, good, func() { p.ping(stream, event(unread)) })
		}, true},
		"before, on the stream of another answer": {func(p play) {
			p.ping(stream, event(unread))
			call(p, plain, good, nil)
		}, true},
		"before, in the answer to another request": {func(p play) {
			p.ping(plain, unread)
			call(p, plain, good, nil)
		}, false},
		"on an unread stream that was opened before": {func(p play) {
			p.open(http.StatusOK, stream+"; charset=utf-16")
			call(p, plain, good, nil)
		}, true},
		"on a stream at another path": {func(p play) {
			call(p, stream, "", nil)
			resume(p.Memory, mcp.Peer{Server: "https://api.example.com/sse"}, "", event(refuses(7)))
		}, true},
		"after many calls that broke off": {func(p play) {
			for id := range 300 {
				_, end := send(p, p.Memory, "tools/call", 1000+id, stream, http.StatusOK)
				end()
			}
			resume(p.Memory, at, "", event(refuses(1299)))
		}, true},
		"after the wait for a broken call": {func(p play) {
			w := begin(p, p.Memory, "tools/call", 7, "get_issue")
			a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
			_, _ = io.WriteString(a, "id: e1\ndata: \n\n")
			over := make(chan struct{})
			p.Keep(a, 0, func(mcp.Result) { close(over) })
			p.End(w.Flight, a.Result(), true)
			<-over
			resume(p.Memory, at, "e1", event(refuses(7)))
		}, true},
		"where the server sends the client to another origin": {func(p play) {
			redirected(p, 7, http.StatusTemporaryRedirect, "https://example.org/mcp")
		}, true},
		"at another path, to which the server sends the client": {func(p play) {
			for id := range 300 {
				redirected(p, id, http.StatusTemporaryRedirect, "/mcp/")
			}
		}, false},
		"at a path that is not read, to which the server sends the client": {func(p play) {
			redirected(p, 7, http.StatusPermanentRedirect, "/page")
		}, true},
		"on a stream, to which the server sends the client": {func(p play) {
			redirected(p, 7, http.StatusSeeOther, "/mcp")
			resume(p.Memory, at, "", event(refuses(7)))
		}, true},
		"on a stream that is not read, to which the server sends the client": {func(p play) {
			w := watch(nil, p.Memory)
			w.Peer = at
			mcp.NewAnswer(w, http.StatusFound, http.Header{"Location": {"/page"}})
			call(p, plain, good, nil)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := play{t, new(mcp.Memory)}
			tt.way(p)
			v, err := judgeCall(t, rules(""), p.Memory)
			if human := v.Human && p.Prompted() || check.CodeOf(err) == "mcp_answer_refused"; human != tt.human {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
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
		{"initialize", []string{strings.Repeat("x", 4097)}, nil}, // no request could name it, and the memory would keep it
	} {
		w := watch(nil, new(mcp.Memory))
		w.Peer = at
		if tt.method != "" {
			w.Sent = read(t, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":{"protocolVersion":"2025-06-18"}}`)
		}
		h := http.Header{"Mcp-Session-Id": tt.given}
		mcp.NewAnswer(w, http.StatusOK, h)
		if got := h["Mcp-Session-Id"]; !slices.Equal(got, tt.want) {
			t.Errorf("%s given %q: %q, want %q", tt.method, tt.given, got, tt.want)
		}
	}
}
