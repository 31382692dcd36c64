package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

const (
	elicits = `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?"}}`
	pings   = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	lists   = `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`
	samples = `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`

	human   = `{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"name":"what I want"}}}`
	failure = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"what I want"}}`
	cannot  = `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`
	empty   = `{"jsonrpc":"2.0","id":7,"result":{}}`
	byModel = `{"jsonrpc":"2.0","id":7,"result":{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}}`
	unasked = "mcp_answer_unasked"
	twice   = `{"x":1,"x":1,`
)

func taints(verdict string) bool { return verdict == unasked || strings.HasSuffix(verdict, " human") }

// TestQuestions judges a client's answer after what servers have said. It passes only as the answer to the one open
// question that the client has read. Anything else is refused, and the session makes no more posts.
func TestQuestions(t *testing.T) {
	with := func(old, now, message string) string { return strings.Replace(message, old, now, 1) }
	elsewhere := mcp.NewPeer("https://other.example.com", "/mcp", "", "")
	for name, tt := range map[string]struct {
		from    mcp.Peer // the server; peer if it is zero
		said    string
		allowed string // of rules
		answer  string
		want    string
	}{
		"a ping": {said: events(pings), answer: empty, want: "pass reads"},
		"a ping, with metadata": {said: events(pings),
			answer: with(`{}`, `{"_meta":{},"resultType":"complete"}`, empty), want: "pass reads"},
		"a ping that the client cannot answer": {said: events(pings), answer: cannot, want: "pass reads"},
		"a ping answered by a human":           {said: events(pings), answer: human, want: unasked},
		"a ping answered by a human, with leave": {said: events(pings), allowed: "elicitation", answer: human,
			want: unasked},
		"a ping answered by a human's error": {said: events(pings), allowed: "elicitation", answer: failure,
			want: unasked},
		"a ping answered by a model": {said: events(pings), allowed: "sampling", answer: byModel,
			want: unasked},
		"a ping answered with a text": {said: events(pings), answer: with(`{}`, `"a"`, empty),
			want: unasked},
		"roots answered by a human": {said: events(lists), allowed: "elicitation", answer: human,
			want: unasked},
		"roots answered by a human's error": {said: events(lists), allowed: "elicitation", answer: failure,
			want: unasked},
		"roots, and what a human has said": {said: events(lists), answer: with(`"action"`, `"roots":[],"action"`,
			human),
			want: unasked},
		"roots that are no list": {said: events(lists), answer: with(`{}`, `{"roots":"a"}`, empty),
			want: unasked},
		"no roots":                     {said: events(lists), answer: cannot, want: "pass reads"},
		"a sample answered by a human": {said: events(samples), allowed: "sampling", answer: human, want: unasked},
		"a sample answered by a human, as a model": {said: events(samples), allowed: "sampling elicitation",
			answer: with(`"role"`, `"action":"accept","role"`, byModel), want: unasked},
		"a sample that a human rejected": {said: events(samples), allowed: "sampling", answer: with("-32603", "-1",
			failure),
			want: "pass reads human"},
		"a sample that failed": {said: events(samples), allowed: "sampling", answer: failure, want: "pass reads"},
		"an elicitation answered by a model": {said: events(elicits), allowed: "elicitation", answer: byModel,
			want: unasked},
		"an elicitation": {said: events(elicits), allowed: "elicitation", answer: human, want: "pass reads human"},
		"an elicitation that failed": {said: events(elicits), allowed: "elicitation", answer: failure,
			want: "pass reads human"},
		"an elicitation without leave": {said: events(elicits), answer: human,
			want: "mcp_answer_refused"},
		"an elicitation without leave, as a ping's": {said: events(elicits), answer: empty, want: unasked},
		"nothing": {allowed: "elicitation", answer: human, want: unasked},
		"behind a ping": {said: events(pings, elicits), allowed: "elicitation", answer: human,
			want: unasked},
		"behind a ping, and neither answers": {said: events(elicits, pings), allowed: "elicitation",
			answer: cannot, want: unasked},
		"by another spelling of its id": {said: events(with("7", "7.0", elicits)), allowed: "elicitation",
			answer: human,
			want:   "pass reads human"},
		"by a text of its id": {said: events(with("7", `"7"`, elicits)), allowed: "elicitation", answer: human,
			want: unasked},
		"the same one twice": {said: events(elicits, elicits), allowed: "elicitation", answer: human,
			want: "pass reads human"},
		"in an event of another type": {said: "event: x\n" + events(elicits), allowed: "elicitation", answer: human,
			want: unasked},
		"in an event that lacks its end": {said: "data: " + elicits, allowed: "elicitation", answer: human,
			want: unasked},
		"in a message that is refused": {said: events(with("{", twice, elicits), elicits), allowed: "elicitation",
			answer: human, want: unasked},
		"in another session": {from: at, said: events(elicits), allowed: "elicitation", answer: human,
			want: unasked},
		"of another server": {from: elsewhere, said: events(elicits), allowed: "elicitation", answer: human,
			want: unasked},
		"of a method of nobody": {said: events(with("ping", "tasks/get", pings)), answer: empty,
			want: "mcp_method_refused"},
		"a ping behind comments": {said: ": a\r\n\r\nevent: ping\ndata: {}\n\n" + events(pings), answer: empty,
			want: "pass reads"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			if tt.from == (mcp.Peer{}) {
				tt.from = peer
			}
			listen(t, memory, tt.from, tt.said)
			e := entry{"body": {tt.answer}, "rules": {tt.allowed}}
			if got := judge(e, memory); got != tt.want || memory.Prompted() != taints(tt.want) {
				t.Errorf("got %s, tainted %t; want %s, %t", got, memory.Prompted(), tt.want, taints(tt.want))
			}
			if strings.HasPrefix(tt.want, "pass") {
				if got := judge(e, memory); got != unasked || !memory.Prompted() {
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
		"two questions under one key": {[]string{asks(elicitK, "s"), asks(rootsK, "s")}, "elicitation", `"k":` +
			accept,
			unasked},
		"two questions, the other way": {[]string{asks(rootsK, "s"), asks(elicitK, "s")}, "elicitation", `"k":` +
			roots,
			unasked},
		"one question twice": {[]string{asks(rootsK, "s"), asks(rootsK, "s")}, "", `"k":` + roots, "pass reads"},
		"another key":        {[]string{asks(rootsK, "s")}, "", `"l":` + roots, unasked},
		"one of two that were asked": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")}, "",
			`"k":` + roots, "pass reads"},
		"both of two, one by a human": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")},
			"elicitation", `"k":` + roots + `,"l":` + accept, "pass reads human"},
		"the wrong way round": {[]string{asks(rootsK+`,"l":{"method":"elicitation/create"}`, "s")},
			"elicitation", `"l":` + roots + `,"k":` + accept, unasked},
		"one that the client does not read": {[]string{twice + asks(rootsK, "s")[1:]}, "", `"k":` + roots, unasked},
		"inputs that are no object":         {[]string{asks(`"k":"roots/list"`, "s")}, "", `"k":` + roots, unasked},
		"a method that no rule names": {[]string{asks(`"k":{"method":"tasks/result"}`, "s")}, "", `"k":` + accept,
			"mcp_method_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			for _, said := range tt.seen {
				answer(watch(t, memory, peer, request(t, "tools/call", 1)), http.StatusOK, typed(plain), said)
			}
			body :=
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_issue",` +
					`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"inputResponses":{` +
					tt.inputs + `},"requestState":"s"}}`
			for range len(tt.seen) {
				if got := judge(entry{"body": {body}, "header": header, "rules": {tt.allowed}},
					memory); got != tt.want ||
					memory.Prompted() != taints(tt.want) {
					t.Errorf("got %s, tainted %t; want %s, %t", got, memory.Prompted(), tt.want, taints(tt.want))
				}
			}
			if got := judge(entry{"body": {body}, "header": header, "rules": {tt.allowed}},
				memory); strings.HasPrefix(tt.want,
				"pass") && got != unasked {
				t.Errorf("the same answer once more: %s", got)
			}
		})
	}
}

