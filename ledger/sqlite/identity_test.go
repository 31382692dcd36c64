package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestIdentity(t *testing.T) {
	open := func(t *testing.T, place string) ledger.Identified { return openKeeping(t, place, time.Hour) }
	ledgertest.RunIdentity(t, open,
		func(t *testing.T, place string) ledger.Identified {
			remove(t, filepath.Join(place, "ledger.db"))
			return open(t, place)
		},
		func(t *testing.T, place string) (back func()) {
			path := filepath.Join(place, "ledger.db")
			kept := read(t, path)
			return func() {
				check.Must(t, os.WriteFile(path, kept, 0o600))
			}
		})
}

func TestKnownLedgerIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: ledgertest.Now, Known: true})
	var replaced *ledger.ReplacedError
	if !errors.As(err, &replaced) || !strings.Contains(replaced.Error(), "ledger.db is missing") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
