package plays

import (
	"bytes"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestDevReload edits the files of mediator dev, which plays the security team: it pins and certifies the new files.
func TestDevReload(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t, kit.Self(t), "")
	dev, path := "unix:"+r.Stack.Socket("dev"), r.In(devstack.SidecarFile)
	readiness := func() (c daemon.ConfigStatus) {
		t.Helper()
		check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &c))
		return c
	}
	before := readiness()
	kit.Until(t, "mediator dev to take reloads", func() bool {
		return admin.Get(t.Context(), dev, "/healthz", nil) == nil
	})
	raw := kit.Read(t, path)
	kit.Write(t, path, string(raw)+"limits: {calls: 7}\n")
	if out := kit.Run(t, "reload", dev); !strings.HasPrefix(out, dev+": reloaded: configuration ") {
		t.Fatal(out)
	}
	after := readiness()
	if after.Manifest == before.Manifest || after.Configuration == before.Configuration {
		t.Errorf("before %s, after %s", before, after)
	}
	if o := post(r.enter(t), "/posts/reloaded"); o.Code != "" {
		t.Errorf("a post after the reload: %+v", o)
	}
	for _, tt := range []struct {
		content       []byte
		process, code string
	}{
		{append(bytes.Clone(raw), "listen: 127.0.0.1:1\n"...), "", "(reload_refused)"}, // a key twice
		{bytes.Replace(raw, []byte("state: state"), []byte("state: run"), 1), "mediator serve: ", "(restart_required)"},
	} {
		kit.Write(t, path, tt.content)
		kit.Mediator(t, "reload", dev).Refused(tt.process, tt.code)
	}
	if still := readiness(); still.Refused == nil || still.Configuration != after.Configuration {
		t.Errorf("after two refusals: %+v", still)
	}
}
