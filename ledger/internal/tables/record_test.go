package tables_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/test/check"
)

// TestPathsAreNotEscaped: docs/operations/capacity.md says how long the record of a call gets.
func TestPathsAreNotEscaped(t *testing.T) {
	r := ledger.Record{ID: "post_1", State: ledger.StateForwarded, Path: "/" + strings.Repeat("&", 60<<10),
		Artifacts: []ledger.Artifact{{Name: "a", Token: "<&>"}}, Started: time.Now()}
	record, artifacts, err := tables.Encode(r)
	check.Must(t, err)
	outcome, err := tables.Outcome(r)
	check.Must(t, err)
	if n := max(len(record), len(outcome)); n > 61<<10 || artifacts != `[{"name":"a","token":"<&>"}]` {
		t.Errorf("a record of %d bytes, with the artifacts %s", n, artifacts)
	}
}
