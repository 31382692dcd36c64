package operation

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestPortInUse starts a deployment while somebody else has one of its ports: it says which, in which file and key, and what to do, before
// any line of a log, whichever process wanted it.
func TestPortInUse(t *testing.T) {
	for file, of := range map[string]func(*kit.Rig) string{devstack.TriggerFile: func(r *kit.Rig) string { return r.Hooks }, devstack.SidecarFile: func(r *kit.Rig) string { return r.Listen }} {
		r := kit.PrepareRig(t, []string{trial.PlainHost}, func(r *kit.Rig) (http.Handler, string) { return r.Github(t), kit.ClientRules })
		taken, err := net.Listen("tcp", of(r))
		check.Must(t, err)
		defer taken.Close()
		s, err := devstack.Start(t.Context(), r.Dir)
		if err == nil {
			s.Stop()
		}
		want := "listen in " + filepath.Join(r.Dir, file) + ": another process listens on " + of(r) + ": end it, or write another address (listen_failed)\nThe end of its log, "
		if err == nil {
			t.Fatalf("%s is in use, and it starts", of(r))
		}
		if before, _, says := strings.Cut(err.Error(), want); !says || strings.ContainsAny(before, "{\n") {
			t.Errorf("%s is in use: %v", of(r), err)
		}
	}
}
