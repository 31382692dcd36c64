package records

import (
	"bytes"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
)

// TestTextsOfRecords: what an agent, or the author of a ledger, chose draws no line and no column of its own.
func TestTextsOfRecords(t *testing.T) {
	const forged = "x\n  check        ok      grant\tforged"
	r := ledger.Record{
		ID: forged, Flow: forged, State: forged, Session: forged, Event: forged, Rule: forged, Subject: forged,
		Action: forged, Message: forged,
		Code: forged, Step: forged, Reason: forged, Host: forged, Path: forged, Method: forged, Keys: []string{forged},
		Model: &ledger.ModelCall{API: forged, Model: forged, AnsweredBy: forged, Outcome: forged, Error: forged,
			Hosted: []string{forged}},
		Checks: []ledger.Check{{Name: forged, Code: forged, Detail: forged}}, Steps: []ledger.Step{{Name: forged}},
		Interactions: &ledger.Standing{Number: 1, Open: []string{forged}},
	}
	list := func(keys bool) func(*bytes.Buffer) {
		return func(out *bytes.Buffer) {
			table := newTable(out, keys)
			_, _ = table.Add(r), table.End()
		}
	}
	for name, print := range map[string]func(*bytes.Buffer){
		"a record": func(out *bytes.Buffer) { Print(out, admin.Record{Record: r}) },
		"a call":   func(out *bytes.Buffer) { _ = PrintCall(out, r, false) },
		"a list":   list(false),
		"keys":     list(true),
	} {
		var out bytes.Buffer
		print(&out)
		if strings.Contains(out.String(), "\n  check        ok ") || strings.Contains(out.String(), "\t") ||
			!strings.Contains(out.String(), "grant?forged") {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}
