package mcp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

// TestHumanSomeClientsSee has a server refuse a call with [byURL] in ways that only some clients read so. A human may
// have answered when such a client repeats the call.
func TestHumanSomeClientsSee(t *testing.T) {
	refuses := func(id, code string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"m"}}`, id, code)
	}
	event := func(text string) string { return "data: " + text + "\n\n" }
	call := func(p play, status int, header http.Header, said string) *mcp.Answer {
		w := begin(p, p.Memory, "tools/call", 7, "get_issue")
		a := mcp.NewAnswer(w, status, header)
		_, _ = io.WriteString(a, said)
		a.End(io.EOF)
		p.End(w.Flight, a.Result(), true)
		return a
	}
	typed := func(kind string) http.Header { return http.Header{"Content-Type": {kind}} }
	for name, way := range map[string]func(p play){
		"own stream, another id (Python 2)": func(p play) { call(p, 200, typed(stream), event(refuses("999", "-32042"))) },
		"resumed, another id (Python 1)": func(p play) {
			call(p, 200, typed(stream), "id: e1\ndata: \n\n")
			p.resume("e1", event(refuses("999", "-32042")))
		},
		"resumed, no id": func(p play) {
			call(p, 200, typed(stream), "id: e1\ndata: \n\n")
			p.resume("e1", event(refuses("null", "-32042")))
		},
		"hex id on another stream (TypeScript)": func(p play) {
			call(p, 200, typed(stream), "")
			p.resume("", event(refuses(`"0x7"`, "-32042")))
		},
		"id with a mark (TypeScript)": func(p play) {
			call(p, 200, typed(stream), "")
			p.resume("", event(refuses(`"\ufeff7"`, "-32042")))
		},
		"id in other digits (Python)": func(p play) {
			call(p, 200, typed(stream), "")
			p.resume("", event(refuses(`"\uff17"`, "-32042")))
		},
		"code as a spaced text (Python)": func(p play) { call(p, 200, typed(plain), refuses("7", `" -32042 "`)) },
		"code as a text with underscore": func(p play) { call(p, 200, typed(plain), refuses("7", `"-32_042"`)) },
		"code in another case (Go's mcp-go)": func(p play) {
			call(p, 200, typed(plain), strings.Replace(refuses("7", "1"), `"message"`, `"Code":-32042,"message"`, 1))
		},
		"event without its end, more behind (Go)": func(p play) {
			call(p, 200, typed(stream), "data: "+refuses("7", "-32042")+"\ndata: {}\n")
		},
		"400, another id (Go, Python 2)": func(p play) { call(p, 400, typed(plain), refuses("999", "-32042")) },
		"400, another type (Go)":         func(p play) { call(p, 400, typed("text/plain"), refuses("999", "-32042")) },
		"400, no type (Go)":              func(p play) { call(p, 400, http.Header{}, refuses("7", "-32042")) },
		"400, another type, member twice (Go)": func(p play) {
			call(p, 400, typed("text/plain"), twice+refuses("7", "-32042")[1:])
		},
		"400, as a stream (Go)": func(p play) { call(p, 400, typed(stream), refuses("7", "-32042")) },
		"300 with a location (Go)": func(p play) {
			call(p, 300, http.Header{"Content-Type": {plain}, "Location": {"/other"}}, refuses("7", "-32042"))
		},
		"after a result without jsonrpc, on another stream": func(p play) {
			call(p, 200, typed(stream), "")
			p.resume("", event(`{"id":7,"result":{}}`)+event(refuses("7", "-32042")))
		},
		"after a result in lines for some clients, on another stream": func(p play) {
			call(p, 200, typed(stream), "")
			p.resume("", event("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\u2028\"}}")+event(refuses("7", "-32042")))
		},
		"after a result without jsonrpc": func(p play) {
			call(p, 200, typed(stream), "id: e1\n"+event(`{"id":7,"result":{}}`))
			p.resume("e1", event(refuses("7", "-32042")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := play{t, new(mcp.Memory)}
			way(p)
			v, err := judgeCall(t, rules(""), p.Memory)
			if !(v.Human && p.Prompted() || check.CodeOf(err) == "mcp_answer_refused") {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	for name, way := range map[string]func(p play){
		"400 page":      func(p play) { call(p, 400, typed("text/html"), "<html>{32042}</html>") },
		"404 JSON":      func(p play) { call(p, 404, typed("application/problem+json"), `{"status":404}`) },
		"another error": func(p play) { call(p, 200, typed(plain), refuses("7", "-32602")) },
		"text code":     func(p play) { call(p, 200, typed(plain), refuses("7", `"E_NO"`)) },
		"another id, stream": func(p play) {
			call(p, 200, typed(stream), event(refuses("999", "-32602"))+event(`{"jsonrpc":"2.0","id":7,"result":{}}`))
		},
		"another id elsewhere": func(p play) {
			call(p, 200, typed(stream), "")
			p.resume("", event(refuses("999", "-32042")))
		},
	} {
		t.Run("no human: "+name, func(t *testing.T) {
			p := play{t, new(mcp.Memory)}
			way(p)
			if v, err := judgeCall(t, rules(""), p.Memory); err != nil || v.Human || p.Prompted() {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestAnswerAhead has a server answer on another stream before the client's request comes to the mediator. The client,
// which has sent it, takes that answer.
func TestAnswerAhead(t *testing.T) {
	for name, early := range map[string]string{
		"a result":                            `{"jsonrpc":"2.0","id":7,"result":{"isError":true}}`,
		"a human by URL":                      `{"jsonrpc":"2.0","id":7,"error":{"code":-32042,"message":"m"}}`,
		"a text":                              `{"jsonrpc":"2.0","id":"7","result":{}}`,
		"in hex":                              `{"jsonrpc":"2.0","id":"0x7","result":{}}`,
		"a list of tools":                     tools("7", "evil"),
		"unread":                              twice + `"jsonrpc":"2.0","id":7,"result":{}}`,
		"an earlier one's":                    "",
		"another id":                          `{"jsonrpc":"2.0","id":8,"result":{}}`,
		"a fraction, after many broken calls": `{"jsonrpc":"2.0","id":7.5,"result":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p, honest := play{t, new(mcp.Memory)}, name == "an earlier one's" || name == "another id"
			for id := 100; strings.HasSuffix(name, "many broken calls") && id < 400; id++ {
				_, end := send(t, p.Memory, "tools/call", id, stream, 200)
				end()
			}
			_, end := send(t, p.Memory, "tools/call", 6, stream, 200)
			end() // broken
			say(p.open(http.StatusOK, stream), `{"jsonrpc":"2.0","id":6,"result":{}}`)
			if early != "" {
				say(p.open(http.StatusOK, stream), early)
			}
			a, end := send(t, p.Memory, "tools/call", 7, stream, 200)
			say(a, `{"jsonrpc":"2.0","id":7,"result":{}}`)
			if got := end(); (got == mcp.ResultOK) != honest || !honest && got != mcp.ResultUnseen {
				t.Errorf("the result is %s", got)
			}
			if v, err := judgeCall(t, rules(""), p.Memory); err != nil || v.Human == honest {
				t.Errorf("the repeated call: %+v, %v", v, err)
			}
		})
	}
}

