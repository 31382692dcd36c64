package pages

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/demo"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// TestReadme copies README's ten minutes into a shell, block by block. The namespaces keep its ports apart from those
// of other tests, and end all that it starts.
func TestReadme(t *testing.T) {
	t.Parallel()
	full.Only(t, "root, curl, zsh, openssl, python3")
	var blocks []string
	fenced := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for _, m := range fenced.FindAllStringSubmatch(string(kit.Read(t, "../../../README.md")), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) < 3 || !strings.HasPrefix(blocks[0], "make build\n") || blocks[1] != "mediator dev\n" {
		t.Fatalf("README does not begin with make build and mediator dev: %q", blocks)
	}
	bin := t.TempDir()
	check.Must(t, os.Symlink(kit.Self(t), bin+"/mediator")) // see kit.Main
	paste := "mediator dev > dev.log 2>&1 &\nuntil grep -q '^ready' dev.log; do sleep .1; done\n"
	for _, block := range blocks[2:] {
		paste += block
		if strings.HasSuffix(block, "python3 api.py &\n") { // a reader takes longer than Python to start
			paste += "until curl -sko api.answer https://127.0.0.1:9443; do sleep .1; done\n"
		}
	}
	paste += `until grep -q '"code":"event_closed"' dev.log; do sleep .1; done` + "\n" // mediator dev shows the calls
	for shell, args := range map[string][]string{"bash": {"--norc", "-e"},
		"zsh": {"-f", "-e", "+o", "interactive_comments", "-s"}} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inside := append([]string{"sh", "-c", `ip link set lo up && exec "$@"`, "sh", kit.Need(t, shell)}, args...)
			out, err := apart(t, dir, paste, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, inside...)
			if err != nil {
				started, _ := os.ReadFile(dir + "/dev.log")
				t.Fatalf("%v\n%s\nmediator dev: %s", err, out, started)
			}
			wantSaid(t, out,
				": reloaded: ", `"kind":"source_event"`, `the API got {"title": "hello"} with Bearer token-of-the-api`,
				`"code":"event_closed"`, "POST api.test:443/posts",
				"1 verified, 1 incomplete (their records say that the post was refused), 0 REFUSED\n")
			if strings.Contains(out, "the API got {\"title\": \"again\"}") {
				t.Error("the second post reached the API")
			}
		})
	}
}

func apart(t *testing.T, dir, stdin string, env []string, args ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, kit.Need(t, "unshare"), append([]string{"--mount", "--net", "--pid", "--mount-proc",
		"--fork", "--kill-child"}, args...)...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = dir, strings.NewReader(stdin), time.Minute
	cmd.Env = append(os.Environ(), env...)
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}

func wantSaid(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(kit.Mediator(t, "demo", "--json").Done().Out), "\n")
	if len(lines) < 30 {
		t.Errorf("only %d scenarios were played", len(lines))
	}
	for _, line := range lines {
		var p demo.Result
		check.Must(t, json.Unmarshal([]byte(line), &p))
		if !p.OK || p.Expected != p.Happened {
			t.Errorf("%s: %s happened, not %s", p.Scenario, p.Happened, p.Expected)
		}
	}
}

func TestMain(m *testing.M) { kit.Main(m, nil) }
