package policy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

func request(m *policy.Message) policy.Request {
	resource := "POST /posts"
	if does := m.Does(); does != "" {
		resource += " " + does
	}
	return policy.Request{
		Binding: evidence.Binding{Subject: "agent:worker-1", Action: "create_post", Resource: resource,
			ContentHash: evidence.HashBytes(nil), Nonce: "nonce"},
		ChallengeID: "challenge-1", RuntimeID: "worker-1", SessionID: "session-1",
		Call: policy.Call{Method: "POST", Scheme: "https", Host: "api.example.com", Path: "/posts", Rule: "example-post",
			ContentKind: "json", Message: m},
	}
}

func TestRequest(t *testing.T) {
	const bound = "POST /posts tools/call create_issue"
	for name, tt := range map[string]struct {
		change func(*policy.Request)
		code   string // "" accepts
	}{
		"right":                 {func(*policy.Request) {}, ""},
		"a query that is bound": {func(r *policy.Request) { r.Binding.Resource += "?a=b" }, ""},
		"nothing to send":       {func(r *policy.Request) { r.Call.Size = 0 }, ""},
		"a negative size":       {func(r *policy.Request) { r.Call.Size = -1 }, "query_malformed"},
		"no nonce":              {func(r *policy.Request) { r.Binding.Nonce = "" }, "artifact_malformed"},
		"another method":        {func(r *policy.Request) { r.Call.Method = "PUT" }, "artifacts_mismatch"},
		"a path that is longer": {func(r *policy.Request) { r.Call.Path = "/posts/1" }, "artifacts_mismatch"},
		"a message that is not bound": {func(r *policy.Request) {
			r.Call.Message = mcp("s", "create_issue", "")
		}, "artifacts_mismatch"},
		"another tool than is bound": {func(r *policy.Request) {
			r.Call.Message, r.Binding.Resource = mcp("s", "delete_repo", ""), bound
		}, "artifacts_mismatch"},
		"no message, and a tool bound": {func(r *policy.Request) { r.Binding.Resource = bound }, "artifacts_mismatch"},
		"a query in the wrong place": {func(r *policy.Request) {
			r.Call.Message, r.Binding.Resource = mcp("s", "create_issue", ""), bound+"?a=b"
		}, "artifacts_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(nil)
			tt.change(&r)
			wantCode(t, r.Check(), tt.code)
		})
	}
	for name, text := range map[string]func(*policy.Request) *string{
		"challengeId":      func(r *policy.Request) *string { return &r.ChallengeID },
		"runtimeId":        func(r *policy.Request) *string { return &r.RuntimeID },
		"sessionId":        func(r *policy.Request) *string { return &r.SessionID },
		"call.method":      func(r *policy.Request) *string { return &r.Call.Method },
		"call.scheme":      func(r *policy.Request) *string { return &r.Call.Scheme },
		"call.host":        func(r *policy.Request) *string { return &r.Call.Host },
		"call.path":        func(r *policy.Request) *string { return &r.Call.Path },
		"call.rule":        func(r *policy.Request) *string { return &r.Call.Rule },
		"call.contentKind": func(r *policy.Request) *string { return &r.Call.ContentKind },
	} {
		longest, code := 256, ""
		switch name {
		case "call.path":
			longest, code = 2048, "artifacts_mismatch" // another one is bound
		case "call.method":
			code = "artifacts_mismatch"
		}
		for n, want := range map[int]string{0: "query_malformed", longest: code, longest + 1: "query_malformed"} {
			t.Run(fmt.Sprintf("%s of %d bytes", name, n), func(t *testing.T) {
				r := request(nil)
				*text(&r) = strings.Repeat("x", n)
				wantCode(t, r.Check(), want)
			})
		}
	}
}

func wantCode(t *testing.T, err error, code string, texts ...string) {
	t.Helper()
	if code == "" {
		check.Must(t, err)
		return
	}
	check.WantCode(t, err, code, texts...)
}

func mcp(server, tool, arguments string) *policy.Message {
	return &policy.Message{MCP: &policy.MCP{Server: server, Tool: tool, Arguments: json.RawMessage(arguments)}}
}

func graphQL(kind string, fields ...string) *policy.Message {
	return &policy.Message{GraphQL: &policy.GraphQL{Type: kind, Fields: fields}}
}

