package launch

import (
	"os"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
)

// TestNoRoot wants no agent to run as root because its sidecar says so.
func TestNoRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start an agent as another user")
	}
	root, agent := uint32(0), uint32(2000)
	for named, want := range map[*uint32]int{&root: DefaultUID, &agent: 2000, nil: DefaultUID} {
		if got := (&shared{Options: Options{UID: OwnUser}}).user(admin.Session{Agent: named}); got != want {
			t.Errorf("the agent runs as %d, not as %d", got, want)
		}
	}
}
