package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/ledger"
)

// TestInstance shows that a folder keeps its name, that two folders have two, and that one process at a time has it.
func TestInstance(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	name, held, err := ledger.Instance(dir)
	if err != nil || name == "" {
		t.Fatal(name, err)
	}
	_, _, err = ledger.Instance(dir)
	wantUnavailable(t, err, "in use")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir  string
		same bool
	}{{dir, true}, {other, false}} {
		again, held, err := ledger.Instance(tt.dir)
		if err != nil || (again == name) != tt.same {
			t.Errorf("got %q, %v, after %q", again, err, name)
		}
		held.Close()
	}
	for _, bad := range []string{"", "short\n"} {
		write(t, filepath.Join(dir, "instance"), []byte(bad))
		_, _, err = ledger.Instance(dir)
		wantUnavailable(t, err, "remove it")
	}
	remove(t, filepath.Join(dir, "instance.lock"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, _, err = ledger.Instance(dir)
	wantUnavailable(t, err, "no such file")
}
