package tables

import (
	"testing"

	"github.com/actionproof/mediator/ledger"
)

// TestRepeatingDatabase reads from a database that gives the same page for ever.
func TestRepeatingDatabase(t *testing.T) {
	for _, q := range []ledger.Query{{}, {OldestFirst: true}} {
		var last error
		read := 0
		for _, last = range pages(q, nil, func(_ position, rows int) (page, error) {
			if read++; read > 2 {
				t.Fatal("the same page is read for ever")
			}
			return page{records: make([]ledger.Record, rows), rows: rows, last: position{1, 1}}, nil
		}) {
		}
		if last == nil {
			t.Error("a list that repeats itself seems complete")
		}
	}
}
