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

func listen(memory *mcp.Memory, from mcp.Peer, header http.Header, text string) error {
	w := watch(nil, memory)
	w.Peer = from
	a := mcp.NewAnswer(w, http.StatusOK, header)
	_, err := io.WriteString(a, text)
	a.End(io.EOF)
	return err
}

func taints(verdict string) bool { return verdict == unasked || strings.HasSuffix(verdict, " human") }

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
	type seen = func(*testing.T, *mcp.Memory)
	raw := func(text string) seen {
		return func(_ *testing.T, memory *mcp.Memory) { _ = listen(memory, peer, events, text) }
	}
	says := func(messages ...string) seen { return raw(event(messages...)) }
	// of is a message with another id.
	of := func(id, message string) string { return strings.Replace(message, "7", id, 1) }
	with := func(header http.Header, text string) seen {
		return func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, peer, header, text)
			_ = listen(memory, peer, events, event(pings))
		}
	}
	const notified = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	answers := func(sent string, status int, header http.Header, text string, end error) seen {
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
		seen    seen
		allowed string // of rules
		answer  string
		want    string
	}{
		"a ping": {says(pings), "", empty, "pass reads"},
		"a ping, with metadata": {says(pings), "",
			strings.Replace(empty, `{}`, `{"_meta":{},"resultType":"complete"}`, 1), "pass reads"},
		"a ping that the client cannot answer":   {says(pings), "", cannot, "pass reads"},
		"a ping answered by a human":             {says(pings), "", human, unasked},
		"a ping answered by a human, with leave": {says(pings), "elicitation", human, unasked},
		"a ping answered by a human's error":     {says(pings), "elicitation", failure, unasked},
		"a ping answered by a model":             {says(pings), "sampling", byModel, unasked},
		"roots answered by a human":              {says(lists), "elicitation", human, unasked},
		"roots answered by a human's error":      {says(lists), "elicitation", failure, unasked},
		"roots, and what a human has said": {says(lists), "",
			strings.Replace(human, `"action"`, `"roots":[],"action"`, 1), unasked},
		"roots that are no list":       {says(lists), "", strings.Replace(empty, `{}`, `{"roots":"a"}`, 1), unasked},
		"no roots":                     {says(lists), "", cannot, "pass reads"},
		"a sample answered by a human": {says(samples), "sampling", human, unasked},
		"a sample answered by a human, as a model": {says(samples), "sampling elicitation",
			strings.Replace(byModel, `"role"`, `"action":"accept","role"`, 1), unasked},
		"a sample that a human rejected": {says(samples), "sampling",
			strings.Replace(failure, "-32603", "-1", 1), "pass reads human"},
		"a sample that failed":                      {says(samples), "sampling", failure, "pass reads"},
		"an elicitation answered by a model":        {says(elicits), "elicitation", byModel, unasked},
		"an elicitation":                            {says(elicits), "elicitation", human, "pass reads human"},
		"an elicitation that failed":                {says(elicits), "elicitation", failure, "pass reads human"},
		"an elicitation without leave":              {says(elicits), "", human, "mcp_answer_refused"},
		"an elicitation without leave, as a ping's": {says(elicits), "", empty, unasked},

		"nothing":                            {raw(""), "elicitation", human, unasked},
		"a result that is a text":            {says(pings), "", strings.Replace(empty, `{}`, `"a"`, 1), unasked},
		"behind a ping":                      {says(pings, elicits), "elicitation", human, unasked},
		"before a ping":                      {says(elicits, pings), "elicitation", human, unasked},
		"behind a ping, and neither answers": {says(elicits, pings), "elicitation", cannot, unasked},
		"behind a ping of the same text":     {says(of(`"7"`, elicits), pings), "elicitation", cannot, unasked},
		"behind a ping of the same fraction": {says(of(`7.5`, elicits), pings), "elicitation", cannot, unasked},
		"behind a ping, after another fraction": {says(of("6.5", elicits), of("7.5", elicits), pings), "", cannot,
			unasked},
		"by another spelling of its id":     {says(of("7.0", elicits)), "elicitation", human, "pass reads human"},
		"behind a ping of another spelling": {says(of("7.0", elicits), pings), "elicitation", cannot, unasked},
		"behind another spelling of a ping": {says(of("70e-1", pings), elicits), "elicitation", cannot, unasked},
		"the same one on a resumed stream":  {says(elicits, elicits), "elicitation", human, "pass reads human"},

		"in an event of another type": {raw("event: x\ndata: " + elicits + "\n\n"), "elicitation", human,
			unasked},
		"a ping in an event of another type": {raw("event: x\ndata: " + pings + "\n\n"), "", empty, unasked},
		"a ping that some take for a message": {raw("event: message \ndata: " + pings + "\n\n" + event(pings)), "",
			empty, unasked},
		"a ping in an event typed as a message": {raw("event: message\ndata: " + pings + "\n\n"), "", empty,
			"pass reads"},
		"a ping in an event whose type is taken back": {raw("event: x\nevent:\ndata: " + pings + "\n\n"), "", empty,
			"pass reads"},
		"in an event that lacks its end": {raw(event(pings) + "data: " + elicits), "elicitation", cannot, unasked},
		"half an event": {raw(event(pings) + "data: " + elicits[:40]), "elicitation", empty,
			"pass reads"},
		"in half a line of an event": {raw(event(pings) + "da"), "", empty, "pass reads"},
		"in a line that is none of an event": {raw("data:\r" + elicits + "\n\n" + event(pings)), "elicitation",
			cannot, unasked},
		"behind a mark that some readers strip": {raw("\u00ef\u00bb\u00bfdata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked},

		"behind a CR in a comment": {raw(":\revent: x\ndata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked},
		"behind a byte order mark": {raw("\ufeffevent: x\ndata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked},
		"between lines of a notification": {
			raw("data: {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":\nid:\u2028\ndata: " + elicits +
				"\nid:\u2028\ndata: }\n\n" + event(pings)), "elicitation", cannot, unasked},
		"in an event of a type taken back": {
			raw("event: x\u2028event: message\ndata: " + elicits + "\n\n" + event(pings)), "elicitation", cannot,
			unasked},
		"in the last line, which has no end": {raw(event(pings) + "data: \u2028data: " + elicits + "\u2028\u2028"),
			"elicitation", cannot, unasked},
		"in an event of another type, behind": {raw("event: x\ndata: " + elicits + "\n\n" + event(pings)),
			"elicitation", cannot, unasked},
		"in an event of a type that cannot be": {raw("event: x\ndata: " + twice + elicits[1:] + "\n\n" + event(pings)),
			"elicitation", cannot, unasked},
		"signs of life in events of other types": {
			raw(
				"event: ping\ndata: {}\n\nevent: ping\ndata: 2026-11-23 " +
					"21:00:00\n\nevent: time\ndata: {\"at\":1}\n\n: " +
					"ping\r\n\r\n" + event(pings)), "", empty, "pass reads"},
		"in another encoding of characters": {
			with(http.Header{"Content-Type": {asEvents + "; charset=utf-7"}}, "data: +AHs-\n\n"), "", empty, unasked},
		"in an encoding that is itself encoded": {
			with(http.Header{"Content-Type": {asEvents + "; charset*=iso-8859-1''utf-7"}}, "data: +AHs-\n\n"), "",
			empty, unasked},
		"in an encoding that is not clear": {
			with(http.Header{"Content-Type": {asEvents + "; charset=utf-7; ="}}, "data: +AHs-\n\n"), "", empty,
			unasked},
		"a ping in UTF-8, as its type says": {with(http.Header{"Content-Type": {asEvents + `; charset="UTF-8"`}}, ""),
			"", empty, "pass reads"},

		"with a member twice":       {says(twice+elicits[1:], pings), "", empty, unasked},
		"with text that is no text": {says(strings.Replace(elicits, "?", "\xff", 1), pings), "", empty, unasked},
		"nested deep": {
			says(strings.Replace(elicits, `"?"`, strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 1), pings), "",
			empty, unasked},
		"in a batch": {says("["+elicits+"]", pings), "", empty, unasked},
		"in a message that is too large": {says(strings.Replace(elicits, "?", strings.Repeat("?", 5<<20), 1), pings),
			"", empty, unasked},
		"as a request and a response": {
			says(strings.Replace(elicits, `"params"`, `"result":{},"params"`, 1), pings), "", empty, unasked},
		"with members in another case": {says(strings.Replace(elicits, `"method"`, `"Method"`, 1), pings), "", empty,
			unasked},
		"with a number that is no id": {says(of("1e300", elicits), pings), "", empty, unasked},
		"with a list as its id":       {says(of("[7]", elicits), pings), "", empty, unasked},
		"in words":                    {says("hello", pings), "", empty, "pass reads"},
		"compressed": {with(http.Header{"Content-Type": {asEvents}, "Content-Encoding": {"gzip"}}, "x"),
			"", empty, unasked},
		"in a stream of another type": {with(http.Header{"Content-Type": {"text/plain"}}, event(elicits)), "", empty,
			unasked},
		"in a stream of two types": {with(http.Header{"Content-Type": {asEvents, plain}}, ""), "", empty, unasked},
		"in a stream that says JSON": {with(http.Header{"Content-Type": {"application/json"}}, event(elicits)), "",
			empty, unasked},

		"behind many others": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, peer, events, event(elicits))
			for i := range 100 {
				_ = listen(memory, peer, events, event(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i)))
			}
			_ = listen(memory, peer, events, event(pings))
		}, "elicitation", cannot, unasked},
		"in an answer to another request, which breaks": {answers(`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			http.StatusOK,
			http.Header{"Content-Type": {plain}, "Content-Length": {"4000"}}, elicits, io.ErrUnexpectedEOF),
			"", empty, unasked},
		"in the answer to a notification": {
			answers(notified, http.StatusOK, events, event(elicits), io.EOF), "", empty, unasked},
		"in the answer to an answer": {
			answers(empty, http.StatusAccepted, events, event(elicits), io.EOF), "", empty, unasked},
		"in the answer to a notification, of a type that is only like JSON": {
			answers(notified, http.StatusOK, http.Header{"Content-Type": {plain + "x"}}, elicits, io.EOF),
			"", empty, unasked},
		"words, in the answer to a notification": {
			answers(notified, http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, "Accepted", io.EOF),
			"", empty, "pass reads"},
		"a stream that a server does not have": {
			answers("", http.StatusMethodNotAllowed, http.Header{"Content-Type": {plain}},
				`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}`, io.EOF),
			"", empty, "pass reads"},
		"nothing, in the answer to a notification": {
			answers(notified, http.StatusOK, http.Header{"Content-Type": {plain}}, "", io.EOF),
			"", empty, "pass reads"},
		"at another address, where the server has sent the client": {func(t *testing.T, memory *mcp.Memory) {
			_ = listen(memory, mcp.Peer{Server: peer.Server + "2"}, events, event(elicits))
			answers(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusTemporaryRedirect, http.Header{}, "",
				io.EOF)(
				t, memory)
		}, "elicitation", empty, unasked},
		"in another session of the server": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, at, events, event(elicits))
		}, "elicitation", human, unasked},
		"of another server": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, mcp.Peer{Server: "https://other/mcp"}, events, event(elicits))
			_ = listen(memory, peer, events, event(pings))
		}, "", empty, "pass reads"},
		"unread, of another server": {func(_ *testing.T, memory *mcp.Memory) {
			_ = listen(memory, mcp.Peer{Server: "https://other/mcp"}, events, event(twice+elicits[1:]))
			_ = listen(memory, peer, events, event(pings))
		}, "", empty, "pass reads"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			tt.seen(t, memory)
			if got := judge(entry{"body": {tt.answer}, "rules": {tt.allowed}}, memory); got != tt.want ||
				memory.Prompted() != taints(tt.want) {
				t.Errorf("got %s, tainted %t; want %s, %t", got, memory.Prompted(), tt.want, taints(tt.want))
			}
			if strings.HasPrefix(tt.want, "pass") {
				if got := judge(entry{"body": {tt.answer}, "rules": {tt.allowed}}, memory); got != unasked ||
					!memory.Prompted() {
					t.Errorf("the same answer once more: %s", got)
				}
			}
		})
	}
}

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
	}{
		"roots":                      {[]string{asks(rootsK, "s")}, "", `"k":` + roots, "pass reads"},
		"roots answered by a human":  {[]string{asks(rootsK, "s")}, "elicitation", `"k":` + accept, unasked},
		"roots answered by a model":  {[]string{asks(rootsK, "s")}, "sampling", `"k":` + sampled, unasked},
		"roots answered with a text": {[]string{asks(rootsK, "s")}, "", `"k":"a"`, unasked},
		"a sample":                   {[]string{asks(sampleK, "s")}, "sampling", `"k":` + sampled, "pass reads"},
		"a sample without leave":     {[]string{asks(sampleK, "s")}, "", `"k":` + sampled, "mcp_answer_refused"},
		"an elicitation": {[]string{asks(elicitK, "s")}, "elicitation", `"k":` + accept,
			"pass reads human"},
		"an elicitation without leave": {[]string{asks(elicitK, "s")}, "", `"k":` + accept, "mcp_answer_refused"},
		"two questions under one key": {[]string{asks(elicitK, "s"), asks(rootsK, "s")}, "elicitation", `"k":` + accept,
			unasked},
		"two questions, the other way": {[]string{asks(rootsK, "s"), asks(elicitK, "s")}, "elicitation", `"k":` + roots,
			unasked},
		"one question twice": {[]string{asks(rootsK, "s"), asks(rootsK, "s")}, "", `"k":` + roots, "pass reads"},
		"another key":        {[]string{asks(rootsK, "s")}, "", `"l":` + roots, unasked},
		"one of two that were asked": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")}, "",
			`"k":` + roots, "pass reads"},
		"both of two, one by a human": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")},
			"elicitation", `"k":` + roots + `,"l":` + accept, "pass reads human"},
		"the wrong way round": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")},
			"elicitation", `"l":` + roots + `,"k":` + accept, unasked},
		"behind one that could not be read": {[]string{twice + asks(elicitK, "s")[1:], asks(rootsK, "s")}, "", `"k":` +
			roots, unasked},
		"a method that no rule names": {[]string{asks(`"k":{"method":"tasks/result"}`, "s")}, "", `"k":` + accept,
			"mcp_method_refused"},
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
					memory.Prompted() != taints(tt.want) {
					t.Errorf("got %s, tainted %t; want %s, %t", got, memory.Prompted(), tt.want, taints(tt.want))
				}
			}
			if got := judge(entry{"body": {body}, "header": header, "rules": {tt.allowed}}, memory); strings.HasPrefix(tt.want,
				"pass") && got != unasked {
				t.Errorf("the same answer once more: %s", got)
			}
		})
	}
}

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
		"a refusal of another request": {200, asEvents, event(spelled("7", "8")), "get_issue", "", refused},
		"the code as a text":           {200, plain, spelled("-32042", `"-32042"`), "get_issue", "", refused},
		"in an event without its end":  {200, asEvents, "data: " + refuses, "get_issue", "", refused},
		"accepted, and then refused on another connection": {202, "", event(refuses), "get_issue", "elicitation",
			asHuman},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			a, end := send(t, memory, "tools/call", 7, tt.kind, tt.status)
			_, _ = io.WriteString(a, tt.said)
			end()
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
