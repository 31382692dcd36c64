package kit

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
)

// Invoke runs the command line and returns its exit status and what it said.
func Invoke(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, diag bytes.Buffer
	status = program.Run(t.Context(), args, strings.NewReader(""), &out, &diag)
	return status, out.String(), diag.String()
}

func WriteSecret(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString([]byte("a secret for a test, and for " + filepath.Base(path)))
	if err := files.WriteAbsent(path, []byte("whsec_"+secret)); err != nil {
		t.Fatal(err)
	}
}

// ThisProgram is the test binary, which is the program too.
func ThisProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Edit replaces a text in a file that has it.
func Edit(t *testing.T, file, old, new string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	check.Must(t, err)
	if !strings.Contains(string(raw), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	check.Must(t, os.WriteFile(file, []byte(strings.Replace(string(raw), old, new, 1)), 0o600))
}

func Read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	return raw
}

// OpenTo lets others pass through the folders of a test, which are closed by default.
func OpenTo(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		check.Must(t, os.Chmod(d, 0o711)) //nolint:gosec // on purpose
	}
}
