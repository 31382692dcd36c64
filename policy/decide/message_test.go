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
			w := newWorld(t, file("r allow "+lines[0]))
			_, err := w.decide(w.request(saying(message)))
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

func saying(m *policy.Message) func(*request) {
	return func(r *request) {
		if r.Call.Message = m; m != nil {
			r.Binding.Resource += " " + m.Does()
		}
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	w := newWorld(t, file("r allow true"))
	for _, arguments := range []string{`[1]`, `null`} {
		_, err := w.decide(w.request(saying(&policy.Message{
			MCP: &policy.MCP{Server: "api.example.com/mcp", Tool: "create_issue",
				Arguments: json.RawMessage(arguments)}})))
		check.WantCode(t, err, "query_malformed", "is not a JSON object")
	}
}
