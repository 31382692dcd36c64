package records

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
)

// TestShowModel: the record of a call to a model says of each figure how it is known.
func TestShowModel(t *testing.T) {
	var out bytes.Buffer
	Print(&out, admin.Record{Record: ledger.Record{ID: "post_1", Model: &ledger.ModelCall{
		API: "openai-chat", Model: "gpt-5", AnsweredBy: "gpt-5-2025", Outcome: "complete", Hosted: []string{"web_search"},
		Input: &ledger.Figure{N: 9, State: "declared"}, Output: &ledger.Figure{N: 6, State: "estimated"}, End: &ledger.Figure{N: 1500, State: "observed"},
	}}})
	for _, want := range []string{
		"model        openai-chat complete, asked gpt-5, answered by gpt-5-2025, unseen web_search\n",
		"tokens       input 9 declared, output 6 estimated, cached not measured, reasoning not measured\n",
		"model ms     sent not measured, head not measured, first content not measured, end 1.5 observed\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it shows\n%s, and not %q", out.String(), want)
		}
	}
}

// TestShowRemedy: the record of a refusal says what to do; one with a code of another version of this program does not.
func TestShowRemedy(t *testing.T) {
	for code, want := range map[string]string{
		"egress_denied":  "  refused      egress_denied at step match: no\n  remedy       Add an egress rule for it.\n",
		"of_another_day": "  refused      of_another_day at step match: no\n  ms ",
		"":               "GET a.example.com:443/b\n  ms ",
	} {
		var out bytes.Buffer
		Print(&out, admin.Record{Record: ledger.Record{ID: "post_1", Method: "GET", Host: "a.example.com:443", Path: "/b", Code: code, Step: "match", Reason: "no"}})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: it shows\n%s, and not %q", code, out.String(), want)
		}
	}
}

// TestListedCallsAreShort: a call with a long path must not hide the others of the list.
func TestListedCallsAreShort(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out)
	if err := errors.Join(
		table.Add(ledger.Record{ID: "post_1", Method: "GET", Host: "a.example.com", Path: "/" + strings.Repeat("a", 60<<10)}),
		table.Add(ledger.Record{ID: "post_2", Method: "GET", Host: "a.example.com", Path: "/b"}), table.End()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[1], "aa…") || len(lines[1]) > 400 || !strings.HasSuffix(lines[2], "GET a.example.com/b") {
		t.Errorf("%.1000q", lines)
	}
}
