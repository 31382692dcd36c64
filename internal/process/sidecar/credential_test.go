package sidecar

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/check"
)

func TestFileSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		t.Helper()
		check.Must(t, os.WriteFile(path, []byte(s), 0o600))
	}
	want := func(f *fileSecret, secret string) {
		t.Helper()
		if got, err := f.Secret(t.Context()); err != nil || got != secret {
			t.Errorf("got %q, %v; want %q", got, err, secret)
		}
	}
	if _, err := newFileSecret(path); err == nil {
		t.Error("a file that is not there is a secret")
	}
	write("one\n")
	f, err := newFileSecret(path)
	check.Must(t, err)
	write("two\n")
	want(f, "one") // it works still, for all that is known
	f.Refused("another")
	want(f, "one")
	f.Refused("one")
	want(f, "two")
	f.Refused("one") // the answer to a call that was under way
	check.Must(t, os.Remove(path))
	want(f, "two")
	f.Refused("two")
	if s, err := f.Secret(t.Context()); err == nil || daemon.CodeOf(err) != " (custody_unavailable)" {
		t.Errorf("got %q, %v", s, err)
	}
	write("three")
	want(f, "three")
}
