package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/learn"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestLearn goes from a configuration without rules to the posts of a published agent, which nothing configures: with
// the preset for its model, one learning run, one mediator learn and one run. Its three MCP servers are of the SDKs for
// Go and TypeScript, and a published one. It has two APIs, of which one takes its post.
func TestLearn(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
	kit.NodeJS(t) // its packages
	hosts := []string{"notes.test", "echo.test", "everything.test", "items.test", "api.openai.com", kit.Plain[0]}
	r := kit.NewRig(t, hosts, func(r *kit.Rig) (http.Handler, string) {
		rules := "session: {learning: true}\n# mine\nactions: []\negress: []\n" + kit.Upstream
		for _, host := range hosts[:len(hosts)-1] {
			address := "UPSTREAM"
			if host == "echo.test" {
				address = kit.StartNode(t, r, "mcp-server.mjs").Address
			}
			rules += fmt.Sprintf("  - {host: \"%s:443\", address: \"%s\", networks: [127.0.0.0/8], ca: api-ca.pem}\n", host,
				address)
		}
		everything := kit.StartEverything(t)
		mux := http.NewServeMux()
		mux.Handle("/", r.GitHub(t))
		mux.Handle("notes.test/mcp", notes())
		mux.Handle("everything.test/mcp", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(everything)
		}})
		mux.Handle("api.openai.com/", &model{})
		mux.HandleFunc("GET items.test/items/{id}/parts", func(http.ResponseWriter, *http.Request) {})
		return mux, rules
	}, func(file string) string {
		return strings.Replace(file, "ca: {certificateFile: ca.pem}", "ca: {certificateFile: ca.pem, unconstrained: true}", 1)
	})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Stack.Serve(ctx) }() // as mediator dev does, for the reload
	t.Cleanup(func() { cancel(); <-served })
	agent := func(flags ...string) (string, error) {
		event := ""
		if len(flags) == 0 {
			event = r.Event(t)
		}
		cmd := r.RunCommand(t, event, append(flags, "--env", "OPENAI_API_KEY=any"), "node", "openai-agents-learns.mjs",
			r.Plain())
		cmd.Dir = "testdata"
		out, said, err := kit.Output(cmd)
		return out + said, err
	}
	kit.Run(t, "preset", "add", "openai-agents", "--dir", r.Dir)
	said, err := agent("--learn")
	if err != nil || r.Posts.Load() > 0 || strings.Count(said, "learning_refused") < 4 {
		t.Fatalf("%d posts, %v: %s", r.Posts.Load(), err, said)
	}

	// The proposals are the calls, and nothing else.
	mediator := func(args ...string) string { return kit.Run(t, append([]string{"learn", "--dir", r.Dir}, args...)...) }
	var proposals []learn.Proposal
	check.Must(t, json.Unmarshal([]byte(mediator("--json")), &proposals))
	var got []string
	for _, p := range proposals {
		got = append(got, p.About)
	}
	want := []string{"reads of https://items.test/items/{id}/parts", "reads of https://" + r.Plain() + "/repos/acme/site",
		"POST https://" + r.Plain() + "/repos/acme/site/issues/{id}/comments"}
	for host, tool := range map[string]string{"notes": "post_note", "echo": "issue_read", "everything": "echo"} {
		want = append(want, "sessions, lists and reads of the MCP server https://"+host+".test/mcp, by GET, POST and DELETE",
			"the tool "+tool+" of the MCP server https://"+host+".test/mcp")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("proposed %q, want %q: %s", got, want, said)
	}

	// The replay shows the calls of the run, and no other change.
	rules := r.In("rules.yaml")
	kit.Write(t, rules, strings.ReplaceAll(mediator("--yaml"), `subject: ""`, "subject: agent:worker-1"))
	var changes []struct{ Call, Before, After string }
	check.Must(t, json.Unmarshal([]byte(mediator("--replay", rules, "--json")), &changes))
	for _, c := range changes {
		if c.Before != "egress_denied" && c.Before != "action_unmatched" || !strings.Contains(c.After, " rule ") &&
			!strings.Contains(c.After, "action ") {
			t.Errorf("changes %+v", c)
		}
	}
	if len(changes) < len(proposals) {
		t.Errorf("%d changes", len(changes))
	}

	shown, keys := answer(t, exec.CommandContext(t.Context(), "/proc/self/exe", "learn", "--dir", r.Dir))
	config := string(kit.Read(t, r.In(devstack.SidecarFile)))
	if !strings.Contains(config, "# mine\nactions:\n  - name: ") || !strings.Contains(config, "{tools: [post_note]}") ||
		!strings.Contains(config, "{tools: [issue_read], methods: []}") ||
		!strings.Contains(config, "{tools: [echo], methods: []}") {
		t.Fatalf("written\n%s\nafter\n%s", config, shown)
	}
	if said := mediator(); said != "the rules allow every call that can be learnt\n" {
		t.Errorf("then it proposes %s", said)
	}
	said, err = agent()
	if err != nil || r.Posts.Load() != 1 || !strings.Contains(said, "post_note done") ||
		!strings.Contains(said, "echo: hello") || !strings.Contains(said, "Echo: hello") {
		t.Fatalf("%d posts, %v: %s", r.Posts.Load(), err, said)
	}
	posts := r.Records(t, "limit=1000&flow=post")
	if len(posts) != 2 || slices.ContainsFunc(posts, func(p ledger.Record) bool {
		return p.State != ledger.StateForwarded
	}) {
		t.Errorf("posts %+v", posts)
	}
	for _, p := range posts {
		r.WantAssurance(t, p)
	}
	t.Logf("a person typed four commands and %d keys", keys)
}

// answer runs mediator learn on a terminal: it accepts every read, the tools of two servers as reads, and posts.
func answer(t *testing.T, cmd *exec.Cmd) (shown string, keys int) {
	t.Helper()
	const flags = os.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	terminal, err := os.OpenFile("/dev/ptmx", flags, 0)
	check.Must(t, err)
	defer terminal.Close()
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	check.Must(t, errors.Join(err, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)))
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), flags, 0)
	check.Must(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	check.Must(t, errors.Join(cmd.Start(), theirs.Close()))
	var all, since bytes.Buffer
	tool := false
	for buffer := make([]byte, 4096); ; {
		n, err := terminal.Read(buffer)
		if err != nil { // the terminal's last process has ended
			break
		}
		all.Write(buffer[:n])
		since.Write(buffer[:n])
		text, key := since.String(), ""
		tool = tool || strings.Contains(text, "  the tool ")
		switch {
		case strings.HasSuffix(text, "(Enter accepts) \r\n"):
			key, tool = "\n", false
		case strings.HasSuffix(text, "(Enter skips) \r\n") && tool && !strings.Contains(text, "notes.test") &&
			!strings.Contains(text, "  egress:"):
			key = "p"
		case strings.HasSuffix(text, "(Enter skips) \r\n"):
			key = "a"
		case strings.HasSuffix(text, "that posts [agent:worker-1]: "):
			key = "\n"
		case strings.Contains(text, "bearer token") && strings.HasSuffix(text, ": "):
			if strings.Contains(text, "token, - for none [") {
				t.Errorf("the token of another host is offered: %s", text)
			}
			if key = "secrets/api-token\n"; tool {
				key = "-\n"
			}
			tool = false
		case strings.HasSuffix(text, "y/n "):
			key = "y"
		}
		if key != "" {
			keys += len(key)
			since.Reset()
			_, err := terminal.WriteString(key)
			check.Must(t, err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &all)
	}
	return all.String(), keys
}