// TestAnswerBehindARedirect has a server send the client's event stream to another path, and answer there.
func TestAnswerBehindARedirect(t *testing.T) {
	for name, early := range map[string]bool{"before the request comes": true, "after it": false} {
		memory := new(mcp.Memory)
		answer := func() {
			resume(memory, mcp.Peer{Server: at.Server + "/", Session: at.Session}, "",
				"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
		}
		if early {
			answer()
		}
		a, end := send(t, memory, "tools/call", 7, stream, 200)
		if !early {
			answer()
		}
		say(a, `{"jsonrpc":"2.0","id":7,"result":{"isError":true}}`)
		if got := end(); got != mcp.ResultUnseen {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestResultThatDoesNotPass has a server send a result in one piece with a question too many. The client gets neither,
// and may resume the answer.
func TestResultThatDoesNotPass(t *testing.T) {
	var questions strings.Builder
	for i := range 129 {
		fmt.Fprintf(&questions, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i)
	}
	const result = `data: {"jsonrpc":"2.0","id":7,"result":{}}` + "\n\n"
	memory := new(mcp.Memory)
	a, end := send(t, memory, "tools/call", 7, stream, 200)
	if _, err := io.WriteString(a, result+questions.String()); err == nil {
		t.Error("too many questions pass")
	}
	if got := end(); got != mcp.ResultUnseen {
		t.Errorf("the result is %s", got)
	}

	memory = new(mcp.Memory)
	w := begin(t, memory, "tools/call", 7, "create_issue")
	a = mcp.NewAnswer(w, 200, http.Header{"Content-Type": {stream}})
	_, _ = io.WriteString(a, "id: e1\ndata: \n\n")
	a.End(errors.New("broken"))
	var got mcp.Result
	memory.Keep(a, 1<<40, func(r mcp.Result) { got = r })
	memory.End(w.Flight, a.Result(), true)
	resume(memory, at, "e1", result+questions.String())
	if got != mcp.ResultUnseen {
		t.Errorf("the resumed result is %s", got)
	}
}

func TestResultSomeClientsTake(t *testing.T) {
	const good, bad = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`
	event := func(text string) string { return "data: " + text + "\n\n" }
	swap := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for name, first := range map[string]string{
		"no jsonrpc":         swap(`"jsonrpc":"2.0",`, ""),
		"jsonrpc 1":          swap(`"2.0"`, `"1.0"`),
		"another member":     swap(`"id"`, `"x":1,"id"`),
		"meta a number":      swap(`"content"`, `"_meta":1,"content"`),
		"progress a list":    swap(`"content":[]`, `"_meta":{"progressToken":[]}`),
		"related task":       swap(`"content":[]`, `"_meta":{"io.modelcontextprotocol/related-task":{}}`),
		"error without code": `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`,
		"error, code text":   `{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}`,
		"error, no message":  `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`,
		"another id":         strings.Replace(good, `"id":1`, `"id":999`, 1),
		"another id, error":  `{"jsonrpc":"2.0","id":999,"error":{"code":1,"message":"m"}}`,
		"member twice":       twice + bad[1:],
		"line separator":     swap(`[]`, "[{\"text\":\"\u2028event: x\"}]"),
		// TypeScript drops it, and waits for another
		"code past 2^53": `{"jsonrpc":"2.0","id":1,"error":{"code":9007199254740993,"message":"m"}}`,
		// Python does not read these; version 2 and Go end the request
		"200 levels":      swap(`[]`, strings.Repeat("[", 200)+strings.Repeat("]", 200)),
		"5000 digits":     swap(`[]`, strings.Repeat("1", 5000)),
		"no JSON":         "hello",
		"no message":      `{}`,
		"method a number": `{"jsonrpc":"2.0","method":5}`,
		"params a list":   `{"jsonrpc":"2.0","method":"notifications/message","params":[]}`,
		"id a boolean":    `{"jsonrpc":"2.0","id":true,"method":"ping"}`,
		"id out of range": `{"jsonrpc":"2.0","id":1e400,"method":"ping"}`,
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			a, end := send(t, memory, "tools/call", 1, stream, 200)
			say(a, first, bad)
			if got := end(); got != mcp.ResultUnseen {
				t.Errorf("own stream: %s", got)
			}
			memory = new(mcp.Memory)
			w := begin(t, memory, "tools/call", 1, "create_issue")
			a = mcp.NewAnswer(w, 200, http.Header{"Content-Type": {stream}})
			say(a, first)
			if err := humanAnswers(t, memory); check.CodeOf(err) != "mcp_answer_refused" &&
				check.CodeOf(err) != "mcp_answer_unasked" {
				t.Errorf("a human answers: %v", err)
			}

			memory = new(mcp.Memory)
			w = begin(t, memory, "tools/call", 1, "create_issue")
			a = mcp.NewAnswer(w, 200, http.Header{"Content-Type": {stream}})
			_, _ = io.WriteString(a, "id: e1\ndata: \n\n")
			a.End(errors.New("broken"))
			var got mcp.Result
			memory.Keep(a, 1<<40, func(r mcp.Result) { got = r })
			memory.End(w.Flight, a.Result(), true)
			resume(memory, at, "e1", event(first)+event(good))
			if got != mcp.ResultUnseen {
				t.Errorf("resumed: %s", got)
			}
		})
	}
	for name, first := range map[string]string{
		"progress":  `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
		"no params": `{"jsonrpc":"2.0","method":"notifications/message"}`,
		"null":      `{"jsonrpc":"2.0","id":null,"method":"notifications/message","params":null}`,
	} {
		memory := new(mcp.Memory)
		a, end := send(t, memory, "tools/call", 1, stream, 200)
		say(a, first, good)
		if got := end(); got != mcp.ResultOK {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, text := range map[string]string{"CR": "data:\r" + bad + "\n\n", "mark": "\ufeff" + event(bad),
		"no colon (Go)": "data\n\n", "spaces (Python 2)": "data:   \n\n",
		"spaced type (Go)": "event: message \n" + event(bad),
	} {
		memory := new(mcp.Memory)
		a, end := send(t, memory, "tools/call", 1, stream, 200)
		_, _ = io.WriteString(a, text+event(good))
		if got := end(); got != mcp.ResultUnseen {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, tt := range []struct {
		kind   string
		status int
	}{{plain, 202}, {plain, 205}, {stream, 202}, {stream, 205}, {plain + `; x="text/event-stream"`, 200}} {
		a, end := send(t, new(mcp.Memory), "tools/call", 1, tt.kind, tt.status)
		_, _ = io.WriteString(a, map[bool]string{true: event(good), false: good}[tt.kind == stream])
		if got := end(); got != mcp.ResultUnseen {
			t.Errorf("%d %s, which TypeScript does not read: %s", tt.status, tt.kind, got)
		}
	}
	memory := new(mcp.Memory)
	a, end := send(t, memory, "tools/call", 1, stream, 200)
	say(play{t, memory}.open(http.StatusOK, stream), twice+bad[1:])
	say(a, good)
	if got := end(); got != mcp.ResultUnseen {
		t.Errorf("unread elsewhere: %s", got)
	}
}

// unended is a body whose server waits before its end, so that a client could act on what has come.
type unended struct {
	io.Reader
	wait func()
}

func (u *unended) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err == io.EOF {
		u.wait()
	}
	return n, err
}

// TestJudgedBeforeEnd: a client that does not wait for the end of an answer sees none that was not judged. A human may
// have answered after each of these.
func TestJudgedBeforeEnd(t *testing.T) {
	const refused = `{"jsonrpc":"2.0","id":7,"error":{"code":-32042,"message":"m"}}`
	for name, tt := range map[string]struct {
		status, length int
		kind, said     string
		passes         bool // in parts, and no client finds its end
	}{
		"JSON without a length (Go's mcp-go)": {200, -1, plain, refused, false},
		"JSON with a length":                  {200, len(refused), plain, refused, false},
		"JSON for a failure":                  {400, -1, plain, refused, false},
		"a failure of another type":           {400, len(refused), "text/plain", refused, false},
		"an event without its end (Go)":       {200, len(refused) + 7, stream, "data: " + refused + "\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := play{t, new(mcp.Memory)}
			var got strings.Builder
			c := mcp.Call{Watch: begin(p, p.Memory, "tools/call", 7, "get_issue")}
			resp := &http.Response{StatusCode: tt.status, ContentLength: int64(tt.length),
				Header: http.Header{"Content-Type": {tt.kind}}}
			if tt.length >= 0 {
				resp.Header.Set("Content-Length", strconv.Itoa(tt.length))
			}
			human := false
			isHuman := func() bool {
				v, err := judgeCall(t, rules(""), p.Memory)
				human = human || v.Human || check.CodeOf(err) == "mcp_answer_refused"
				return human
			}
			resp.Body = io.NopCloser(&unended{iotest.OneByteReader(strings.NewReader(tt.said)), func() {
				if got.Len() > 0 && !tt.passes && !isHuman() {
					t.Errorf("the client sees %q", got.String())
				}
			}})
			check.Must(t, c.Begin(resp))
			if tt.passes && (resp.ContentLength >= 0 || resp.Header.Get("Content-Length") != "") {
				t.Error("the client can count to its end")
			}
			_, err := io.Copy(&got, resp.Body)
			check.Must(t, err)
			if got.String() != tt.said {
				t.Errorf("the client has got %q", got.String())
			}
			if !isHuman() {
				t.Error("no human is noted")
			}
		})
	}
}

// TestHumanOfOneClient has a server without sessions answer a client's broken call by [byURL], once another client of
// the agent has sent a request with the same id, or has got a result by it.
func TestHumanOfOneClient(t *testing.T) {
	server := mcp.Peer{Server: at.Server}
	const result = `data: {"jsonrpc":"2.0","id":7,"result":{}}` + "\n\n"
	call := func(p play, tool, said string) {
		w := begin(p, new(mcp.Memory), "tools/call", 7, tool)
		w.Memory, w.Peer = p.Memory, server
		var err error
		w.Flight, err = p.Begin(w.Sent, server, false)
		check.Must(t, err)
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
		_, _ = io.WriteString(a, said)
		a.End(io.EOF)
		p.End(w.Flight, a.Result(), true)
	}
	for name, another := range map[string]func(p play){
		"request": func(p play) { call(p, "list_issues", result) },
		"result":  func(p play) { resume(p.Memory, server, "", result) },
	} {
		p := play{t, new(mcp.Memory)}
		call(p, "get_issue", "") // broken
		another(p)
		resume(p.Memory, server, "", `data: {"jsonrpc":"2.0","id":7,"error":{"code":-32042,"message":"m"}}`+"\n\n")
		if v, err := judgeCall(t, rules(""), p.Memory); !v.Human && check.CodeOf(err) != "mcp_answer_refused" {
			t.Errorf("after another client's %s: %+v, %v", name, v, err)
		}
	}
}

// TestResumedByOneClient has a server without sessions give the calls of two clients one id and one event. The one that
// resumes its answer has its result, and the other one none.
func TestResumedByOneClient(t *testing.T) {
	p, server, got := play{t, new(mcp.Memory)}, mcp.Peer{Server: at.Server}, make(map[string]mcp.Result)
	tools := []string{"create_issue", "get_issue"}
	var calls []mcp.Watch
	for _, tool := range tools {
		w := begin(p, new(mcp.Memory), "tools/call", 7, tool)
		w.Memory, w.Peer = p.Memory, server
		var err error
		w.Flight, err = p.Begin(w.Sent, server, tool == "create_issue")
		check.Must(t, err)
		calls = append(calls, w)
	}
	for i, w := range calls {
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
		_, _ = io.WriteString(a, "id: e1\ndata: \n\n")
		a.End(errors.New("broken"))
		p.Keep(a, 1<<40, func(r mcp.Result) { got[tools[i]] = r })
		p.End(w.Flight, a.Result(), true)
	}
	resume(p.Memory, server, "e1", `data: {"jsonrpc":"2.0","id":7,"result":{}}`+"\n\n")
	for _, tool := range tools {
		if got[tool] != mcp.ResultUnseen {
			t.Errorf("the result of %s is %q", tool, got[tool])
		}
	}
}

// TestManyCallsAnsweredElsewhere makes more calls over the old transport than are kept one by one. No human is noted
// until the server names one, by any call's id.
func TestManyCallsAnsweredElsewhere(t *testing.T) {
	for name, late := range map[string]bool{"before the request has ended": false, "after": true} {
		t.Run(name, func(t *testing.T) { manyCallsAnsweredElsewhere(t, late) })
	}
}

func manyCallsAnsweredElsewhere(t *testing.T, late bool) {
	t.Helper()
	p, messages := play{t, new(mcp.Memory)}, mcp.Peer{Server: "https://api.example.com/messages", Query: "q"}
	w := watch(nil, p.Memory)
	w.Peer = mcp.Peer{Server: "https://api.example.com/sse"}
	answers := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
	for id := range 700 {
		w := begin(p, new(mcp.Memory), "tools/call", id, "get_issue")
		w.Memory, w.Peer = p.Memory, messages
		var err error
		w.Flight, err = p.Begin(w.Sent, messages, false)
		check.Must(t, err)
		a := mcp.NewAnswer(w, http.StatusAccepted, http.Header{})
		answer := func() { say(answers, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)) }
		if !late {
			answer()
		}
		a.End(io.EOF)
		p.End(w.Flight, a.Result(), true)
		if late {
			answer()
		}
	}
	if v, err := judgeCall(t, rules(""), p.Memory); err != nil || v.Human {
		t.Errorf("%+v, %v", v, err)
	}
	say(answers, `{"jsonrpc":"2.0","id":298,"error":{"code":-32042,"message":"m"}}`)
	if v, err := judgeCall(t, rules(""), p.Memory); !v.Human && check.CodeOf(err) != "mcp_answer_refused" {
		t.Errorf("after -32042: %+v, %v", v, err)
	}
}
