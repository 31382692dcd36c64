package postgres_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/check"
)

func TestInstance(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	name, held, err := postgres.Instance(dir)
	if err != nil || name == "" {
		t.Fatal(name, err)
	}
	_, _, err = postgres.Instance(dir)
	wantUnavailable(t, err, "in use")
	check.Must(t, held.Close())
	for _, tt := range []struct {
		dir  string
		same bool
	}{{dir, true}, {other, false}} {
		again, held, err := postgres.Instance(tt.dir)
		if err != nil || (again == name) != tt.same {
			t.Errorf("got %q, %v, after %q", again, err, name)
		}
		held.Close()
	}
	for _, bad := range []string{"", "short\n"} {
		check.Must(t, os.WriteFile(filepath.Join(dir, "instance"), []byte(bad), 0o600))
		_, _, err = postgres.Instance(dir)
		wantUnavailable(t, err, "remove it")
	}
	check.Must(t, os.Remove(filepath.Join(dir, "instance.lock")))
	check.Must(t, os.RemoveAll(dir))
	_, _, err = postgres.Instance(dir)
	wantUnavailable(t, err, "no such file")
}
