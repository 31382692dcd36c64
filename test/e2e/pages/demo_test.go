package pages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/demo"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(kit.Mediator(t, "demo", "--json").Done().Out), "\n")
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
