package node_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/test/check"
)

// TestHostileTask begins verifications at nodes whose tasks name no tools, or what a shell would run in the next
// command.
func TestHostileTask(t *testing.T) {
	for tools, want := range map[string]string{
		`[]`: "no tool", `null`: "no tool", `["search_plugins", "x; touch /tmp/y"]`: `"x; touch /tmp/y"`,
		`["x\nresult    passed"]`: `"x\nresult    passed"`, `["search_plugins"]`: "",
	} {
		s := mcp.NewServer(&mcp.Implementation{Name: "node"}, nil)
		s.AddTool(&mcp.Tool{Name: "get_registration_challenge", InputSchema: json.RawMessage(`{"type": "object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
					Text: `{"nonce": "n", "session": {"sessionId": "s", "task": {"requiredTools": ` + tools + `}}}`}}}, nil
			})
		server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
		t.Cleanup(server.Close)
		dir := t.TempDir()
		c := node.Verification()
		c.SetArgs([]string{server.URL, "--file", filepath.Join(dir, "v.json"), "--key", filepath.Join(dir, "k")})
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		err := c.ExecuteContext(t.Context())
		if want == "" {
			check.Must(t, err)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", tools, err)
		}
	}
}
