package plays

import (
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestRegistrar: posts go out though nobody certifies keys by hand, also after a sidecar with new keys has started,
// while no registrar runs, and soon after its state was restored from before that start. /readyz says what posts meet.
func TestRegistrar(t *testing.T) {
	t.Parallel()
	r := kit.PrepareClientsRig(t, kit.ManyPosts)
	r.AddRegistrar(t)
	r.StartRegistered(t)
	posts := func() {
		t.Helper()
		if got := r.Curl(t); !strings.HasSuffix(got, " 201") {
			t.Fatalf("a post is answered with %s", got)
		}
	}
	posts()
	backup := t.TempDir()
	check.Must(t, os.CopyFS(backup, os.DirFS(r.In("registrar"))))
	r.RestartRegistered(t, "serve") // its keys in memory are new ones of the same names
	posts()
	r.Kill("registrar")
	check.Must(t, os.RemoveAll(r.In("registrar")), os.MkdirAll(r.In("registrar"), 0o700),
		os.CopyFS(r.In("registrar"), os.DirFS(backup)))
	r.RestartRegistered(t, "registrar")
	kit.Until(t, "a post after the restore", func() bool { return strings.HasSuffix(r.Curl(t), " 201") })
	r.RestartRegistered(t, "registrar")
	r.Kill("registrar")
	posts()
	// Rules with a lower serial number are refused, also by a registrar that starts with them.
	r.SignRules(t, 3)
	r.RestartRegistered(t, "registrar")
	r.SignRules(t, 2)
	kit.Until(t, "a refusal of old rules", func() bool {
		return strings.Contains(r.Log(t, "registrar"), "the rules have the serial number 2")
	})
	posts()
	r.SignRules(t, 4, "runtime-key")
	kit.Until(t, "/readyz to say that the sidecar's key is revoked", func() bool {
		err := admin.Get(t.Context(), r.Stack.Admin(), "/readyz", nil)
		return err != nil && strings.Contains(err.Error(), "key runtime-key/serve (runtime_attestation): not certified")
	})
	r.Kill("registrar") // it would wait for the others' connections
}
