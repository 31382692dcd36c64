package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for status, lines := range map[int]string{
		program.Done: `
			help
			--version
			keys`,
		program.Refused: `
			vault audit absent
			posts list --ledger absent
			posts list --admin unix:absent
			serve --config absent
			deployment hash absent`,
		program.Usage: `
			nonsense
			keys nonsense
			serve
			serve --nonsense
			serve x
			posts show
			posts list --admin nowhere
			posts list --limit x
			posts list --limit 0
			posts list --limit -1
			posts list --since yesterday
			posts list --since 24h --until 48h
			posts list --ledger absent --admin unix:x
			posts list --state indeterminat
			posts list --flow get
			ledger accept
			ledger accept --config x --reason
			vault audit
			vault audit x --address y
			config schema x
			run
			run --uid 4294967296 -- true
			run --uid 4294967295 -- true
			run --uid -2 -- true
			run --max-processes 31 -- true
			run --tmp-size 0 -- true
			keys certify
			ca init --dir x
			challenge solve`,
	} {
		for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
			e := kit.Mediator(t, strings.Fields(line)...)
			if e.Status != status || (e.Said != "") != (status != program.Done) {
				t.Errorf("mediator %s: %d, want %d: %s", line, e.Status, status, e.Said)
			}
		}
	}
	kit.Mediator(t).Done()
}

// Every command that prints a result can print it as JSON. --json has one meaning.
func TestPrintsJSON(t *testing.T) {
	t.Parallel()
	not := map[string]string{
		"serve": "runs", "trigger": "runs", "control": "runs", "reputation": "runs", "dev": "runs", "console": "runs", "run": "is CMD's",
		"completion": "a script", "help": "text",
		"config schema": "is JSON", "challenge generate": "is JSON", "challenge solve": "is JSON",
		"challenge verify":  "is JSON",
		"capability verify": "is JSON", "reputation show": "is JSON", "dispute resolve": "a token, or is JSON",
		"dispute clock":   "a token, or is JSON",
		"hash-payload":    "one word; its --json is ActionProof's, and hidden",
		"preset add":      "a difference",
		"vault bootstrap": "commands, or what was done",
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "mediator ")
		f := c.Flags().Lookup("json")
		if f != nil && !f.Hidden && !strings.HasPrefix(f.Usage, "print ") {
			t.Errorf("mediator %s --json: %s", name, f.Usage)
		}
		if c.HasSubCommands() || c.Hidden || not[name] != "" {
			return
		}
		if f == nil {
			t.Errorf("mediator %s has no --json", name)
		}
	}
	walk(program.Command())
}

func TestOtherEndpoint(t *testing.T) {
	t.Parallel()
	at := kit.Publish(t, "trigger.sock")
	kit.Mediator(t, "posts", "list", "--admin", at).Refused(
		"the server at " + at + " does not know GET /v1/posts")
}

func TestSecondDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release, err := devstack.Hold(dir)
	check.Must(t, err)
	defer release()
	// what a start would set aside
	kit.Write(t, filepath.Join(dir, devstack.BundleFile), "{}")
	list := func() string {
		all, err := os.ReadDir(dir)
		check.Must(t, err)
		return fmt.Sprint(all)
	}
	before := list()
	kit.Mediator(t, "dev", "--dir", dir).Refused(fmt.Sprintf("mediator: process %d runs in %s already: end it first, "+
		"or give this one a folder of its own with --dir (listen_failed)\n", os.Getpid(), dir))
	if after := list(); after != before || strings.Contains(after, devstack.SidecarFile) {
		t.Errorf("the folder was changed, from\n%s\nto\n%s", before, after)
	}
}

func TestMain(m *testing.M) { kit.Main(m, nil) }

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../../configs")
	check.Must(t, err)
	chain := writeEvidence(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("EXAMPLES", examples)
		e.Setenv("EVIDENCE", chain)
		e.Setenv("GORACE", os.Getenv("GORACE"))
		return nil
	}})
}
