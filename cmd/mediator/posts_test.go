package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
)

// TestListedCallsAreShort: a call with a long path must not hide the others of the list.
func TestListedCallsAreShort(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out)
	must(t, errors.Join(
		table.add(ledger.Record{ID: "post_1", Method: "GET", Host: "a.example.com", Path: "/" + strings.Repeat("a", 60<<10)}),
		table.add(ledger.Record{ID: "post_2", Method: "GET", Host: "a.example.com", Path: "/b"}), table.end()))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[1], "aa…") || len(lines[1]) > 400 || !strings.HasSuffix(lines[2], "GET a.example.com/b") {
		t.Errorf("%.1000q", lines)
	}
}
