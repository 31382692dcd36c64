package mcp_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

// seen returns what a client reads of an answer to a method; to none if method is empty.
func seen(t testing.TB, method string, status int, kind, body string, all bool) (string, error) {
	t.Helper()
	var sent *mcp.Message
	if method != "" {
		sent = read(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"get_issue"}}`)
	}
	kind, encoding, _ := strings.Cut(kind, " in ")
	c := mcp.Call{Watch: watch(sent, new(mcp.Memory))}
	c.Rules = []*mcp.Rule{{Tools: []string{"create_issue"}, Post: true}, {Tools: []string{"get_issue"}, ListAll: all}}
	from := iotest.DataErrReader(iotest.HalfReader(strings.NewReader(body)))
	resp := &http.Response{StatusCode: status, Body: io.NopCloser(from),
		Header: http.Header{"Content-Type": {kind}, "Content-Encoding": {encoding}}, ContentLength: -1}
	if err := c.Begin(resp); err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(regexp.MustCompile(`(?m)^:\n`).ReplaceAll(text, nil)), err
}

func TestLists(t *testing.T) {
	const list, call, lists = "tools/list", "tools/call", `{"jsonrpc":"2.0","id":1,"result":{"tools":[`
	const issue, repo, rest = `{"name":"get_issue","about":"\u2028\u0085"}`, `{"name":"delete_repo"}`,
		`],"nextCursor":"c"}}`
	const whole, kept = lists + issue + " , " + repo + rest, lists + issue + rest
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	event := func(texts ...string) (all string) {
		for _, text := range texts {
			all += "data: " + text + "\n\n"
		}
		return all
	}
	other := func(message string) string { return strings.Replace(message, `"id":1`, `"id":2`, 1) }
	for name, tt := range map[string]struct {
		method, kind, body, want string
		status                   int
		refused                  bool
	}{
		"JSON":                {list, plain, strings.ReplaceAll(whole, `\u2028`, "\u2028"), kept, 200, false},
		"no tool of a rule":   {list, plain, lists + repo + rest, lists + rest, 200, false},
		"an error":            {list, plain, `{"error":1}`, `{"error":1}`, 401, false},
		"an unreadable error": {list, plain, "{", "", 401, false},
		"an error as text":    {list, "text/plain", "no", "no", 404, false},
		"a member twice":      {list, plain, strings.Replace(whole, "{", `{"id":1,`, 1), "", 200, true},
		"another case":        {list, plain, strings.Replace(whole, "tools", "Tools", 1), "", 200, true},
		"another name's case": {list, plain, lists + `{"name":"get_issue","Name":"delete_repo"}` + rest, "", 200, true},
		"no name":             {list, plain, lists + `{}` + rest, "", 200, true},
		"a prototype's list": {list, plain, strings.Replace(whole, `"tools"`, `"__proto__":{"tools"`, 1) + "}", "", 200,
			true},
		"no list":            {list, plain, `{"jsonrpc":"2.0","id":1,"result":{"tools":{}}}`, "", 200, true},
		"half":               {list, plain, whole[:40], "", 200, true},
		"a batch":            {list, plain, "[" + whole + "]", "", 200, true},
		"too long":           {list, plain, lists + issue + strings.Repeat(" ", 5<<20) + rest, "", 200, true},
		"compressed":         {list, plain + " in gzip", whole, "", 200, true},
		"another charset":    {list, plain + "; charset=utf-16", whole, "", 200, true},
		"an encoded charset": {list, plain + "; charset*=iso-8859-1''utf-7", whole, "", 200, true},
		"another type":       {list, "text/plain", whole, "", 200, true},
		"a stream":           {list, stream, event(progress, whole), event(progress, kept), 200, false},
		"a stream's fields": {list, stream, "retry: 5\nid: 7\ndata:\n\nid:8\n\n", "id: 7\nretry: 5\ndata: \n\nid: 8\n\n",
			200, false},
		"another event": {list, stream, "event: endpoint\ndata: /mcp/a\n\n", "event: endpoint\ndata: /mcp/a\n\n", 200,
			false},
		"another event's list": {list, stream, event(progress) + "event: x\n" + event(whole), event(progress), 200, true},
		"half a stream":        {list, stream, "data: " + whole, "", 200, false},
		"a long event":         {list, stream, event(progress, strings.Repeat(" ", 5<<20)), event(progress), 200, true},
		"no event of ours":     {list, stream, "data: {}\rdata: " + whole + "\n\n", "", 200, true},
		"another id":           {list, stream, event(other(whole)), event(other(kept)), 200, false},
		"a resumed stream":     {"", stream, event(whole), event(kept), 200, false},
		"JSON without request": {"", plain, whole, "", 200, true},
		"a failure's list":     {list, "text/plain", whole, "", 400, true},
		"no streams":           {"", plain, whole, whole, 405, false},
		"a call with a list":   {call, stream, event(other(whole)), "", 200, true},
		"a call's own tools":   {call, plain, whole, whole, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := seen(t, tt.method, tt.status, tt.kind, tt.body, false)
			if tt.refused {
				check.WantCode(t, err, "mcp_answer_unread")
			} else {
				check.Must(t, err)
			}
			if tt.method != call && got != tt.want {
				t.Errorf("the client reads %q, want %q", got, tt.want)
			}
			if all, err := seen(t, tt.method, tt.status, tt.kind, tt.body, true); all != tt.body || err != nil {
				t.Errorf("of a full list the client reads %q: %v", all, err)
			}
		})
	}
}

// lines ends lines as the most generous client does.
var lines = regexp.MustCompile("[\r\n\v\f\x1c\x1d\x1e\u0085\u2028\u2029]")

// FuzzLists: also a client that ignores case and ends lines at more characters finds only tools that rules name.
func FuzzLists(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"get_issue"},{"name":"delete_repo"}]}}`, false)
	f.Add("id: 1\ndata: {\"id\":1,\"result\":{\"tools\":\ndata: [{\"name\":\"delete_repo\"}]}}\n\n", true)
	f.Fuzz(func(t *testing.T, body string, streams bool) {
		kind := plain
		if streams {
			kind = stream
		}
		out, err := seen(t, "tools/list", http.StatusOK, kind, body, false)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			check.WantCode(t, err, "mcp_answer_unread")
		}
		for _, line := range append(lines.Split(out, -1), out) {
			var message struct {
				Result struct{ Tools []struct{ Name string } }
			}
			text := strings.TrimPrefix(line, "data:")
			if json.Unmarshal([]byte(text), &message) != nil {
				continue
			}
			for _, tool := range message.Result.Tools {
				if !slices.Contains([]string{"create_issue", "get_issue"}, tool.Name) {
					t.Errorf("the client reads the tool %q in %q", tool.Name, out)
				}
			}
		}
	})
}
