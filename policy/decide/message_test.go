package decide_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
)

func TestConditionsOnMessages(t *testing.T) {
	call := func(arguments string) *policy.Message {
		return &policy.Message{
			MCP: &policy.MCP{Server: "api.example.com/posts", Tool: "create_issue", Arguments: json.RawMessage(arguments)}}
	}
	mutation := &policy.Message{GraphQL: &policy.GraphQL{Type: "mutation", Fields: []string{"addComment", "closeIssue"}}}
	for _, tt := range []struct {
		name, when string
		message    *policy.Message
		code       string // "" allows
	}{
		{"tool and server", `mcp.tool == "create_issue" && mcp.server == "api.example.com/posts"`, call(`{}`), ""},
		{"another tool", `mcp.tool == "delete_repo"`, call(`{}`), "policy_denied"},
		{"no message", `mcp.tool == "" && mcp.server == "" && graphql.type == "" && size(graphql.fields) == 0`, nil, ""},
		{"graphql", `graphql.type == "mutation" && "addComment" in graphql.fields && !("deleteRepository" in graphql.fields)`,
			mutation, ""},
		{"graphql without arguments", `args.a == 1`, mutation, "policy_error"},
		{"an argument", `args.repo == "a/b"`, call(`{"repo":"a/b"}`), ""},
		{"another argument", `args.repo == "a/b"`, call(`{"repo":"a/c"}`), "policy_denied"},
		{"an argument in an argument", `args.target.repo == "a/b" && args["count"] == 2`,
			call(`{"target":{"repo":"a/b"},"count":2}`), ""},
		{"a number with a fraction", `args.share < 0.5`, call(`{"share":0.25}`), ""},
		{"a number that is 2", `args.count == 2`, call(`{"count":2.0}`), ""},
		{"an argument that may be left out", `!("draft" in args) || args.draft == false`, call(`{}`), ""},
		{"a large integer", `args.n == 9007199254740991`, call(`{"n":9007199254740991}`), ""},
		{"texts of a list", `"bug" in args.labels`, call(`{"labels":["bug"]}`), ""},
		{"a number that is an unsigned 1", `args.n == 1u && args.n in [1u, 2u]`, call(`{"n":1}`), ""},
		{"an empty list", `!("bug" in args.labels)`, call(`{"labels":[]}`), ""},
		{"a short circuit", `mcp.tool == "other" && args.repo == "a/b"`, call(`{"repo":1}`), "policy_denied"},

		{"no such argument", `args.repo == "a/b"`, call(`{}`), "policy_error"},
		{"no such argument, negated", `args.repo != "prod"`, call(`{}`), "policy_error"},
		{"another type", `args.repo == "a/b"`, call(`{"repo":1}`), "policy_error"},
		{"a list in place of a text", `args.repo != "prod"`, call(`{"repo":["prod"]}`), "policy_error"},
		{"the text on the left", `"prod" != args.repo`, call(`{"repo":["prod"]}`), "policy_error"},
		{"null in place of a text", `args.repo != "prod"`, call(`{"repo":null}`), "policy_error"},
		{"a number among texts", `!(args.repo in ["prod", "main"])`, call(`{"repo":5}`), "policy_error"},
		{"a list among texts", `!(args.repo in ["prod"])`, call(`{"repo":["prod"]}`), "policy_error"},
		{"texts in place of a list", `!("prod" in args.repos)`, call(`{"repos":"prod"}`), "policy_error"},
		{"a list of lists", `!("prod" in args.repos)`, call(`{"repos":[["prod"]]}`), "policy_error"},
		{"texts of which the last is none", `!("prod" in args.repos)`, call(`{"repos":["a","b",1]}`), "policy_error"},
		{"a number among the arguments' names", `!(args.n in args)`, call(`{"n":1}`), "policy_error"},
		{"a text that is a number", `args.count < 3`, call(`{"count":"2"}`), "policy_error"},
		{"a text function of a number", `args.repo.startsWith("a/")`, call(`{"repo":1}`), "policy_error"},
		{"a member of a text", `args.repo.owner == "a"`, call(`{"repo":"a/b"}`), "policy_error"},
		{"arguments that were too many to send", `args.repo == "a/b"`, call(``), "policy_error"},
		{"a name among arguments that were too many to send", `!("draft" in args)`, call(``), "policy_error"},
		{"arguments of no message", `args.repo == "a/b"`, nil, "policy_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, file("r allow "+tt.when), nil)
			_, err := w.engine().Decide(t.Context(), w.request(withMessage(tt.message)))
			wantVerdict(t, err, tt.code)
		})
	}
	for _, wrong := range []string{`args == "a"`, `args.repo`, `mcp.tool == 1`, `graphql.fields == "addComment"`,
		`mcp.tol == "a"`} {
		if _, err := decide.ParseRules([]byte(file("r allow " + wrong))); err == nil {
			t.Errorf("%s compiles", wrong)
		}
	}
}

// TestWhyAConditionFails checks that the operator learns which types could not be compared.
func TestWhyAConditionFails(t *testing.T) {
	for _, tt := range []struct{ when, arguments, want string }{
		{`args.repo == "a"`, `{}`, "no such key: repo"},
		{`"a" == args.repo`, `{}`, "no such key: repo"},
		{`args.repo in ["a"]`, `{}`, "no such key: repo"},
		{`"a" in args.repos`, `{}`, "no such key: repos"},
		{`args.repo == args.other`, `{}`, "no such key: repo"},
		{`args.repo != "a"`, `{"repo":1}`, "a value of type int is compared with one of type string"},
		{`!("a" in args.repos)`, `{"repos":"a"}`, "a value of type string is looked for in one of type string"},
	} {
		w := newWorld(t, file("r allow "+tt.when), nil)
		_, err := w.engine().Decide(t.Context(), w.request(withMessage(&policy.Message{
			MCP: &policy.MCP{Server: "api.example.com/posts", Tool: "create_issue", Arguments: json.RawMessage(tt.arguments)},
		})))
		if check.WantCode(t, err, "policy_error"); err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s: %v, want %q", tt.when, tt.arguments, err, tt.want)
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
