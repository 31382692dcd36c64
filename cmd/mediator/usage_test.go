package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitStatus(t *testing.T) {
	for _, tt := range []struct {
		args   string
		status int
	}{
		{"", exitDone}, {"help", exitDone}, {"version", exitDone}, {"keys", exitDone},
		{"nonsense", exitUsage}, {"keys nonsense", exitUsage}, {"serve", exitUsage}, {"serve --nonsense", exitUsage}, {"serve x", exitUsage},
		{"posts show", exitUsage}, {"posts list --admin nowhere", exitUsage}, {"posts list --limit x", exitUsage}, {"posts list --limit 0", exitUsage}, {"posts list --limit -1", exitUsage},
		{"ledger accept", exitUsage}, {"ledger accept --config x --reason ", exitUsage}, {"vault audit", exitUsage}, {"vault audit x --window 0", exitUsage}, {"vault audit x --address y", exitUsage}, {"vault audit absent", exitRefused},
		{"posts list --since yesterday", exitUsage}, {"posts list --since 24h --until 48h", exitUsage}, {"posts list --ledger absent --admin unix:x", exitUsage}, {"posts list --ledger absent", exitRefused},
		{"posts list --state indeterminat", exitUsage}, {"posts list --flow get", exitUsage}, {"config schema x", exitUsage},
		{"run", exitUsage}, {"run --uid 4294967296 -- true", exitUsage}, {"run --uid 4294967295 -- true", exitUsage}, {"run --uid -2 -- true", exitUsage}, {"run --max-processes 31 -- true", exitUsage}, {"run --tmp-size 0 -- true", exitUsage}, {"keys certify", exitUsage}, {"ca init --dir x", exitUsage}, {"challenge solve", exitUsage},
		{"serve --config absent", exitRefused}, {"deployment audit absent", exitRefused}, {"posts list --admin unix:absent", exitRefused},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), strings.Fields(tt.args), strings.NewReader(""), &stdout, &stderr); got != tt.status {
			t.Errorf("mediator %s: %d, want %d: %s", tt.args, got, tt.status, stderr.String())
		}
		if (stderr.Len() > 0) != (tt.status != exitDone) {
			t.Errorf("mediator %s: it says %q", tt.args, stderr.String())
		}
	}
}

// TestHelp: every command that is shown belongs to a group and has an example, and the examples name commands and flags that there are.
func TestHelp(t *testing.T) {
	root := rootCommand()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.GroupID == "" && !c.Hidden && c.Name() != "version" && c.Name() != "help" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		checkCommands(t, c.CommandPath()+" --help", root, c.Example)
		if c.Runnable() && !c.HasSubCommands() && !c.Hidden && c.Name() != "version" && c.Name() != "help" && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("the help of %s has no example of it", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// TestPrintsJSON: whatever prints a result prints it as JSON too, but for what stands here. --json has one meaning.
func TestPrintsJSON(t *testing.T) {
	not := map[string]string{
		"serve": "runs", "trigger": "runs", "control": "runs", "reputation": "runs", "dev": "runs", "demo model": "runs", "run": "is CMD's", "completion": "a script", "help": "text",
		"keys jwks": "is JSON", "evidence receipts": "tokens, one a line", "keys publish": "is JSON", "config schema": "is JSON", "challenge generate": "is JSON", "challenge solve": "is JSON", "challenge verify": "is JSON",
		"capability verify": "is JSON", "hash-payload": "one word; its --json is ActionProof's, and hidden", "ca show": "is PEM", "vault bootstrap": "commands, or what was done",
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
	walk(rootCommand())
}