func TestTooManyQuestions(t *testing.T) {
	memory := new(mcp.Memory)
	asks := func(server string, i int) (refused string) {
		_, refused = listen(t, memory, mcp.Peer{Server: server},
			events(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)))
		return refused
	}
	n := 0
	for asks("https://a/", n) == "" && n < 10_000 {
		n++
	}
	if refused := asks("https://a/", n); n == 0 || refused != "mcp_answer_unread" {
		t.Fatalf("a server may ask %d questions: %s", n, refused)
	}
	for _, said := range []string{`"result":{"resultType":"input_required","requestState":"s"}`,
		`"error":{"code":-32042,"message":"m"}`} {
		w := watch(t, memory, mcp.Peer{Server: "https://a/"}, request(t, "tools/call", 1))
		passes, refused, result := answer(w, http.StatusOK, typed(stream),
			events(`{"jsonrpc":"2.0","id":1,`+said+`}`))
		if passes != "" || refused != "mcp_answer_unread" || result != mcp.ResultUnseen {
			t.Errorf("%s: the client reads %q, %s, %s", said, passes, refused, result)
		}
	}
	if refused := asks("https://b/", 1); refused != "" {
		t.Errorf("another server: %s", refused)
	}
	for i := 0; i < 10_000 && asks(fmt.Sprintf("https://c%d/", i), 1) == ""; i++ {
	}
	if refused := asks("https://d/", 1); refused != "mcp_answer_unread" {
		t.Errorf("all servers ask as much as they like: %q", refused)
	}
}

