package chart_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
)

const (
	top  = "../../../"
	page = top + "docs/operations/kubernetes.md"
)

// reader follows a section of the page: it types the commands as they stand there, in a folder with the repository's
// deploy. Words that the page leaves to its reader are replaced.
type reader struct {
	t        *testing.T
	dir      string
	env      []string
	all      []string // the section's blocks
	commands []string // those that were not yet followed
	words    *strings.Replacer
}

// newReader reads the section, and finds kubectl, helm, mediator and vault.
func newReader(t *testing.T, c *cluster.Cluster, section string, words ...string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), words: strings.NewReplacer(words...)}
	raw, err := os.ReadFile(page)
	check.Must(t, err)
	_, text, found := strings.Cut(string(raw), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %s", page, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, paragraph := range strings.Split("\n"+text, "\n\n") {
		if strings.HasPrefix(paragraph, "    ") {
			r.commands = append(r.commands, paragraph)
		}
	}
	r.all = r.commands
	absolute, err := filepath.Abs(top)
	check.Must(t, err)
	check.Must(t, os.Symlink(filepath.Join(absolute, "deploy"), r.at("deploy")), os.Mkdir(r.at("bin"), 0o755))
	for _, name := range []string{"helm", "kubectl"} {
		check.Must(t, os.Symlink(tool(t, name), r.at("bin/"+name)))
	}
	r.env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+r.dir,
		fmt.Sprintf("PATH=%s:%s:%s", r.at("bin"), filepath.Join(absolute, "bin"), os.Getenv("PATH")))
	return r
}

func (r *reader) at(name string) string { return filepath.Join(r.dir, name) }

func (r *reader) write(name string, content []byte) {
	r.t.Helper()
	check.Must(r.t, os.WriteFile(r.at(name), content, 0o600))
}

// follow types the section's next block, which begins with these words.
func (r *reader) follow(begins string) string {
	r.t.Helper()
	if len(r.commands) == 0 || !strings.HasPrefix(strings.TrimSpace(r.commands[0]), begins) {
		r.t.Fatalf("the page's next commands are %q, and not %s", r.commands, begins)
	}
	script := r.words.Replace(r.commands[0])
	r.commands = r.commands[1:]
	return r.enter(script)
}

// again types a block of the section once more, with other words in some places.
func (r *reader) again(begins string, words ...string) string {
	r.t.Helper()
	at := slices.IndexFunc(r.all, func(b string) bool { return strings.HasPrefix(strings.TrimSpace(b), begins) })
	return r.enter(r.words.Replace(strings.NewReplacer(words...).Replace(r.all[at])))
}

func (r *reader) enter(script string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return string(out)
}

// done fails the test if the page has more commands.
func (r *reader) done() {
	r.t.Helper()
	if len(r.commands) > 0 {
		r.t.Errorf("the page has more commands: %q", r.commands)
	}
}
