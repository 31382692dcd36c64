package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/actionproof/mediator/test/full"
)

// BuildProgram builds the program as it is released. With the flags that make build has, nothing is compiled that has not been for it.
func BuildProgram(t *testing.T, more ...string) (binary string) {
	t.Helper()
	full.Only(t, "time to build the program")
	binary = filepath.Join(t.TempDir(), "mediator")
	build := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary}, more, []string{"./cmd/mediator"})...)
	build.Dir = Top
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}
