package credential_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/test/check"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		t.Helper()
		check.Must(t, os.WriteFile(path, []byte(s), 0o600))
	}
	want := func(f credential.Source, secret string) credential.Value {
		t.Helper()
		got, err := f.Current(t.Context())
		if err != nil || got.Secret != secret {
			t.Errorf("got %q, %v; want %q", got.Secret, err, secret)
		}
		return got
	}
	if _, err := credential.File(path, nil); err == nil {
		t.Error("a file that is not there is a secret")
	}
	write("one\n")
	f, err := credential.File(path, nil)
	check.Must(t, err)
	write("two\n")
	one := want(f, "one") // it works still, for all that is known
	f.Refused(credential.Value{Secret: "another"})
	want(f, "one")
	f.Refused(one)
	two := want(f, "two")
	f.Refused(one) // the answer to a call that was under way
	check.Must(t, os.Remove(path))
	want(f, "two")
	f.Refused(two)
	_, err = f.Current(t.Context())
	check.WantCode(t, err, "custody_unavailable")
	write("three")
	want(f, "three")
}
