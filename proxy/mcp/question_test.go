package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

const (
	elicits = `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?"}}`
	pings   = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	lists   = `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`
	samples = `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`

	human    = `{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"name":"what I want"}}}`
	failure  = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"what I want"}}`
	cannot   = `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`
	empty    = `{"jsonrpc":"2.0","id":7,"result":{}}`
	byModel  = `{"jsonrpc":"2.0","id":7,"result":{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}}`
	unasked  = "mcp_answer_unasked"
	twice    = `{"x":1,"x":1,`
	asEvents = "text/event-stream"
)

// listen reads a stream that the client opens.
func listen(memory *mcp.Memory, from mcp.Peer, header http.Header, text string) error {
	w := watch(nil, memory)
	w.Peer = from
	a := mcp.NewAnswer(w, http.StatusOK, header)
	_, err := io.WriteString(a, text)
	a.End(io.EOF)
	return err
}

// TestQuestions judges a client's answer after messages that the client and the mediator may read differently. It
// passes only as the answer to the one open question. Anything else is refused, and the session makes no more posts.
func TestQuestions(t *testing.T) {
	events := http.Header{"Content-Type": {asEvents}}
	event := func(messages ...string) (out string) {
		for _, m := range messages {
			out += "data: " + m + "\n\n"
		}
		return out
	}
	says := func(text string) func(*testing.T, *mcp.Memory) {
		return func(_ *testing.T, memory *mcp.Memory) { _ = listen(memory, peer, events, text) }
	}
	with := func(header http.Header, text string) func(*testing.T, *mcp.Memory) {
		return func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, peer, header, text)
			_ = listen(memory, peer, events, event(pings))
		}
	}
	const notified = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	answers := func(sent string, status int, header http.Header, text string, end error) func(*testing.T, *mcp.Memory) {
		return func(t *testing.T, memory *mcp.Memory) {
			w := watch(nil, memory)
			if sent != "" {
				w.Sent = read(t, sent)
			}
			a := mcp.NewAnswer(w, status, header)
			_, _ = io.WriteString(a, text)
			a.End(end)
			_ = listen(memory, peer, events, event(pings))
		}
	}
	for name, tt := range map[string]struct {
		seen    func(*testing.T, *mcp.Memory)
		allowed string // of rules
		answer  string
		want    string
		tainted bool
	}{
		"a ping": {says(event(pings)), "", empty, "pass reads", false},
		"a ping, with metadata": {says(event(pings)), "",
			strings.Replace(empty, `{}`, `{"_meta":{},"resultType":"complete"}`, 1), "pass reads", false},
		"a ping that the client cannot answer":   {says(event(pings)), "", cannot, "pass reads", false},
		"a ping answered by a human":             {says(event(pings)), "", human, unasked, true},
		"a ping answered by a human, with leave": {says(event(pings)), "elicitation", human, unasked, true},
		"a ping answered by a human's error":     {says(event(pings)), "elicitation", failure, unasked, true},
		"a ping answered by a model":             {says(event(pings)), "sampling", byModel, unasked, true},
		"roots answered by a human":              {says(event(lists)), "elicitation", human, unasked, true},
		"roots answered by a human's error":      {says(event(lists)), "elicitation", failure, unasked, true},
		"roots, and what a human has said": {says(event(lists)), "",
			strings.Replace(human, `"action"`, `"roots":[],"action"`, 1), unasked, true},
		"roots that are no list": {says(event(lists)), "",
			strings.Replace(empty, `{}`, `{"roots":"a"}`, 1), unasked, true},
		"no roots":                     {says(event(lists)), "", cannot, "pass reads", false},
		"a sample answered by a human": {says(event(samples)), "sampling", human, unasked, true},
		"a sample answered by a human, as a model": {says(event(samples)), "sampling elicitation",
			strings.Replace(byModel, `"role"`, `"action":"accept","role"`, 1), unasked, true},
		"a sample that a human rejected": {says(event(samples)), "sampling",
			strings.Replace(failure, "-32603", "-1", 1), "pass reads human", true},
		"a sample that failed":                      {says(event(samples)), "sampling", failure, "pass reads", false},
		"an elicitation answered by a model":        {says(event(elicits)), "elicitation", byModel, unasked, true},
		"an elicitation":                            {says(event(elicits)), "elicitation", human, "pass reads human", true},
		"an elicitation that failed":                {says(event(elicits)), "elicitation", failure, "pass reads human", true},
		"an elicitation without leave":              {says(event(elicits)), "", human, "mcp_answer_refused", false},
		"an elicitation without leave, as a ping's": {says(event(elicits)), "", empty, unasked, true},

		"nothing": {says(""), "elicitation", human, unasked, true},
		"a result that is a text": {says(event(pings)), "", strings.Replace(empty, `{}`, `"a"`, 1), unasked,
			true},
		"behind a ping":                      {says(event(pings, elicits)), "elicitation", human, unasked, true},
		"before a ping":                      {says(event(elicits, pings)), "elicitation", human, unasked, true},
		"behind a ping, and neither answers": {says(event(elicits, pings)), "elicitation", cannot, unasked, true},
		"behind a ping of the same text": {says(event(strings.Replace(elicits, "7", `"7"`, 1), pings)), "elicitation",
			cannot, unasked, true},
		"behind a ping of the same fraction": {says(event(strings.Replace(elicits, "7", `7.5`, 1), pings)), "elicitation",
			cannot, unasked, true},
		"behind a ping, after another fraction": {
			says(event(strings.Replace(elicits, "7", "6.5", 1), strings.Replace(elicits, "7", "7.5", 1), pings)), "", cannot,
			unasked, true},
		"by another spelling of its id": {says(event(strings.Replace(elicits, "7", "7.0", 1))), "elicitation", human,
			"pass reads human", true},
		"behind a ping of another spelling": {says(event(strings.Replace(elicits, "7", "7.0", 1), pings)), "elicitation",
			cannot, unasked, true},
		"behind another spelling of a ping": {says(event(strings.Replace(pings, "7", "70e-1", 1), elicits)),
			"elicitation", cannot, unasked, true},
		"the same one on a resumed stream": {says(event(elicits, elicits)), "elicitation", human, "pass reads human",
			true},

		"in an event of another type": {says("event: x\ndata: " + elicits + "\n\n"), "elicitation", human,
			unasked, true},
		"a ping in an event of another type": {says("event: x\ndata: " + pings + "\n\n"), "", empty, unasked, true},
		"a ping that some take for a message": {says("event: message \ndata: " + pings + "\n\n" + event(pings)), "",
			empty, unasked, true},
		"a ping in an event typed as a message": {says("event: message\ndata: " + pings + "\n\n"), "", empty,
			"pass reads", false},
		"a ping in an event whose type is taken back": {says("event: x\nevent:\ndata: " + pings + "\n\n"), "", empty,
			"pass reads", false},
		"in an event that lacks its end": {says(event(pings) + "data: " + elicits), "elicitation", cannot,
			unasked, true},
		"half an event": {says(event(pings) + "data: " + elicits[:40]), "elicitation", empty,
			"pass reads", false},
		"in half a line of an event": {says(event(pings) + "da"), "", empty, "pass reads", false},
		"in a line that is none of an event": {says("data:\r" + elicits + "\n\n" + event(pings)), "elicitation",
			cannot, unasked, true},
		"behind a mark that some readers strip": {says("\u00ef\u00bb\u00bfdata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked, true},

		"behind a CR in a comment": {says(":\revent: x\ndata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked, true},
		"behind a byte order mark": {says("\ufeffevent: x\ndata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked, true},
		"between lines of a notification": {
			says("data: {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":\nid:\u2028\ndata: " + elicits +
				"\nid:\u2028\ndata: }\n\n" + event(pings)), "elicitation", cannot, unasked, true},
		"in an event of a type taken back": {
			says("event: x\u2028event: message\ndata: " + elicits + "\n\n" + event(pings)), "elicitation", cannot, unasked,
			true},
		"in the last line, which has no end": {says(event(pings) + "data: \u2028data: " + elicits + "\u2028\u2028"),
			"elicitation", cannot, unasked, true},
		"in an event of another type, behind": {says("event: x\ndata: " + elicits + "\n\n" + event(pings)), "elicitation",
			cannot, unasked, true},
		"in an event of a type that cannot be": {says("event: x\ndata: " + twice + elicits[1:] + "\n\n" + event(pings)),
			"elicitation", cannot, unasked, true},
		"signs of life in events of other types": {
			says(
				"event: ping\ndata: {}\n\nevent: ping\ndata: 2026-11-23 21:00:00\n\nevent: time\ndata: {\"at\":1}\n\n: " +
					"ping\r\n\r\n" + event(pings)), "", empty, "pass reads", false},
		"in another encoding of characters": {
			with(http.Header{"Content-Type": {asEvents + "; charset=utf-7"}}, "data: +AHs-\n\n"), "", empty, unasked, true},
		"in an encoding that is not clear": {
			with(http.Header{"Content-Type": {asEvents + "; charset=utf-7; ="}}, "data: +AHs-\n\n"), "", empty, unasked, true},
		"a ping in UTF-8, as its type says": {with(http.Header{"Content-Type": {asEvents + `; charset="UTF-8"`}}, ""),
			"", empty, "pass reads", false},

		"with a member twice": {says(event(twice+elicits[1:], pings)), "", empty, unasked, true},
		"with text that is no text": {says(event(strings.Replace(elicits, "?", "\xff", 1), pings)), "", empty, unasked,
			true},
		"nested deep": {
			says(event(strings.Replace(elicits, `"?"`, strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 1), pings)), "",
			empty, unasked, true},
		"in a batch": {says(event("["+elicits+"]", pings)), "", empty, unasked, true},
		"in a message that is too large": {says(event(strings.Replace(elicits, "?", strings.Repeat("?", 5<<20), 1), pings)),
			"", empty, unasked, true},
		"as a request and a response": {
			says(event(strings.Replace(elicits, `"params"`, `"result":{},"params"`, 1), pings)), "", empty, unasked, true},
		"with members in another case": {says(event(strings.Replace(elicits, `"method"`, `"Method"`, 1), pings)), "", empty,
			unasked, true},
		"with a number that is no id": {says(event(strings.Replace(elicits, "7", "1e300", 1), pings)), "", empty, unasked,
			true},
		"with a list as its id": {says(event(strings.Replace(elicits, "7", "[7]", 1), pings)), "", empty, unasked,
			true},
		"in words": {says(event("hello", pings)), "", empty, "pass reads", false},
		"compressed": {with(http.Header{"Content-Type": {asEvents}, "Content-Encoding": {"gzip"}}, "x"),
			"", empty, unasked, true},
		"in a stream of another type": {with(http.Header{"Content-Type": {"text/plain"}}, event(elicits)), "", empty,
			unasked, true},
		"in a stream of two types": {with(http.Header{"Content-Type": {asEvents, plain}}, ""), "", empty, unasked,
			true},
		"in a stream that says JSON": {with(http.Header{"Content-Type": {"application/json"}}, event(elicits)), "", empty,
			unasked, true},

		"behind many others": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, peer, events, event(elicits))
			for i := range 100 {
				_ = listen(memory, peer, events, event(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i)))
			}
			_ = listen(memory, peer, events, event(pings))
		}, "elicitation", cannot, unasked, true},
		"in an answer to another request, which breaks": {
			answers(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusOK,
				http.Header{"Content-Type": {plain}, "Content-Length": {"4000"}}, elicits, io.ErrUnexpectedEOF),
			"", empty, unasked, true},
		"in the answer to a notification": {
			answers(notified, http.StatusOK, events, event(elicits), io.EOF), "", empty, unasked, true},
		"in the answer to an answer": {
			answers(empty, http.StatusAccepted, events, event(elicits), io.EOF), "", empty, unasked, true},
		"in the answer to a notification, of a type that is only like JSON": {
			answers(notified, http.StatusOK, http.Header{"Content-Type": {plain + "x"}}, elicits, io.EOF),
			"", empty, unasked, true},
		"words, in the answer to a notification": {
			answers(notified, http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, "Accepted", io.EOF),
			"", empty, "pass reads", false},
		"a stream that a server does not have": {
			answers("", http.StatusMethodNotAllowed, http.Header{"Content-Type": {plain}},
				`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}`, io.EOF),
			"", empty, "pass reads", false},
		"nothing, in the answer to a notification": {
			answers(notified, http.StatusOK, http.Header{"Content-Type": {plain}}, "", io.EOF),
			"", empty, "pass reads", false},
		"at another address, where the server has sent the client": {func(t *testing.T, memory *mcp.Memory) {
			_ = listen(memory, mcp.Peer{Server: peer.Server + "2"}, events, event(elicits))
			answers(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusTemporaryRedirect, http.Header{}, "", io.EOF)(
				t, memory)
		}, "elicitation", empty, unasked, true},
		"in another session of the server": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, at, events, event(elicits))
		}, "elicitation", human, unasked, true},
		"of another server": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, mcp.Peer{Server: "https://other/mcp"}, events, event(elicits))
			_ = listen(memory, peer, events, event(pings))
		}, "", empty, "pass reads", false},
		"unread, of another server": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, mcp.Peer{Server: "https://other/mcp"}, events, event(twice+elicits[1:]))
			_ = listen(memory, peer, events, event(pings))
		}, "", empty, "pass reads", false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			tt.seen(t, memory)
			if got := judge(entry{"body": {tt.answer}, "rules": {tt.allowed}}, memory); got != tt.want ||
				memory.Prompted() != tt.tainted {
				t.Errorf("got %s, tainted %t; want %s, %t", got, memory.Prompted(), tt.want, tt.tainted)
			}
			if strings.HasPrefix(tt.want, "pass") {
				if got := judge(entry{"body": {tt.answer}, "rules": {tt.allowed}}, memory); got != unasked || !memory.Prompted() {
					t.Errorf("the same answer once more: %s", got)
				}
			}
		})
	}
}

// TestInputs does the same for questions on which a request waits (2026-07-28).
func TestInputs(t *testing.T) {
	header := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: get_issue"}
	asks := func(inputs, state string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{` + inputs +
			`},"requestState":"` + state + `"}}`
	}
	const (
		elicitK, rootsK, sampleK = `"k":{"method":"elicitation/create","params":{}}`, `"k":{"method":"roots/list"}`,
			`"k":{"method":"sampling/createMessage","params":{}}`
		accept, roots, sampled = `{"action":"accept","content":{"a":"b"}}`, `{"roots":[]}`,
			`{"role":"assistant","content":[],"model":"m"}`
	)
	for name, tt := range map[string]struct {
		seen    []string // answers to the call
		allowed string
		inputs  string
		want    string
		tainted bool
	}{
		"roots":                      {[]string{asks(rootsK, "s")}, "", `"k":` + roots, "pass reads", false},
		"roots answered by a human":  {[]string{asks(rootsK, "s")}, "elicitation", `"k":` + accept, unasked, true},
		"roots answered by a model":  {[]string{asks(rootsK, "s")}, "sampling", `"k":` + sampled, unasked, true},
		"roots answered with a text": {[]string{asks(rootsK, "s")}, "", `"k":"a"`, unasked, true},
		"a sample": {[]string{asks(sampleK, "s")}, "sampling", `"k":` + sampled, "pass reads",
			false},
		"a sample without leave": {[]string{asks(sampleK, "s")}, "", `"k":` + sampled, "mcp_answer_refused",
			false},
		"an elicitation": {[]string{asks(elicitK, "s")}, "elicitation", `"k":` + accept,
			"pass reads human", true},
		"an elicitation without leave": {[]string{asks(elicitK, "s")}, "", `"k":` + accept, "mcp_answer_refused", false},
		"two questions under one key": {[]string{asks(elicitK, "s"), asks(rootsK, "s")}, "elicitation", `"k":` + accept,
			unasked, true},
		"two questions, the other way": {[]string{asks(rootsK, "s"), asks(elicitK, "s")}, "elicitation", `"k":` + roots,
			unasked, true},
		"one question twice": {[]string{asks(rootsK, "s"), asks(rootsK, "s")}, "", `"k":` + roots,
			"pass reads", false},
		"another key": {[]string{asks(rootsK, "s")}, "", `"l":` + roots, unasked, true},
		"one of two that were asked": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")}, "",
			`"k":` + roots, "pass reads", false},
		"both of two, one by a human": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")},
			"elicitation", `"k":` + roots + `,"l":` + accept, "pass reads human", true},
		"the wrong way round": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")},
			"elicitation", `"l":` + roots + `,"k":` + accept, unasked, true},
		"behind one that could not be read": {[]string{twice + asks(elicitK, "s")[1:], asks(rootsK, "s")}, "", `"k":` + roots,
			unasked, true},
		"a method that no rule names": {[]string{asks(`"k":{"method":"tasks/result"}`, "s")}, "", `"k":` + accept,
			"mcp_method_refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			for _, answer := range tt.seen {
				w := watch(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue"}}`), memory)
				a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {plain}})
				_, _ = io.WriteString(a, answer)
				a.End(io.EOF)
			}
			body :=
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_issue",` +
					`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"inputResponses":{` +
					tt.inputs + `},"requestState":"s"}}`
			for range len(tt.seen) {
				if got := judge(entry{"body": {body}, "header": header, "rules": {tt.allowed}}, memory); got != tt.want ||
					memory.Prompted() != tt.tainted {
					t.Errorf("got %s, tainted %t; want %s, %t", got, memory.Prompted(), tt.want, tt.tainted)
				}
			}
			if got := judge(entry{"body": {body}, "header": header, "rules": {tt.allowed}}, memory); strings.HasPrefix(tt.want,
				"pass") && got != unasked {
				t.Errorf("the same answer once more: %s", got)
			}
		})
	}
}

