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
	readUntilEnd(t, cmd, lines, func(string) {})
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
}

func modernServer() http.Handler {
	return toolServer(sdk.StreamableHTTPOptions{Stateless: true}, "sum", "echo", "reset")
}

func toolServer(o sdk.StreamableHTTPOptions, tools ...string) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	for _, name := range tools {
		sdk.AddTool(s, &sdk.Tool{Name: name},
			func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " done"}}}, nil, nil
			})
	}
	o.DisableLocalhostProtection = true
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &o)
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
	const closed, unmatched = "event_closed with its record", "action_unmatched with its record"
	const answered, tainted = "✅ User provided the requested information! User inputs:",
		"session_tainted with its record"
	for _, tt := range []struct {
		name, generation, path string
		calls, want            []string
		posts                  int // that went out
	}{
		{"the first generation", "v1", "/mcp", []string{"list", echo, sum, sum, env, echo},
			[]string{"tools", "Echo: hi", "The sum of 1 and 2 is 3.", closed, unmatched, "Echo: hi"}, 1},
		{"the second generation", "v2", "/mcp", []string{"list", echo, sum, sum, env, echo},
			[]string{"tools", "Echo: hi", "The sum of 1 and 2 is 3.", closed, unmatched, "Echo: hi"}, 1},
		{"revision 2026-07-28", "v2-modern", "/modern",
			[]string{"list", "echo={}", "sum={}", "sum={}", "reset={}", "echo={}"},
			[]string{"tools", "echo done", "sum done", closed, unmatched, "echo done"}, 1},
		{"a human answers the first generation", "v1", "/mcp", []string{"trigger-elicitation-request={}", sum, echo},
			[]string{answered, tainted, "Echo: hi"}, 0},
		{"a human answers the second generation", "v2", "/mcp", []string{"trigger-elicitation-request={}", sum},
			[]string{answered, tainted}, 0},
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
