// Package kit is what the tests of the whole program share. A test binary that starts by [Main] is the program too, so
// that deployments run real processes, with the race detector where the tests have it.
package kit

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/internal/program"
)

// Main runs the tests of a package. Where the first argument is no flag, the process is the program instead, or one of
// the package's own helpers, by that argument.
func Main(m *testing.M, helpers map[string]func(args []string) int) {
	// A process with the race detector sleeps a second before it ends. The tests start hundreds.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		if helper := helpers[os.Args[1]]; helper != nil {
			os.Exit(helper(os.Args[2:]))
		}
		program.Main()
	}
	testscript.Main(m, map[string]func(){"mediator": program.Main})
}