// TestTooManyQuestions checks that one question too many is cut off, by each way of asking, and that other servers may
// go on.
func TestTooManyQuestions(t *testing.T) {
	memory, events := new(mcp.Memory), http.Header{"Content-Type": {asEvents}}
	asks := func(from string, i int) error {
		return listen(memory, mcp.Peer{Server: from}, events,
			fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n\n", i))
	}
	n := 0
	for asks("a", n) == nil && n < 10_000 {
		n++
	}
	if n == 0 || n == 10_000 {
		t.Fatalf("a server may ask %d questions", n)
	}
	check.WantCode(t, asks("a", n), "mcp_answer_unread")
	w := watch(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue"}}`), memory)
	w.Peer.Server = "a"
	_, err := io.WriteString(mcp.NewAnswer(w, http.StatusOK, events),
		`data: {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`+"\n\n")
	check.WantCode(t, err, "mcp_answer_unread")
	if err := asks("b", 1); err != nil {
		t.Errorf("another server: %v", err)
	}
	for i := range 10_000 {
		if err = asks(fmt.Sprint(i), 1); err != nil {
			break
		}
	}
	check.WantCode(t, err, "mcp_answer_unread")
	if got := judge(entry{"body": {`{"jsonrpc":"2.0","id":1,"result":{}}`}}, memory); got != unasked {
		t.Errorf("an answer to a server that was not asked for: %s", got)
	}
}

// TestHumanElsewhere checks that the call repeated after byURL counts as a human's answer, and no other call does.
func TestHumanElsewhere(t *testing.T) {
	const (
		refuses  = `{"jsonrpc":"2.0","id":7,"error":{"code":-32042,"message":"","data":{"elicitations":[{"mode":"url"}]}}}`
		other    = `{"jsonrpc":"2.0","id":7,"error":{"code":-32043,"message":""}}`
		refused  = "mcp_answer_refused"
		asHuman  = "pass reads human"
		answered = "data: " + empty + "\n\n"
	)
	spelled := func(old, now string) string { return strings.Replace(refuses, old, now, 1) }
	event := func(text string) string { return "data: " + text + "\n\n" }
	for name, tt := range map[string]struct {
		status        int
		kind, said    string
		tool, allowed string
		want          string
	}{
		"repeated":                     {200, plain, refuses, "get_issue", "elicitation", asHuman},
		"repeated without leave":       {200, plain, refuses, "get_issue", "", refused},
		"refused with a status":        {403, plain, refuses, "get_issue", "elicitation", asHuman},
		"in a stream":                  {200, asEvents, event(refuses), "get_issue", "elicitation", asHuman},
		"after another answer":         {200, asEvents, answered + event(refuses), "get_issue", "", refused},
		"the code spelled otherwise":   {200, plain, spelled("-32042", "-32.042e3"), "get_issue", "", refused},
		"its id spelled otherwise":     {200, plain, spelled("7", "7.0"), "get_issue", "", refused},
		"another tool":                 {200, plain, refuses, "create_issue", "", "pass issues"},
		"refused for another reason":   {200, plain, other, "get_issue", "", "pass reads"},
		"a refusal of another request": {200, asEvents, event(spelled("7", "8")), "get_issue", "", "pass reads"},
		"the code as a text":           {200, plain, spelled("-32042", `"-32042"`), "get_issue", "", refused},
		"in an event without its end":  {200, asEvents, "data: " + refuses, "get_issue", "", refused},
		"accepted, and then refused on another connection": {202, "", event(refuses), "get_issue", "elicitation",
			asHuman},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			call := read(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_issue"}}`)
			flight, err := memory.Begin(call, peer, false)
			check.Must(t, err)
			w := watch(call, memory)
			w.Peer, w.Flight = peer, flight
			a := mcp.NewAnswer(w, tt.status, http.Header{"Content-Type": {tt.kind}})
			_, _ = io.WriteString(a, tt.said)
			a.End(io.EOF)
			memory.End(flight, a.Result(), true)
			if tt.status == http.StatusAccepted {
				_ = listen(memory, peer, http.Header{"Content-Type": {asEvents}}, tt.said)
			}
			again := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"` + tt.tool + `"}}`
			got := judge(entry{"body": {again}, "rules": {tt.allowed}}, memory)
			if got != tt.want || memory.Prompted() != (tt.want == asHuman) {
				t.Errorf("got %s, human %t", got, memory.Prompted())
			}
		})
	}
}
