// Package python_test holds the package in Python to this implementation, and its README to what it says.
package python_test

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/differential"
)

const (
	python = "/usr/bin/python3" // with Debian's packages: run make setup
	root   = "../../../../packages/python"
)

var (
	requests = flag.Int("requests", 400, "the number of calls that both languages judge")
	seed     = flag.Uint64("seed", 1, "the same seed makes the same faults")
)

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	source, err := filepath.Abs(filepath.Join(root, "src"))
	check.Must(t, err)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if name == python {
		cmd.Env = append(cmd.Env, "PYTHONPATH="+source)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// TestPackage runs the package's own tests: the golden vectors, stores, and adapters.
func TestPackage(t *testing.T) {
	run(t, root, python, "-m", "unittest", "tests.test_vectors", "tests.test_gate", "tests.test_refusals",
		"tests.test_nginx")
}

func TestTypes(t *testing.T) {
	run(t, root, python, "-m", "mypy", "--cache-dir", t.TempDir())
}

// TestDifferential: one verdict in both languages, of every call and every trust.
func TestDifferential(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	f, err := os.Create(path)
	check.Must(t, err)
	w := bufio.NewWriter(f)
	differential.Write(t, w, *requests, *seed)
	check.Must(t, w.Flush())
	check.Must(t, f.Close())
	run(t, root, python, "tests/differential.py", path)
}

var block = regexp.MustCompile("(?s)```(sh|python)\n(.*?)```")

// TestReadme follows the README in a copy of the package.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	check.Must(t, err)
	dir := t.TempDir()
	for _, name := range []string{"src", "pyproject.toml", "README.md"} {
		run(t, root, "cp", "-r", name, dir)
	}
	followed := 0
	for _, m := range block.FindAllStringSubmatch(string(readme), -1) {
		if m[1] == "sh" {
			run(t, dir, "bash", "-euc", "export PATH=/usr/bin:$PATH\n"+m[2])
		} else {
			name, _, _ := strings.Cut(strings.TrimPrefix(m[2], "# "), "\n")
			check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(m[2]), 0o600))
		}
		followed++
	}
	if followed < 4 {
		t.Errorf("%d blocks", followed)
	}
}
