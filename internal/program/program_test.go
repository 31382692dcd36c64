package program_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/program"
)

// A command that was called wrongly names its own help.
func TestWrongCalls(t *testing.T) {
	for args, help := range map[string]string{
		"preset add github --yes": "mediator preset add",
		"preset add":              "mediator preset add",
		"posts lst":               "mediator posts",
		"psts":                    "mediator",
	} {
		var stderr strings.Builder
		status := program.Run(t.Context(), strings.Fields(args), strings.NewReader(""), &stderr, &stderr)
		if status != program.Usage || !strings.HasSuffix(stderr.String(), "\nSee "+help+" --help.\n") {
			t.Errorf("%s: status %d\n%s", args, status, &stderr)
		}
	}
}
