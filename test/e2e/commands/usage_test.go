package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/program"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   string
		status int
	}{
		{"", program.Done}, {"help", program.Done}, {"--version", program.Done}, {"keys", program.Done},
		{"nonsense", program.Usage}, {"keys nonsense", program.Usage}, {"serve", program.Usage},
		{"serve --nonsense", program.Usage}, {"serve x", program.Usage},
		{"posts show", program.Usage}, {"posts list --admin nowhere", program.Usage}, {"posts list --limit x", program.Usage},
		{"posts list --limit 0", program.Usage}, {"posts list --limit -1", program.Usage},
		{"ledger accept", program.Usage}, {"ledger accept --config x --reason ", program.Usage},
		{"vault audit", program.Usage}, {"vault audit x --window 0", program.Usage},
		{"vault audit x --address y", program.Usage}, {"vault audit absent", program.Refused},
		{"posts list --since yesterday", program.Usage}, {"posts list --since 24h --until 48h", program.Usage},
		{"posts list --ledger absent --admin unix:x", program.Usage}, {"posts list --ledger absent", program.Refused},
		{"posts list --state indeterminat", program.Usage}, {"posts list --flow get", program.Usage},
		{"config schema x", program.Usage},
		{"run", program.Usage}, {"run --uid 4294967296 -- true", program.Usage},
		{"run --uid 4294967295 -- true", program.Usage}, {"run --uid -2 -- true", program.Usage},
		{"run --max-processes 31 -- true", program.Usage}, {"run --tmp-size 0 -- true", program.Usage},
		{"keys certify", program.Usage}, {"ca init --dir x", program.Usage}, {"challenge solve", program.Usage},
		{"serve --config absent", program.Refused}, {"deployment audit absent", program.Refused},
		{"posts list --admin unix:absent", program.Refused},
	} {
		var stdout, stderr bytes.Buffer
		if got := program.Run(t.Context(), strings.Fields(tt.args), strings.NewReader(""), &stdout, &stderr); got !=
			tt.status {
			t.Errorf("mediator %s: %d, want %d: %s", tt.args, got, tt.status, stderr.String())
		}
		if (stderr.Len() > 0) != (tt.status != program.Done) {
			t.Errorf("mediator %s: it says %q", tt.args, stderr.String())
		}
	}
}

// TestPrintsJSON: every command that prints a result can print it as JSON. --json has one meaning.
func TestPrintsJSON(t *testing.T) {
	t.Parallel()
	not := map[string]string{
		"serve": "runs", "trigger": "runs", "control": "runs", "reputation": "runs", "dev": "runs", "run": "is CMD's",
		"completion": "a script", "help": "text",
		"keys publish": "is JSON", "config schema": "is JSON", "challenge generate": "is JSON", "challenge solve": "is JSON",
		"challenge verify":  "is JSON",
		"capability verify": "is JSON", "hash-payload": "one word; its --json is ActionProof's, and hidden",
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