func TestMessage(t *testing.T) {
	fields := func(n int) []string { return strings.Split(strings.Repeat("f,", n-1)+"f", ",") }
	for name, tt := range map[string]struct {
		message *policy.Message
		does    string
		good    bool
	}{
		"no message": {nil, "", true},
		"a call of a tool": {mcp("api.example.com/mcp", "create_issue", `{}`), "tools/call create_issue",
			true},
		"no arguments":              {mcp("s", "t", ""), "tools/call t", true},
		"arguments of just so many": {mcp("s", "t", strings.Repeat(" ", policy.MaxArguments)), "tools/call t", true},
		"too many arguments":        {mcp("s", "t", strings.Repeat(" ", policy.MaxArguments+1)), "tools/call t", false},
		"no server":                 {mcp("", "t", ""), "tools/call t", false},
		"a server of just so many":  {mcp(strings.Repeat("s", 2048), "t", ""), "tools/call t", true},
		"a long server":             {mcp(strings.Repeat("s", 2049), "t", ""), "tools/call t", false},
		"no tool":                   {mcp("s", "", ""), "tools/call ", false},
		"a long tool": {mcp("s", strings.Repeat("t", 257), ""), "tools/call " + strings.Repeat("t", 257),
			false},
		"a mutation":             {graphQL("mutation", "a", "b"), "mutation a,b", true},
		"fields of just so many": {graphQL("query", fields(64)...), "query " + strings.Join(fields(64), ","), true},
		"too many fields":        {graphQL("query", fields(65)...), "query " + strings.Join(fields(65), ","), false},
		"no fields":              {graphQL("query"), "query ", false},
		"an empty field":         {graphQL("query", "a", ""), "query a,", false},
		"a long field": {graphQL("query", strings.Repeat("f", 257), "a"),
			"query " + strings.Repeat("f", 257) + ",a", false},
		"no type":     {graphQL("", "a"), " a", false},
		"a long type": {graphQL(strings.Repeat("q", 257), "a"), strings.Repeat("q", 257) + " a", false},
		"nothing":     {&policy.Message{}, "", false},
		"both": {
			&policy.Message{MCP: mcp("s", "t", "").MCP, GraphQL: graphQL("query", "a").GraphQL}, "tools/call t", false},
		"both, of which one is malformed": {&policy.Message{MCP: mcp("s", "t", "").MCP, GraphQL: graphQL("").GraphQL},
			"tools/call t", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(tt.message)
			if does := tt.message.Does(); does != tt.does {
				t.Errorf("it does %q, want %q", does, tt.does)
			}
			if tt.good {
				check.Must(t, r.Check())
			} else {
				check.WantCode(t, r.Check(), "query_malformed", "call.message")
			}
		})
	}
}

func TestCallOf(t *testing.T) {
	for _, c := range []policy.Call{{}, {Message: &policy.Message{}}} {
		args, err := c.Arguments()
		if c.MCP().Tool != "" || c.GraphQL().Type != "" || args != nil || err != nil {
			t.Errorf("%+v: %v, %v", c, args, err)
		}
	}
	c := policy.Call{Message: mcp("s", "t", "")}
	if c.MCP().Tool != "t" || c.GraphQL().Type != "" {
		t.Errorf("%+v, %+v", c.MCP(), c.GraphQL())
	}
	if c = (policy.Call{Message: graphQL("query", "a")}); c.GraphQL().Type != "query" || c.MCP().Tool != "" {
		t.Errorf("%+v, %+v", c.MCP(), c.GraphQL())
	}
	for text, want := range map[string]map[string]any{
		``:   nil,
		`{}`: {},
		`{"n":1,"f":1.5,"e":1e2,"large":9223372036854775807,"larger":9223372036854775808,"s":"1","null":null,"list":[1,` +
			`{"n":2}],"map":{"n":3}}`: {
			"n": int64(1), "f": 1.5, "e": 100.0, "large": int64(9223372036854775807), "larger": 9223372036854775808.0,
			"s": "1", "null": nil,
			"list": []any{int64(1), map[string]any{"n": int64(2)}}, "map": map[string]any{"n": int64(3)},
		},
	} {
		got, err := policy.Call{Message: mcp("s", "t", text)}.Arguments()
		if check.Must(t, err); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", text, got, want)
		}
	}
	for _, text := range []string{`[1]`, `null`, `"a"`, `1`, `{`, `x`} {
		got, err := policy.Call{Message: mcp("s", "t", text)}.Arguments()
		if check.WantCode(t, err, "query_malformed"); got != nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
