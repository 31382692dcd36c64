package agents

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/internal/preset"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

var play = flag.String("agents", "", "the agents to play, separated by commas, or all (make test-agents); empty: a few")

// few are the agents that test/scripts/setup.sh installs.
const few = "openai-agents,vercel-ai,anthropic-tool-runner"

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) int{"go-client": goClient})
}

const rules = `
actions:
  - name: notes
    match: {url: "https://notes.test/mcp", mcp: {tools: [post_note]}}
    subject: agent:worker-1
    action: post_note
egress:
  - name: note-reads
    match: {url: "https://notes.test/mcp", mcp: {tools: [list_notes], list: all}}
  - name: vertex
    match:
      url: "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/{call}"
      methods: [POST]
    observe: gemini
upstreams:
`

var hosts = []string{"notes.test", "api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com",
	"aiplatform.googleapis.com", "registry.npmjs.org", "api.github.com", "github.com"}

// withPresets adds all presets to a sidecar's configuration.
func withPresets(file string) string {
	if !strings.Contains(file, "note-reads") {
		return file
	}
	for _, p := range preset.All() {
		merged, err := p.Merge([]byte(file), func(string) bool { return false })
		if err != nil {
			panic(err)
		}
		file = string(merged)
	}
	return file
}

// notes is an MCP server with a tool that an action names, and one that no rule names.
func notes() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	for _, name := range []string{"post_note", "delete_note"} {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: name},
			func(context.Context, *sdk.CallToolRequest, struct {
				Text    string `json:"text"`
				Message string `json:"message,omitempty"`
			}) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " done"}}}, nil, nil
			})
	}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{DisableLocalhostProtection: true})
}

// agent is a published agent, and how to start it with one prompt and the MCP server.
type agent struct {
	name   string
	files  map[string]string // in its home
	script string            // $0 is the folder with its programs
}

var agents = []agent{
	{"claude-code",
		map[string]string{"mcp.json": `{"mcpServers":{"notes":{"type":"http","url":"https://notes.test/mcp"}}}`},
		`ENABLE_TOOL_SEARCH=false ANTHROPIC_API_KEY=any exec $0/.bin/claude -p "Post a note, then delete one." \
			--mcp-config mcp.json \
			--allowedTools mcp__notes__post_note mcp__notes__delete_note`},
	{"codex", map[string]string{".codex/config.toml": `approval_policy = "never"
sandbox_mode = "danger-full-access"
[mcp_servers.notes]
url = "https://notes.test/mcp"
`}, `OPENAI_API_KEY=any CODEX_API_KEY=any exec $0/.bin/codex exec --skip-git-repo-check \
		"Post a note, then delete one."`},
	{"gemini-cli",
		map[string]string{".gemini/settings.json": `{"mcpServers":{"notes":{"httpUrl":"https://notes.test/mcp","trust":true}},
"security":{"auth":{"selectedType":"gemini-api-key"}}}`},
		`GEMINI_API_KEY=any exec $0/node24/bin/node $0/.bin/gemini --skip-trust --yolo -p "Post a note, then delete one."`},
	{"opencode", map[string]string{"opencode.json": `{"mcp":{"notes":{"type":"remote","url":"https://notes.test/mcp"}},
"model":"anthropic/claude-sonnet-4-5","autoupdate":false}`},
		`ANTHROPIC_API_KEY=any exec $0/opencode-linux-x64/bin/opencode run "Post a note, then delete one."`},
	script("claude-agent-sdk"), script("openai-agents"), script("vercel-ai"), script("langgraph"),
	script("anthropic-tool-runner"), script("google-genai"),
}

// script is an agent of testdata that is written with an SDK.
func script(name string) agent {
	return agent{name, nil,
		`ANTHROPIC_API_KEY=any OPENAI_API_KEY=any PATH=$0/node24/bin:$PATH exec node $0/../` + name + `.mjs`}
}

// TestAgents plays published agents, of which none is configured for the mediator: a model call, an MCP post, and a
// refused tool call, which the model reads.
func TestAgents(t *testing.T) {
	wanted := cmp.Or(*play, few)
	programs, err := filepath.Abs("testdata/node_modules")
	check.Must(t, err)
	served := &model{}
	mux := http.NewServeMux()
	mux.Handle("notes.test/mcp", notes())
	mux.Handle("/", served)
	all := rules
	for _, host := range hosts {
		all += fmt.Sprintf("  - {host: \"%s:443\", address: UPSTREAM, networks: [127.0.0.0/8], ca: api-ca.pem}\n", host)
	}
	r := kit.NewRig(t, hosts, kit.Serve(mux, all), withPresets)
	for _, a := range agents {
		if wanted != "all" && !slices.Contains(strings.Split(wanted, ","), a.name) {
			continue
		}
		t.Run(a.name, func(t *testing.T) { playAgent(t, r, a, programs) })
	}
}

func playAgent(t *testing.T, r *kit.Rig, a agent, programs string) {
	setup := "cd; "
	for name, content := range a.files {
		setup += "mkdir -p " + filepath.Dir(name) + "; cat > " + name + " <<'EOF'\n" + content + "\nEOF\n"
	}
	before := len(r.Records(t, "limit=1000"))
	stdout, stderr, err := r.StartRun(t, nil, nil, setup+a.script, programs)
	records := r.Records(t, "limit=1000")
	records = records[:len(records)-before]
	posts, refused, noise, called := 0, 0, 0, int64(0)
	var said []string
	for _, p := range records {
		switch {
		case p.Flow == "post" && p.State == ledger.StateForwarded && p.Message == "tools/call post_note":
			posts++
		case p.State == ledger.StateRefused && p.Message == "tools/call delete_note" && p.Code == "action_unmatched":
			refused++
		case p.Model != nil:
			m := p.Model
			if m.Outcome != "complete" || m.Model == "" || m.Calls == nil || m.Output == nil || m.Output.N != 7 ||
				m.Output.State != "declared" {
				t.Errorf("the record of a call to a model: %+v", m)
				break
			}
			called += m.Calls.N
		case p.State == ledger.StateRefused && p.Code != problem.CallDenied && !strings.Contains(p.Reason, "websocket"):
			// The agent's preset lacks something.
			noise++
		}
		said = append(said,
			strings.Join([]string{string(p.State), p.Method, p.Host + p.Path, p.Message, p.Code, p.Reason}, " "))
	}
	if err != nil || !strings.Contains(stdout, read) || posts != 1 || refused != 1 || noise != 0 || called != 2 {
		t.Errorf("%v, %d posts, %d refused, %d more, %d calls of tools by the model\n%s\n--- stderr\n%s\n--- records\n%s",
			err, posts, refused, noise, called, stdout, stderr, strings.Join(said, "\n"))
	}
	if len(records) > 0 { // the model, tokens and tools in the receipts are those of the records
		file := filepath.Join(t.TempDir(), "receipts.txt")
		kit.Run(t, "posts", "export", "--receipts", "--session", records[0].Session, "--out", file, "--admin",
			r.Stack.Admin())
		said := kit.Run(t, kit.With([]string{"verify", file}, r.Trust()...)...)
		if !strings.Contains(said, "are valid, and one chain") {
			t.Error(said)
		}
	}
	if os.Getenv("AGENTS_VERBOSE") != "" {
		t.Logf("%s\n%s\n%s", stdout, stderr, strings.Join(said, "\n"))
	}
}
