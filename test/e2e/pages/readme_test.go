package pages

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// shellBlocks returns what a reader of README copies into a shell, block by block.
func shellBlocks(t *testing.T, text string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// TestReadme copies README's ten minutes into a shell in an empty folder, block by block as they stand there. Only what
// builds the program is left out, and mediator dev gets a terminal of its own: it runs in the background. The
// namespaces keep README's ports apart from those of other tests, and end whatever the blocks start.
func TestReadme(t *testing.T) {
	t.Parallel()
	full.Only(t, "root, curl, zsh, openssl, python3")
	raw := kit.Read(t, "../../../README.md")
	blocks := shellBlocks(t, string(raw))
	if len(blocks) < 3 || !strings.HasPrefix(blocks[0], "make build\n") || blocks[1] != "mediator dev\n" {
		t.Fatalf("README does not begin with make build and mediator dev: %q", blocks)
	}
	self, err := os.Executable()
	check.Must(t, err)
	bin := t.TempDir()
	// by this name the test binary is the program: see TestMain
	check.Must(t, os.Symlink(self, filepath.Join(bin, "mediator")))
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
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			inside := append(
				[]string{"--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", `ip link set lo up && exec "$@"`,
					"sh", kit.Need(t, shell)}, args...)
			cmd := exec.CommandContext(ctx, kit.Need(t, "unshare"), inside...)
			cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(paste)
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			cmd.WaitDelay = time.Minute
			raw, err := cmd.CombinedOutput()
			out := string(raw)
			if err != nil {
				started, _ := os.ReadFile(filepath.Join(cmd.Dir, "dev.log"))
				t.Fatalf("%v\n%s\nmediator dev: %s", err, out, started)
			}
			for _, want := range []string{
				": reloaded: ", `"kind":"source_event"`, `the API got {"title": "hello"} with Bearer token-of-the-api`,
				`"code":"event_closed"`,
				"POST api.test:443/posts",
				"1 verified, 1 verified in part (the mediator refused the post), 0 REFUSED by this check",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("nothing says %q", want)
				}
			}
			if strings.Contains(out, "the API got {\"title\": \"again\"}") {
				t.Error("the second post reached the API")
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
