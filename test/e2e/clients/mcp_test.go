package clients

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// mcpRules allow tools of two MCP servers, get-sum and sum as posts.
const mcpRules = `
actions:
  - name: everything-posts
    match: {url: "https://PLAIN/mcp", mcp: {tools: [get-sum]}}
    subject: agent:worker-1
    action: use_tool
  - name: modern-posts
    match: {url: "https://PLAIN/modern", mcp: {tools: [sum]}}
    subject: agent:worker-1
    action: use_tool
egress:
  - name: everything-reads
    match: {url: "https://PLAIN/mcp", mcp: {tools: [echo, trigger-elicitation-request], elicitation: true}}
  - name: modern-reads
    match: {url: "https://PLAIN/modern", mcp: {tools: [echo]}}
` + kit.Upstream

// startEverything starts the published server-everything and returns its address.
func startEverything(t *testing.T) *url.URL {
	t.Helper()
	address, err := freeport.Address()
	check.Must(t, err)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command(kit.Need(t, "node"), "--no-warnings", "--require", "./"+kit.Scripts+"node/webcrypto.cjs",
		kit.Scripts+"node/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	cmd.Dir = kit.Top
	cmd.Env = append(os.Environ(), "PORT="+port)
	said, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening on port") {
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
}

// modernServer speaks revision 2026-07-28 of MCP, by the official Go SDK.
func modernServer() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "modern", Version: "1"}, nil)
	for _, name := range []string{"sum", "echo", "reset"} {
		sdk.AddTool(s, &sdk.Tool{Name: name},
			func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " done"}}}, nil, nil
			})
	}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		return s
	}, &sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
}

// TestMCPTools sends both generations of the official TypeScript SDK to published servers: a list, a read, a post with
// its evidence, the same post again, a tool without a rule, and a human's answer. After that answer the session makes
// no posts.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	node := kit.NodeJS(t)
	r := kit.NewRig(t, kit.Plain, func(*kit.Rig) (http.Handler, string) {
		mux := http.NewServeMux()
		mux.Handle("/modern", modernServer())
		everything := startEverything(t)
		mux.Handle("/mcp", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(everything)
		}})
		return mux, mcpRules
	})
	const sum, echo, env = `get-sum={"a":1,"b":2}`, `echo={"message":"hi"}`, `get-env={}`
	refused := func(status int, code string) string { return fmt.Sprintf("%d %s with its record", status, code) }
	for _, tt := range []struct {
		name, generation, path string
		calls, want            []string
		posts                  int // that went out
	}{
		{"the first generation", "v1", "/mcp", []string{"list", echo, sum, sum, env, echo},
			[]string{"tools", "Echo: hi", "The sum of 1 and 2 is 3.", refused(403, "event_closed"),
				refused(403, "action_unmatched"), "Echo: hi"}, 1},
		{"the second generation", "v2", "/mcp", []string{"list", echo, sum, sum, env, echo},
			[]string{"tools", "Echo: hi", "The sum of 1 and 2 is 3.", refused(403, "event_closed"),
				refused(403, "action_unmatched"), "Echo: hi"}, 1},
		{"revision 2026-07-28", "v2-modern", "/modern",
			[]string{"list", "echo={}", "sum={}", "sum={}", "reset={}", "echo={}"},
			[]string{"tools", "echo done", "sum done", refused(403, "event_closed"), refused(403, "action_unmatched"),
				"echo done"}, 1},
		{"a human answers the first generation", "v1", "/mcp", []string{"trigger-elicitation-request={}", sum, echo},
			[]string{"✅ User provided the requested information! User inputs:", refused(403, "session_tainted"), "Echo: hi"}, 0},
		{"a human answers the second generation", "v2", "/mcp", []string{"trigger-elicitation-request={}", sum},
			[]string{"✅ User provided the requested information! User inputs:", refused(403, "session_tainted")}, 0},
		{"another session makes posts", "v2", "/mcp", []string{sum}, []string{"The sum of 1 and 2 is 3."}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := r.ToolPosts(t)
			out, err := r.AsAgent(t,
				append(kit.With(node, kit.Scripts+"node/mcp-tools.mjs", tt.generation, "https://"+r.Plain()+tt.path),
					tt.calls...)...)
			if want := strings.Join(tt.want, "\n"); err != nil || out != want {
				t.Fatalf("got\n%s\n%v, want\n%s", out, err, want)
			}
			kit.Until(t, fmt.Sprintf("%d posts to be recorded as forwarded", tt.posts), func() bool {
				return r.ToolPosts(t)-before == tt.posts
			})
		})
	}
}
