package body

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestFullSpool: a full disk is not a broken body.
func TestFullSpool(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check.Must(t, err)
	defer full.Close()
	_, err = spoolFile{full}.Write([]byte("x"))
	check.WantCode(t, err, "ledger_unavailable")
}

func TestTurns(t *testing.T) {
	b := NewStore(Limits{}, t.TempDir())
	var taken []func()
	for i := range runtime.GOMAXPROCS(0) {
		done, err := b.Turn(t.Context(), fmt.Sprint(i), small+1)
		check.Must(t, err)
		taken = append(taken, done)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Turn(over, "other", small+1)
	check.WantCode(t, err, "overloaded")
	done, err := b.Turn(over, "other", small)
	check.Must(t, err)
	done()
	taken[0]()
	done, err = b.Turn(t.Context(), "other", small+1)
	check.Must(t, err)
	done()
}
