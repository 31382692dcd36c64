package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

// wantSameReading checks that Go's own reader, which ignores case and takes the last of two members, reads the same.
func wantSameReading(t *testing.T, body []byte, m *mcp.Message) {
	t.Helper()
	var lenient struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, URI string
			Arguments json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &lenient); err != nil {
		return // it reads none of it
	}
	if lenient.Method != m.Method {
		t.Errorf("the method %q is read as %q", m.Method, lenient.Method)
	}
	if m.IsCall() && (lenient.Params.Name != m.Name || string(lenient.Params.Arguments) != string(m.Arguments)) {
		t.Errorf("the call %q %s is read as %q %s", m.Name, m.Arguments, lenient.Params.Name,
			lenient.Params.Arguments)
	}
	if lenient.ID == nil != (m.ID == "") {
		t.Errorf("the id %s is read as %s", m.ID, lenient.ID)
	}
}

// TestWhatPasses: a client reads nothing but messages in the one form that all clients read.
func TestWhatPasses(t *testing.T) {
	const (
		result   = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
		failed   = `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
		unread   = "mcp_answer_unread"
	)
	swap := func(old, now string) string { return strings.Replace(result, old, now, 1) }
	failure := func(status int, says string) string {
		return fmt.Sprintf("the server answered %d %s: %q", status, http.StatusText(status), says)
	}
	for name, tt := range map[string]struct {
		kind, said, want string
		status           int
		refused          string
	}{
		"JSON": {plain, result, result, 200, ""},
		"JSON in another form": {plain,
			" { \"x\" : 1, \"id\" : 7.0 ,\n\"result\":{\"content\":[ ]},\"jsonrpc\":\"2.0\",\"error\":null} ",
			result, 200, ""},
		"half a pair of surrogates": {plain, swap("[]", `["\ud83d"]`), swap("[]", "[\"\ufffd\"]"), 200, ""},
		"line ends of some clients": {plain, swap("[]", "[\"\u2028\u0085\"]"), swap("[]", `["\u2028\u0085"]`),
			200, ""},
		"an id as a text":        {plain, swap("7", `"7"`), result, 200, ""},
		"an error without an id": {plain, strings.Replace(failed, "7", "null", 1), failed, 200, ""},
		"empty":                  {plain, "", "", 200, ""},
		"in UTF-8, as it says":   {plain + `; charset="UTF-8"; x=1`, result, result, 200, ""},
		"a member twice":         {plain, swap(`"id"`, `"id":7,"id"`), "", 200, unread},
		"two messages":           {plain, result + result, "", 200, unread},
		"a batch":                {plain, "[" + result + "]", "", 200, unread},
		"no JSON":                {plain, "hello", "", 200, unread},
		"half":                   {plain, result[:30], "", 200, unread},
		"too large":              {plain, swap("[]", `["`+strings.Repeat("x", 9<<20)+`"]`), "", 200, unread},
		"too deep": {plain, swap("[]", strings.Repeat("[", 200)+strings.Repeat("]", 200)), "",
			200, unread},
		"another version":         {plain, swap(`"2.0"`, `"1.0"`), "", 200, unread},
		"no version":              {plain, swap(`"jsonrpc":"2.0",`, ""), "", 200, unread},
		"the result of another":   {plain, swap("7", "8"), "", 200, unread},
		"a result without an id":  {plain, swap(`"id":7,`, ""), "", 200, unread},
		"a result that is a text": {plain, swap(`{"content":[]}`, `"a"`), "", 200, unread},
		"no result":               {plain, swap(`{"content":[]}`, `null`), "", 200, unread},
		"a result and an error": {plain, swap(`"result"`, `"error":{"code":1,"message":""},"result"`), "",
			200, unread},
		"a result and a method":       {plain, swap(`"result"`, `"method":"ping","result"`), "", 200, unread},
		"failed in another case":      {plain, swap(`"content"`, `"IsError":true,"content"`), "", 200, unread},
		"failed in Python's spelling": {plain, swap(`"content"`, `"is_error":true,"content"`), "", 200, unread},
		"failed in a prototype": {plain, swap(`"content"`, `"__proto__":{"isError":true},"content"`), "",
			200, unread},
		"failed as a text": {plain, swap(`"content"`, `"isError":"true","content"`), "", 200, unread},
		"metadata that some drop": {plain, swap(`"content"`, `"_meta":{"progressToken":[]},"content"`), "",
			200, unread},
		"an error code as a text":    {plain, strings.Replace(failed, "-32602", `"-32602"`, 1), "", 200, unread},
		"an error without a message": {plain, strings.Replace(failed, `,"message":"no"`, "", 1), "", 200, unread},
		"an error code beyond 2^53": {plain, strings.Replace(failed, "-32602", "9007199254740993", 1), "", 200,
			unread},
		"compressed":              {plain + " in gzip", result, "", 200, unread},
		"another charset":         {plain + "; charset=utf-16", result, "", 200, unread},
		"an encoded charset":      {plain + "; charset*=iso-8859-1''utf-7", result, result, 200, ""},
		"two types":               {plain + ", " + stream, result, "", 200, unread},
		"another type":            {"text/plain", result, "", 200, unread},
		"accepted, with a result": {plain, result, "", 202, ""},
		"a failure":               {plain, failed, failed, 400, ""},
		"a failure without an id": {plain, strings.Replace(failed, "7", "null", 1),
			strings.Replace(failed, "7", "null", 1), 404, ""},
		"a failure of another":      {plain, strings.Replace(failed, "7", "8", 1), failed, 400, ""},
		"a failure of another type": {"text/plain", failed, failed, 404, ""},
		"a failure in words":        {"text/plain", "no such page", failure(404, "no such page"), 404, ""},
		"a failure with a result":   {plain, `{"a":1}`, failure(500, `{"a":1}`), 500, ""},
		"a failure without a text":  {"", "", failure(503, ""), 503, ""},
		"a failure as a stream":     {stream, events(result), failure(503, ""), 503, ""},
		"a compressed failure":      {plain + " in gzip", failed, failure(503, ""), 503, ""},
		"a redirect elsewhere":      {"", "", "", 303, unread},
		"a redirect":                {plain, result, "", 307, ""},
		"events":                    {stream, events(progress, result), events(progress, result), 200, ""},
		"events in other forms": {stream, "\ufeffevent:message\rdata:" + progress +
			"\r\r\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata:\"id\":7,\"result\":{\"content\":[]}}\r\n\r\n",
			"event: message\n" + events(progress, result), 200, ""},
		"fields": {stream, "retry: 5\nid: 7\ndata:\n\nid:8\n\n",
			"id: 7\nretry: 5\ndata: \n\nid: 8\n\n", 200, ""},
		"an event of another type": {stream, "event: x\nid: 1\n" + events(result) + "event: endpoint\n" +
			events("/mcp") + events(result), "id: 1\n\n" + events(result), 200, ""},
		"an event without its end": {stream, "data: " + result + "\n", "", 200, ""},
		"a line that some end":     {stream, "event: x\u2028event: message\n" + events(result), "", 200, ""},
		"an id that some end":      {stream, "id: 1\x1cdata: x\n" + events(result), "", 200, unread},
		"an unreadable event":      {stream, events(progress, "{", result), events(progress), 200, unread},
		"a large event": {stream, events(progress, strings.Repeat(" ", 9<<20)), events(progress),
			200, unread},
		"an empty object":              {stream, "id: 1\n" + events("{}", result), "id: 1\n\n" + events(result), 200, ""},
		"a second result":              {stream, events(result, failed), events(result), 200, ""},
		"another's result in a stream": {stream, events(swap("7", "8"), result), "", 200, unread},
		"a question": {stream, events(`{"jsonrpc":"2.0","id":1e0,"method":"ping","x":1}`),
			events(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), 200, ""},
		"a question by a fraction": {stream, events(`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`), "", 200,
			unread},
		"a method that is no text": {stream, events(`{"jsonrpc":"2.0","method":5}`), "", 200, unread},
		"parameters in a list": {stream, events(`{"jsonrpc":"2.0","method":"a","params":[]}`), "", 200,
			unread},
	} {
		t.Run(name, func(t *testing.T) {
			kind, encoding, _ := strings.Cut(tt.kind, " in ")
			header := http.Header{"Content-Type": {kind}, "Content-Encoding": {encoding}, "Location": {"/mcp/"}}
			w := watch(t, new(mcp.Memory), at, request(t, "tools/call", 7))
			got, refused, result := answer(w, tt.status, header, tt.said)
			if got != tt.want || refused != tt.refused {
				t.Errorf("the client reads %.300q, %q, want %.300q, %q", got, refused, tt.want, tt.refused)
			}
			answered := strings.Contains(got, `"id":7`) || tt.status >= 400 && got != ""
			if answered == (result == mcp.ResultLost || result == mcp.ResultUnseen) {
				t.Errorf("the result is %s", result)
			}
		})
	}
}

// lines ends lines as the most generous client does.
var lines = regexp.MustCompile("[\r\n\v\f\x1c\x1d\x1e\u0085\u2028\u2029]")

// FuzzAnswer: also a client that ignores case, types and ends lines at more characters finds no message that the
// mediator has not read: no tool that no rule names, no result but the recorded one, no question that is not noted.
func FuzzAnswer(f *testing.F) {
	for _, e := range readCorpus(f, "answers.txt") {
		if said := e.one("answer"); len(said) < 1<<10 {
			f.Add([]byte(strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(said)), e.one("type"), 200)
		}
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"get_issue"},{"name":"delete_repo"}]}}`),
		plain, 200)
	f.Add([]byte("id: 1\ndata: {\"id\":1,\"result\":{\"tools\":\ndata: [{\"name\":\"delete_repo\"}]}}\n\n"),
		stream, 200)
	f.Add([]byte(events(elicits, pings)), stream, 200)
	f.Add([]byte(elicits), plain, 404)
	f.Fuzz(func(t *testing.T, said []byte, kind string, status int) {
		if status < 200 || status > 599 {
			return
		}
		memory := new(mcp.Memory)
		w := watch(t, memory, at, request(t, "tools/list", 1), &mcp.Rule{Tools: []string{"get_issue"}})
		out, _, result := answer(w, status, typed(kind), string(said))
		texts := make(map[string]bool)
		for _, line := range append(lines.Split(out, -1), out) {
			texts[strings.TrimSpace(strings.TrimPrefix(line, "data:"))] = true
		}
		for text := range texts {
			var message struct {
				ID            any
				Method        *string
				Result, Error *struct{ Tools []struct{ Name string } }
			}
			if json.Unmarshal([]byte(text), &message) != nil {
				continue
			}
			if message.Result != nil {
				for _, tool := range message.Result.Tools {
					if tool.Name != "get_issue" {
						t.Errorf("the client reads the tool %q in %q", tool.Name, out)
					}
				}
			}
			if answers := message.Result != nil || message.Error != nil; answers && (result == mcp.ResultLost ||
				message.ID != 1.0 || (message.Error != nil) != (result == mcp.ResultError)) {
				t.Errorf("the client reads %q, and the result is %s", out, result)
			}
			if message.Method == nil || message.ID == nil {
				continue
			}
			id, _ := json.Marshal(message.ID)
			reply := read(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":""}}`, id))
			if _, err := mcp.Judge(reply, entry{}.header(), rules("elicitation sampling"), at,
				memory); check.CodeOf(err) ==
				"mcp_answer_unasked" && strings.Count(out, string(id)) == 1 {
				t.Errorf("the client reads %q, which is not noted: %v", out, err)
			}
		}
	})
}

