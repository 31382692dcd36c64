package operation

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestEachFileIsLookedAt lists the files by which somebody could do the work of each process: those that are secret,
// and those that must not be changed.
func TestEachFileIsLookedAt(t *testing.T) {
	t.Parallel()
	admitting := regexp.MustCompile(`(?m)^((?:admin|internal): \{unix: run/\w+\.sock)\}`)
	d := kit.Unstarted(t, func(files map[string][]byte) {
		for name, raw := range files {
			file := strings.Replace(string(raw), "custody: {type: memory}", `custody:
  type: vault
  vault: {address: "https://127.0.0.1:1", ca: vault-ca.pem, keys: [k], auth: {tokenFile: "auth/{role}.token"}}`, 1)
			files[name] = []byte(admitting.ReplaceAllString(file, "$1, uids: [7]}"))
		}
	})
	roles := []daemon.Role{{Purpose: evidence.PurposeActionGrant}}
	s, err := config.LoadSidecar(filepath.Join(d.Dir, devstack.SidecarFile))
	check.Must(t, err)
	c, err := config.LoadControl(filepath.Join(d.Dir, devstack.ControlFile))
	check.Must(t, err)
	g, err := config.LoadTrigger(filepath.Join(d.Dir, devstack.TriggerFile))
	check.Must(t, err)
	n, err := config.LoadReputation(filepath.Join(d.Dir, devstack.ReputationFile))
	check.Must(t, err)
	everywhere := []string{"PROGRAM", "auditor.jwk", "auth/action_grant.token (secret)", "registry.jwk", "trust.json",
		"vault-ca.pem"}
	ofSidecar, err := sidecar.Plan(s)
	check.Must(t, err)
	ofNode, err := node.Plan(n)
	check.Must(t, err)
	for _, tt := range []struct {
		name string
		plan daemon.Plan
		want []string
	}{
		{"serve", ofSidecar,
			[]string{"api-ca.pem", "manifest.yaml", "mediator.yaml", "run/control.sock", "run/reputation.sock",
				"run/serve.sock [7]", "run/trigger.sock", "secrets/api-token (secret)", "state/ledger.db (secret)"}},
		{"control", control.Plan(c), []string{"control.yaml", "manifest.yaml", "policy.yaml", "run/control.sock [7]"}},
		{"reputation", ofNode, []string{"reputation.yaml", "reputation/reputation.db (secret)", "run/reputation.sock [7]"}},
		{"trigger", trigger.Plan(g),
			[]string{"events/events.db (secret)", "run/trigger.sock [7]", "secrets/webhook (secret)", "trigger.yaml"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range tt.plan.Observer(roles).Paths {
				got = append(got, describePath(t, d.Dir, p))
			}
			want := append(slices.Clone(everywhere), tt.want...)
			slices.Sort(got)
			slices.Sort(want)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("looked at:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func describePath(t *testing.T, dir string, p observe.Path) string {
	t.Helper()
	if p.Name == kit.Self(t) {
		return "PROGRAM"
	}
	name, err := filepath.Rel(dir, p.Name)
	check.Must(t, err)
	if p.Secret {
		name += " (secret)"
	}
	if slices.Equal(p.Users, []uint32{7}) {
		name += " [7]"
	}
	return name
}
