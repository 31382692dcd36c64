package pages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/demo"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
)

// TestDemo plays the demo. Each scenario has to go as expected.
func TestDemo(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := program.Run(t.Context(), []string{"demo", "--json"}, strings.NewReader(""), &stdout, &stderr); status !=
		program.Done {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) < 30 {
		t.Errorf("only %d scenarios were played", len(lines))
	}
	for _, line := range lines {
		var p demo.Result
		check.Must(t, json.Unmarshal([]byte(line), &p))
		if !p.OK || p.Expected != p.Happened {
			t.Errorf("%s: %s happened, not %s", p.Scenario, p.Happened, p.Expected)
		}
	}
}
