package plays

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestDevReload edits the files of mediator dev, which plays the security team: it pins and certifies what they say now.
func TestDevReload(t *testing.T) {
	r := newCrashRig(t, kit.ThisProgram(t), "")
	dev := "unix:" + r.Stack.Socket("dev")
	var before, after daemon.ConfigStatus
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &before))
	kit.Until(t, kit.Patience, "mediator dev to take reloads", func() bool { return admin.Get(t.Context(), dev, "/healthz", nil) == nil })
	path := filepath.Join(r.Dir, devstack.SidecarFile)
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, append(raw, "limits: {calls: 7}\n"...), 0o600))
	if status, out, said := kit.Invoke(t, "reload", dev); status != 0 || !strings.HasPrefix(out, dev+": reloaded: configuration ") {
		t.Fatalf("status %d: %s%s", status, out, said)
	}
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &after))
	if after.Manifest == before.Manifest || after.Configuration == before.Configuration {
		t.Errorf("before %s, after %s", before, after)
	}
	event, err := r.DeliverRelease(t.Context())
	check.Must(t, err)
	s, err := r.open(t.Context(), event)
	check.Must(t, err)
	if resp, d := r.try(t.Context(), t, r.agentOf(t, s), "/posts/reloaded", nil); resp.StatusCode != http.StatusCreated {
		t.Errorf("a post after the reload: %d %+v", resp.StatusCode, d)
	}

	check.Must(t, os.WriteFile(path, append(raw, "listen: 127.0.0.1:1\n"...), 0o600))
	if status, _, said := kit.Invoke(t, "reload", dev); status != program.Refused || !strings.Contains(said, "(reload_refused)") {
		t.Errorf("a key twice: status %d: %s", status, said)
	}
	check.Must(t, os.WriteFile(path, bytes.Replace(raw, []byte("state: state"), []byte("state: run"), 1), 0o600))
	if status, _, said := kit.Invoke(t, "reload", dev); status != program.Refused || !strings.Contains(said, "mediator serve: ") || !strings.Contains(said, "(restart_required)") {
		t.Errorf("another state: status %d: %s", status, said)
	}
	var still daemon.ConfigStatus
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &still))
	if still.Refused == nil || still.Configuration != after.Configuration {
		t.Errorf("after two refusals: %+v", still)
	}
}
