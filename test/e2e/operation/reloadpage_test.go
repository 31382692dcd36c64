package operation

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestReloadPage(t *testing.T) {
	t.Parallel()
	r := &reloadRig{}
	r.Rig = kit.PrepareRig(t, kit.Plain, kit.Serve(r, reloadRules), kit.ManyPosts, ownCA)
	sh := r.NewShell(t, strings.NewReplacer("/run/mediator/", r.In("run")+"/", " trust/", " "))
	r.StartByHand(t, sh)
	sh.Run(t, `mediator keys certify --registry-key keys/registry.key.jwk --audience posting-api --bundle trust.json \
			--not-accessible-to-agent --not-accessible-to-users \
			--from unix:/run/mediator/admin.sock --from unix:/run/mediator/trigger.sock \
			--from unix:/run/mediator/control.sock --from unix:/run/mediator/reputation.sock`)
	for _, p := range r.Stack.Processes {
		check.Must(t, r.Stack.WaitFor(t.Context(), p, "/readyz"))
	}
	a := r.OpenAgent(t)
	kit.Until(t, "a first post", func() bool { return note(a).Code == "" }) // until the bundle is taken over
	before := r.readiness(t, "serve")

	r.edit(t, devstack.SidecarFile, "/notes\", methods: [GET]", "/notes\", methods: [GET, HEAD]")
	r.edit(t, devstack.PolicyFile, "request.size > 4", "request.size > 5")
	want := map[string]string{ // something that a section's commands have to say
		"Change": "mediator.yaml: a correct sidecar", "Certify": "certified manifest",
		"Reload": "admin.sock: reloaded: configuration ",
		"See":    `"ready":true`,
	}
	for _, s := range kit.ReadPage(t, "../../../docs/operations/reload.md") {
		said := sh.RunSection(t, s, func(string) bool { return false })
		if text := want[s.Title]; !strings.Contains(said, text) {
			t.Errorf("%s: said\n%s\nwithout %q", s.Title, said, text)
		}
		delete(want, s.Title)
		wantTunnel(t, a, http.MethodPost, "/notes", "")
	}
	if len(want) > 0 {
		t.Errorf("the page lacks %v", want)
	}
	if after := r.readiness(t, "serve"); after.Manifest == before.Manifest ||
		after.Configuration == before.Configuration || after.Refused != nil {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
