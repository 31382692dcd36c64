package keyring

import (
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func FuzzRootKey(f *testing.F) {
	for _, postQuantum := range []bool{false, true} {
		_, raw, err := GenerateRoot("root", postQuantum)
		check.Must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := parseRootKey(raw)
		switch {
		case err != nil && err != errRootKey && err != errPostQuantum:
			t.Errorf("it says %v", err)
		case err == nil && k.version.KeyID() == "":
			t.Errorf("%q is a key without a kid", raw)
		}
	})
}
