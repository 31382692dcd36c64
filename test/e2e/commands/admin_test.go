package commands

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestOtherEndpoint asks a process for what another one answers.
func TestOtherEndpoint(t *testing.T) {
	t.Parallel()
	at := kit.Publish(t, "trigger.sock")
	if status, _, said := kit.Invoke(t, "posts", "list", "--admin", at); status != program.Refused ||
		!strings.Contains(said, at+" is the endpoint of something that does not know GET /v1/posts") {
		t.Errorf("status %d: %s", status, said)
	}
}