// TestHumanByURL has a server refuse a call until a human answers at a URL. The client then repeats the call.
func TestHumanByURL(t *testing.T) {
	const (
		refuses = `{"jsonrpc":"2.0","id":7,"error":{"code":-32042,"message":"","data":{"elicitations":[{"mode":"url"}]}}}`
		other   = `{"jsonrpc":"2.0","id":7,"error":{"code":-32043,"message":""}}`
		refused = "mcp_answer_refused"
		asHuman = "pass reads human"
	)
	spelled := func(old, now string) string { return strings.Replace(refuses, old, now, 1) }
	for name, tt := range map[string]struct {
		status        int
		kind, said    string
		tool, allowed string
		want          string
	}{
		"repeated":                   {200, plain, refuses, "get_issue", "elicitation", asHuman},
		"repeated without leave":     {200, plain, refuses, "get_issue", "", refused},
		"refused with a status":      {403, plain, refuses, "get_issue", "elicitation", asHuman},
		"with a status and a type":   {403, "text/plain", refuses, "get_issue", "elicitation", asHuman},
		"in a stream":                {200, stream, events(refuses), "get_issue", "elicitation", asHuman},
		"after another answer":       {200, stream, events(empty, refuses), "get_issue", "", "pass reads"},
		"its id spelled otherwise":   {200, plain, spelled("7", "7.0"), "get_issue", "", refused},
		"under no id":                {200, plain, spelled("7", "null"), "get_issue", "", refused},
		"another tool":               {200, plain, refuses, "create_issue", "", "pass issues"},
		"refused for another reason": {200, plain, other, "get_issue", "", "pass reads"},
		"the code as a text":         {200, plain, spelled("-32042", `"-32042"`), "get_issue", "", "pass reads"},
		"on another connection":      {202, "", events(refuses), "get_issue", "elicitation", asHuman},
	} {
		t.Run(name, func(t *testing.T) {
			memory := new(mcp.Memory)
			w := watch(t, memory, peer, request(t, "tools/call", 7))
			passes, _, _ := answer(w, tt.status, typed(tt.kind), tt.said)
			if tt.status == http.StatusAccepted {
				passes, _ = listen(t, memory, peer, tt.said)
			}
			if seen := strings.Contains(passes, "32042"); seen != (tt.want == asHuman || tt.want == refused ||
				tt.tool ==
					"create_issue") {
				t.Errorf("the client reads %s", passes)
			}
			again := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"` + tt.tool + `"}}`
			got := judge(entry{"body": {again}, "rules": {tt.allowed}}, memory)
			if got != tt.want || memory.Prompted() != (tt.want == asHuman) {
				t.Errorf("got %s, human %t", got, memory.Prompted())
			}
		})
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

func post(t *testing.T, memory *mcp.Memory) mcp.Watch {
	t.Helper()
	return watch(t, memory, at, read(t,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"create_issue"}}`))
}

// TestHumanBesidesPost: no human answers while a post has no result, here one that is resumed on another stream.
func TestHumanBesidesPost(t *testing.T) {
	for resumed, refused := range map[string]bool{`"result":{}`: false, `"error":{"code":1,"message":""}`: false,
		`"error":{}`: true, `"result":{"task":{"taskId":"t"}}`: true, `"result":{"resultType":"task"}`: true,
		`"result":{"resultType":"input_required","requestState":"s"}`: false} {
		memory := new(mcp.Memory)
		a := begin(t, post(t, memory), stream)
		check.WantCode(t, humanAnswers(t, memory), "mcp_answer_refused")
		_, _ = io.WriteString(a.to, "id: e1\ndata: \n\n:\n")
		kept := make(chan mcp.Result, 1)
		memory.Keep(a.Flight, time.Hour, func(r mcp.Result) { kept <- r })
		a.end(io.EOF)
		check.WantCode(t, humanAnswers(t, memory), "mcp_answer_refused")
		if memory.Prompted() {
			t.Error("an answer that was refused counts")
		}
		listen(t, memory, at, events(`{"jsonrpc":"2.0","id":7,`+resumed+"}"))
		if err := humanAnswers(t, memory); (err != nil) != refused || memory.Prompted() == refused {
			t.Errorf("after %s: %v, %t", resumed, err, memory.Prompted())
		}
	}
}

func TestHumanAfterPost(t *testing.T) {
	for said, refused := range map[string]bool{`"result":{}`: false, `"result":{"isError":true}`: false,
		`"error":{"code":1,"message":""}`: false, `"result":{"resultType":"task"}`: true, `"result":1`: true,
		"":                                 true,
		`"result":{"task":{"taskId":"t"}}`: true, `"result":{"requestState":"s"}`: false} {
		memory := new(mcp.Memory)
		a := begin(t, post(t, memory), stream)
		check.WantCode(t, humanAnswers(t, memory), "mcp_answer_refused")
		if said != "" {
			a.say(`{"jsonrpc":"2.0","id":7,` + said + `}`) // the client has its answer now, and may go on at once
		}
		if err := humanAnswers(t, memory); (err != nil) != refused {
			t.Errorf("%s: %v", said, err)
		}
		a.end(io.EOF)
		if err := humanAnswers(t, memory); (err != nil) != refused {
			t.Errorf("%s, at the end: %v", said, err)
		}
	}
	memory := new(mcp.Memory)
	c := mcp.Call{Watch: post(t, memory)}
	c.Done(false)
	check.Must(t, humanAnswers(t, memory))
}
