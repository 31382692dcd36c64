package start

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/demo"
)

func TestPrintPlayed(t *testing.T) {
	for want, p := range map[string]demo.Result{
		"ok       13 ms  no session → session_required\n": {Scenario: "no session",
			Expected: "session_required", Happened: "session_required", OK: true, Millis: 12.7},
		"FAIL      3 ms  no session → 201 (expected: session_required)\n": {Scenario: "no session",
			Expected: "session_required", Happened: "201", Millis: 3},
	} {
		var out strings.Builder
		if printPlayed(&out, p); out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}
