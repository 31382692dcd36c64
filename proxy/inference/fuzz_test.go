package inference_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/test/check"
)

func FuzzRequest(f *testing.F) {
	for i, d := range inference.Dialects {
		f.Add(i, smallest[d])
		f.Add(i,
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}},`+
				`{"type":"tool_result","content":[]}]}],"tools":[{"type":"namespace","tools":[{}]}]}`)
		f.Add(i,
			`{"messages":[],"tools":[{"Type":"web_search_20250305"},{"type":"shell","environment":{"TYPE":"x",`+
				`"type ":"local"}}],"Mcp_Servers":[{}]}`)
		f.Add(i, `{"input":[{"type":"function_call_output","output":[{"type":"text","text":null}]}],"Model":1,"model":2}`)
	}
	for _, tt := range corpus(f, "requests.txtar") {
		f.Add(slices.Index(inference.Dialects[:], tt.dialect), tt.body)
	}
	f.Fuzz(func(t *testing.T, i int, body string) {
		d := inference.Dialects[uint(i)%uint(len(inference.Dialects))]
		r, err := inference.Read(inference.Rule{Dialect: d}, inference.Call{Body: []byte(body), Key: key})
		if err != nil {
			if !slices.Contains([]string{"message_malformed", "message_ambiguous", "model_hosted_tool",
				"model_state_unseen", "model_member_unknown"}, check.CodeOf(err)) {
				t.Fatal(err)
			}
			return
		}
		if len(r.Asked) > r.AskedCount || len(r.Hosted) > 0 || len(r.Model) > 128 {
			t.Fatalf("%+v", r)
		}
		wantSameTools(t, d, body)
	})
}

// wantSameTools checks that Go's own reader, which ignores case and takes the last of two members, finds no hosted
// tools.
func wantSameTools(t *testing.T, d inference.Dialect, body string) {
	t.Helper()
	if d == inference.Gemini || d == inference.BedrockConverse {
		wantOnlyFunctions(t, d, body)
		return
	}
	var lenient struct {
		Tools []struct {
			Type, Execution string
			Environment     struct{ Type string }
		}
		MCPServers json.RawMessage `json:"mcp_servers"`
	}
	if json.Unmarshal([]byte(body), &lenient) != nil {
		return
	}
	for _, tool := range lenient.Tools {
		agents := tool.Type == "" || tool.Type == "namespace" ||
			slices.ContainsFunc(
				[]string{"function", "custom", "local_", "apply_patch", "computer", "bash_", "text_editor_", "memory_",
					"browser_toolset_"}, func(p string) bool {
					return strings.HasPrefix(tool.Type, p)
				})
		if !agents && !(tool.Type == "shell" && tool.Environment.Type == "local") &&
			!(tool.Type == "tool_search" && tool.Execution == "client") {
			t.Fatalf("%s: the tool %+v was let through in %s", d, tool, body)
		}
	}
	if raw := string(lenient.MCPServers); raw != "" && raw != "null" && raw != "false" &&
		strings.Trim(raw, "[] \t\r\n") != "" {
		t.Fatalf("%s: MCP servers were let through in %s", d, body)
	}
}

func FuzzStream(f *testing.F) { fuzzAnswer(f, eventStream) }

func FuzzAnswer(f *testing.F) { fuzzAnswer(f, jsonType) }

func FuzzLines(f *testing.F) { fuzzAnswer(f, "application/x-ndjson") }

func fuzzAnswer(f *testing.F, kind string) {
	for i, d := range inference.Dialects {
		for _, tt := range corpus(f, "answers.txtar") {
			if tt.dialect == d && tt.kind() == kind {
				f.Add(i, tt.body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i int, body string) {
		if len(body) > 4096 { // no more pieces than may be queued
			return
		}
		d := inference.Dialects[uint(i)%uint(len(inference.Dialects))]
		whole, pieces := observe(t, d, kind, body, 0, options()), observe(t, d, kind, body, 1, options())
		if figures(whole) != figures(pieces) || hashes(whole) != hashes(pieces) || whole.Deltas != pieces.Deltas {
			t.Fatalf("%s\n%s", figures(whole), figures(pieces))
		}
	})
}

// wantOnlyFunctions checks the tools of the APIs in which the name of a member says what a tool is.
func wantOnlyFunctions(t *testing.T, d inference.Dialect, body string) {
	t.Helper()
	type tools []map[string]any
	var lenient struct {
		Tools      tools
		ToolConfig struct{ Tools tools }
	}
	if json.Unmarshal([]byte(body), &lenient) != nil {
		return
	}
	if d == inference.BedrockConverse {
		lenient.Tools = lenient.ToolConfig.Tools
	}
	for _, tool := range lenient.Tools {
		for name, v := range tool {
			name = strings.ToLower(strings.ReplaceAll(name, "_", ""))
			if list, ok := v.([]any); v == nil || v == false || ok && len(list) == 0 ||
				slices.Contains([]string{"functiondeclarations", "computeruse", "toolspec", "cachepoint"}, name) {
				continue
			}
			t.Fatalf("the tool %s was let through in %s", name, body)
		}
	}
}
