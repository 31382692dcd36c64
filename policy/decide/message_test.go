package decide_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
)

// TestConditions judges the conditions of testdata/conditions.txt.
func TestConditions(t *testing.T) {
	text, err := os.ReadFile("testdata/conditions.txt")
	check.Must(t, err)
	entries := strings.Split(strings.TrimSpace(string(text)), "\n\n")[1:]
	if len(entries) < 48 {
		t.Fatalf("there are only %d conditions", len(entries))
	}
	for _, e := range entries {
		lines := strings.Split(e, "\n")
		if strings.HasPrefix(lines[0], "# ") {
			lines = lines[1:]
		}
		t.Run(lines[0], func(t *testing.T) {
			var message *policy.Message
			kind, arguments, _ := strings.Cut(lines[1], " ")
			switch kind {
			case "call":
				message = &policy.Message{MCP: &policy.MCP{Server: "api.example.com/posts", Tool: "create_issue",
					Arguments: json.RawMessage(arguments)}}
			case "graphql":
				message = &policy.Message{
					GraphQL: &policy.GraphQL{Type: "mutation", Fields: []string{"addComment", "closeIssue"}}}
			}
			w := newWorld(t, file("r allow "+lines[0]), nil)
			_, err := w.engine().Decide(t.Context(), w.request(withMessage(message)))
			code, sentence, _ := strings.Cut(strings.TrimPrefix(lines[2], "allowed"), " ")
			wantVerdict(t, err, code, sentence)
		})
	}
	for _, wrong := range []string{`args == "a"`, `args.repo`, `mcp.tool == 1`, `graphql.fields == "addComment"`,
		`mcp.tol == "a"`} {
		if _, err := decide.ParseRules([]byte(file("r allow " + wrong))); err == nil {
			t.Errorf("%s compiles", wrong)
		}
	}
}

// withMessage turns a request into one for a call with a message.
func withMessage(m *policy.Message) change {
	return func(r *request, o *proof, rec *receipt) {
		r.Call.Message = m
		if does := m.Does(); does != "" {
			r.Binding.Resource += " " + does
		}
		o.BindingHash, rec.BindingHash = r.Binding.Hash(), r.Binding.Hash()
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	mcp := func(tool, arguments string) *policy.Message {
		return &policy.Message{
			MCP: &policy.MCP{Server: "api.example.com/mcp", Tool: tool, Arguments: json.RawMessage(arguments)}}
	}
	graphql := func(fields ...string) *policy.Message {
		return &policy.Message{GraphQL: &policy.GraphQL{Type: "mutation", Fields: fields}}
	}
	const bound = "POST /posts tools/call create_issue"
	for name, tt := range map[string]struct {
		message  *policy.Message
		resource string
		code     string
	}{
		"another tool than is bound":   {mcp("delete_repo", ``), bound, "artifacts_mismatch"},
		"no message, and a tool bound": {nil, bound, "artifacts_mismatch"},
		"a message, and none bound":    {mcp("create_issue", ``), "POST /posts", "artifacts_mismatch"},
		"a query in the wrong place":   {mcp("create_issue", ``), bound + "?a=b", "artifacts_mismatch"},
		"no tool":                      {mcp("", ``), "POST /posts tools/call ", "query_malformed"},
		"a long tool":                  {mcp(strings.Repeat("t", 257), ``), bound, "query_malformed"},
		"too many arguments": {mcp("create_issue", `{"a":"`+strings.Repeat("a", policy.MaxArguments)+`"}`), bound,
			"query_malformed"},
		"arguments in a list": {mcp("create_issue", `[1]`), bound, "query_malformed"},
		"null arguments":      {mcp("create_issue", `null`), bound, "query_malformed"},
		"nothing":             {&policy.Message{}, "POST /posts", "query_malformed"},
		"both": {
			&policy.Message{MCP: &policy.MCP{Server: "s", Tool: "t"},
				GraphQL: &policy.GraphQL{Type: "query", Fields: []string{"a"}}}, bound, "query_malformed"},
		"no fields":       {graphql(), "POST /posts mutation ", "query_malformed"},
		"an empty field":  {graphql("a", ""), "POST /posts mutation a,", "query_malformed"},
		"too many fields": {graphql(make([]string, 65)...), "POST /posts", "query_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, file("r allow true"), nil)
			d, err := w.engine().Decide(t.Context(),
				w.request(func(r *request, o *proof, rec *receipt) {
					r.Call.Message, r.Binding.Resource = tt.message, tt.resource
					o.BindingHash, rec.BindingHash = r.Binding.Hash(), r.Binding.Hash()
				}))
			check.WantCode(t, err, tt.code)
			if d != (policy.Decision{}) {
				t.Error("something was signed")
			}
		})
	}
}
