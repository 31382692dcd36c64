package terminal_test

import (
	"testing"

	"github.com/actionproof/mediator/internal/terminal"
)

func TestSteering(t *testing.T) {
	for _, tt := range []struct{ text, plain, json string }{
		{"a line\n", "a line\n", "a line\n"},
		{"\u009b2J", "?2J", `\u009b2J`},        // C1: erases the screen
		{"\u007f\u0085", "??", `\u007f\u0085`}, // DEL, next line
		{"\u202egnp.exe", "?gnp.exe", `\u202egnp.exe`},
		{"\u2066x\u061c", "?x?", `\u2066x\u061c`},
		{"größer 🦊", "größer 🦊", "größer 🦊"},
	} {
		if got := terminal.Plain(tt.text); got != tt.plain {
			t.Errorf("%q: plain %q", tt.text, got)
		}
		if got := string(terminal.JSON([]byte(tt.text))); got != tt.json {
			t.Errorf("%q: in JSON %q", tt.text, got)
		}
	}
	if got := terminal.Indented("refused\nmediator: verified"); got != "refused\n    mediator: verified" {
		t.Errorf("%q", got)
	}
}
