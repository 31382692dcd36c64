package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestIdentity(t *testing.T) {
	ledgertest.RunIdentity(t, func(t *testing.T, place string) ledger.Identified { return open(t, place) },
		func(t *testing.T, place string) ledger.Identified {
			remove(t, filepath.Join(place, "ledger.db"))
			return open(t, place)
		},
		func(t *testing.T, place string) (back func()) {
			path := filepath.Join(place, "ledger.db")
			kept := read(t, path)
			return func() {
				if err := os.WriteFile(path, kept, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
}

// TestIdentityOfEarlierLedgers opens a ledger that has no identity yet: it gets one, and is used.
func TestIdentityOfEarlierLedgers(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	statements(t, filepath.Join(dir, "ledger.db"), "DROP TABLE identity; DROP TABLE accepted")
	first, err := open(t, dir).Identity(t.Context())
	if err != nil || first.ID == "" || first.Mark != 1 {
		t.Errorf("got %+v, %v", first, err)
	}
}