// TestMemoryOfTools: what a session keeps of a tool's definition, a server chooses.
func TestMemoryOfTools(t *testing.T) {
	const tools, kept = 128, 16 << 10
	memory, rule := new(mcp.Memory), &mcp.Rule{ListAll: true}
	var properties []string
	for i := range 32 {
		properties = append(properties, fmt.Sprintf(`"%s%02d":{"x-mcp-header":"h%d"}`, strings.Repeat("p", 1000),
			i, i),
			fmt.Sprintf(`"%s%02d":{"x-mcp-header":"k%d"}`, strings.Repeat("p", 200), i, i))
	}
	schema := `"inputSchema":{"properties":{` + strings.Join(properties, ",") + `}}`
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range tools {
		name := fmt.Sprintf("tool%d", i)
		rule.Tools = append(rule.Tools, name)
		w := watch(t, memory, at, request(t, "tools/list", i), rule)
		said := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":%q,%s}]}}`, i, name, schema)
		if _, _, result := answer(w, http.StatusOK, typed(stream), events(said)); result != mcp.ResultOK {
			t.Fatalf("%s", result)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / tools; n > kept {
		t.Errorf("a session keeps %d bytes of a tool's definition, want at most %d", n, kept)
	}
	runtime.KeepAlive(memory)
}

// TestTurns: each text that is read takes a turn, and the memory that it takes is freed.
func TestTurns(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	for kind, said := range map[string]string{plain: text, stream: events(text)} {
		w := watch(t, new(mcp.Memory), at, request(t, "ping", 1))
		began, ended, taken := 0, 0, 0
		w.Turn = func(size int) func() {
			began += size
			return func() { ended += size }
		}
		w.Take = func(n int) bool { taken += n; return true }
		w.Free = func() { taken = 0 }
		c := mcp.Call{Watch: w}
		resp := &http.Response{StatusCode: 200, Header: typed(kind), Body: io.NopCloser(strings.NewReader(said))}
		check.Must(t, c.Begin(resp))
		_, err := io.Copy(io.Discard, resp.Body)
		check.Must(t, err)
		if began != len(text) || ended != began || taken < len(text) {
			t.Errorf("%s: turns for %d bytes began, for %d ended; %d bytes are held", kind, began, ended, taken)
		}
		if _ = resp.Body.Close(); taken != 0 {
			t.Errorf("%s: %d bytes are never freed", kind, taken)
		}
	}
}

func TestNoMemory(t *testing.T) {
	for _, kind := range []string{plain, stream} {
		w := watch(t, new(mcp.Memory), at, request(t, "tools/call", 1))
		w.Take = func(n int) bool { return n < 100 }
		passes, refused, result := answer(w, http.StatusOK, typed(kind), events(strings.Repeat("x", 1000)))
		if passes != "" || refused != "mcp_answer_unread" || result != mcp.ResultUnseen {
			t.Errorf("%s without memory: %q, %s, %s", kind, passes, refused, result)
		}
	}
}
