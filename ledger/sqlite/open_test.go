package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		file     func(t *testing.T, path string)
		sentence string
	}{
		{"no folder", func(t *testing.T, path string) { remove(t, filepath.Dir(path)) }, "no such file or directory"},
		{"a folder", func(t *testing.T, path string) { write(t, filepath.Join(path, "x"), nil) }, "open ledger.db"},
		{"no database", func(t *testing.T, path string) {
			write(t, path, bytes.Repeat([]byte("no database\n"), 500))
		}, "not a database"},
		{"a damaged schema", damaged, "malformed"},
		{"another schema version", another,
			"schema version 99 and this program needs 6: use the program that made it. " +
				"A new file would forget the records, and which keys are consumed"},
		{"a database of another program", foreign, "schema version 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "ledger.db")
			check.Must(t, os.Mkdir(filepath.Dir(path), 0o700))
			tt.file(t, path)
			before, _ := os.ReadFile(path)
			_, err := sqlite.Open(context.Background(), path, sqlite.Options{Now: ledgertest.Now})
			wantUnavailable(t, err, tt.sentence)
			if after, _ := os.ReadFile(path); !bytes.Equal(after, before) {
				t.Error("the refused file was changed")
			}
		})
	}
	if _, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{}); err == nil {
		t.Error("opened without a clock")
	}
}

func damaged(t *testing.T, path string) {
	t.Helper()
	check.Must(t, open(t, filepath.Dir(path)).Close())
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	copy(raw[100:], bytes.Repeat([]byte{0xff}, 1000))
	write(t, path, raw)
}

func another(t *testing.T, path string) { statements(t, path, "PRAGMA user_version = 99") }

func foreign(t *testing.T, path string) { statements(t, path, "CREATE TABLE theirs (n INTEGER)") }

func viewed(t *testing.T, path string) {
	statements(t, path, tables.Schema.Tables+fmt.Sprintf(`; PRAGMA user_version = %d`, tables.Schema.Version)+`; DROP TABLE posts;
		CREATE VIEW posts AS SELECT hex(zeroblob(400000000)) AS record`)
}

func statements(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("PRAGMA journal_mode = WAL; " + query)
	}
	check.Must(t, err, db.Close())
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600))
}

func remove(t *testing.T, path string) {
	t.Helper()
	check.Must(t, os.Remove(path))
}

// readOnlyVariable makes the test binary open the ledger that it names as a user who may only read it.
const readOnlyVariable = "LEDGER_READ_ONLY_AT"

func TestReadOnly(t *testing.T) {
	t.Run("file", func(t *testing.T) { testReadOnly(t, "ledger.db", 0o400, 0o600) })
	t.Run("folder", func(t *testing.T) { testReadOnly(t, ".", 0o500, 0o700) })
}

func testReadOnly(t *testing.T, name string, closed, opened os.FileMode) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	l := open(t, dir)
	k := ledger.Key{Kind: "capability", ID: "c", Expires: ledgertest.Now()}
	check.Must(t, l.Consume(context.Background(), k), l.Close(),
		os.Chmod(filepath.Join(dir, name), closed))
	if os.Geteuid() == 0 { // root may write everything: the child is to own the files and be nobody
		for _, p := range []string{filepath.Dir(dir), dir, path, path + ".lock"} {
			check.Must(t, os.Chown(p, nobody, nobody))
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), readOnlyVariable+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil ||
		!strings.Contains(string(out), filepath.Join(dir, name)+" cannot be written by user") {
		t.Fatalf("%v: %s", err, out)
	}
	check.Must(t, os.Chmod(filepath.Join(dir, name), opened))
	if err := open(t, dir).Consume(context.Background(), k); !errors.Is(err, ledger.ErrConsumed) {
		t.Errorf("the capability lives again: %v", err)
	}
}

const nobody = 65534

func openReadOnly(path string) {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	_, err := sqlite.Open(context.Background(), path, sqlite.Options{Now: ledgertest.Now})
	var e *ledger.Error
	if !errors.As(err, &e) {
		fmt.Println("not refused:", err)
		os.Exit(1)
	}
	fmt.Println(e)
	os.Exit(0)
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	entries, err := os.ReadDir(dir)
	check.Must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		check.Must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", e.Name(), info.Mode())
		}
	}
	if len(entries) != 4 {
		t.Errorf("got %v, want the database, its WAL, its index and the lock", entries)
	}
}
