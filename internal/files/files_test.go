package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/test/check"
)

func TestWrites(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	want := func(name, content string, mode fs.FileMode) {
		t.Helper()
		raw, err := os.ReadFile(at(name))
		if err != nil || string(raw) != content {
			t.Errorf("%s holds %q, %v; want %q", name, raw, err, content)
		}
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	for range 2 {
		if err := files.WriteAbsent(at("absent"), []byte("one")); err != nil {
			t.Error(err)
		}
	}
	want("absent", "one", 0o600)
	if err := files.WriteNew(at("new"), []byte("two"), 0o644); err != nil {
		t.Error(err)
	}
	if err := files.WriteNew(at("new"), []byte("three"), 0o644); err == nil ||
		!strings.Contains(err.Error(), "move it away first") {
		t.Errorf("a second time: %v", err)
	}
	want("new", "two\n", 0o644)
	if err := files.Replace(at("new"), []byte("four"), 0o600); err != nil {
		t.Error(err)
	}
	want("new", "four", 0o600)
	if err := files.Replace(filepath.Join(at("nowhere"), "x"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if left, err := filepath.Glob(at(".new-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A pipe in place of a file holds nobody up.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	check.Must(t, unix.Mkfifo(path, 0o600))
	if raw, err := files.Read(path); err != nil || len(raw) > 0 {
		t.Errorf("%q, %v", raw, err)
	}
	r, w, err := os.Pipe()
	check.Must(t, err)
	defer r.Close()
	go func() { _, _ = w.WriteString("whole"); w.Close() }()
	if raw, err := files.Read(fmt.Sprint("/dev/fd/", r.Fd())); err != nil || string(raw) != "whole" {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestReadsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(path, []byte("secret\r\n"), 0o600))
	if _, err := files.ReadUpTo(path, 7); err == nil || !strings.Contains(err.Error(), "is larger than the 7 bytes") {
		t.Errorf("8 bytes in 7: %v", err)
	}
	if raw, err := files.ReadUpTo(path, 8); err != nil || len(raw) != 8 {
		t.Errorf("8 bytes in 8: %q, %v", raw, err)
	}
	if s, err := files.ReadSecret(path, 6); err != nil || s != "secret" {
		t.Errorf("a secret with a line end: %q, %v", s, err)
	}
	if _, err := files.ReadSecret(path, 7); err == nil || strings.Contains(err.Error(), "secret\"") {
		t.Errorf("a secret that is too short: %v", err)
	}
}

func TestLockFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	check.Must(t, errors.Join(os.Chmod(dir, 0o775), os.WriteFile(secret, nil, 0o600),
		os.Symlink(secret, filepath.Join(dir, "trust.json.lock"))))
	if _, err := files.WaitLock(filepath.Join(dir, "trust.json")); err == nil {
		t.Error("a link is a lock")
	}
	if info, err := os.Stat(secret); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file behind a link has the mode %v, %v", info.Mode(), err)
	}
}
