package ledger_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/ledgertest"
)

// TestReceiptsOfEarlierLedgers: a ledger that an earlier program has made gets the tables when it is opened. A copy of it has no receipts.
func TestReceiptsOfEarlierLedgers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	statements(t, path, "DROP TABLE receipts; DROP TABLE open_calls")
	c, err := ledger.OpenCopy(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if none, err := c.Chain(t.Context(), "ses_1", 1, 10); err != nil || len(none) != 0 {
		t.Errorf("the chain in a copy: %v, %v", none, err)
	}
	if _, err := c.LastReceipt(t.Context(), "ses_1"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the last one: %v", err)
	}
	one := ledger.Receipt{Session: "ses_1", Number: 1, Call: "post_1", Signed: ledgertest.Now(), Token: "e30.e30.AA"}
	l := open(t, dir)
	if err := l.AddReceipts(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if last, err := l.LastReceipt(t.Context(), "ses_1"); err != nil || last != one {
		t.Errorf("got %+v, %v", last, err)
	}
}
