package records

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/ledger"
)

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
			_, _ = table.Add(r), table.Flush()
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

func TestJSONOfRecords(t *testing.T) {
	const forged = "\u009b2J\u202e\x7f\x1b\u00e9\u20ac\U0001f600"
	r := ledger.Record{ID: forged, Model: &ledger.ModelCall{Model: forged}}
	for name, print := range map[string]func(io.Writer) error{
		"a record": func(w io.Writer) error { return cli.WriteJSON(w, r) },
		"a line":   func(w io.Writer) error { return cli.WriteJSONLine(w, r) },
	} {
		var out bytes.Buffer
		if err := print(&out); err != nil || strings.ContainsAny(out.String(), "\u009b\u202e\x7f\x1b") {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
		text := out.String()
		var got ledger.Record
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.ID != forged || got.Model.Model != forged ||
			!strings.Contains(text, "\u00e9\u20ac\U0001f600") {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
}
