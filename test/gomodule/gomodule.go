// Package gomodule finds the test vectors that a Go module ships. They are read in the module cache and not copied,
// because the module's published checksum covers what is there.
package gomodule

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Dir returns the folder of a module that go.mod names.
func Dir(t testing.TB, path string) string {
	t.Helper()
	return strings.TrimSpace(string(command(t, "list", "-m", "-f", "{{.Dir}}", path)))
}

// Download returns the folder of a module that go.mod does not name, and refuses one with another checksum.
func Download(t testing.TB, module, sum string) string {
	t.Helper()
	var m struct{ Dir, Sum string }
	if err := json.Unmarshal(command(t, "mod", "download", "-json", module), &m); err != nil || m.Sum != sum {
		t.Fatalf("the module %s has checksum %s, not %s (%v)", module, m.Sum, sum, err)
	}
	return m.Dir
}

func command(t testing.TB, args ...string) []byte {
	t.Helper()
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("go %v: %v: %s; run make setup", args, err, out)
	}
	return out
}
