package operation

import (
	"errors"
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
	all := plans(t, d.Dir)
	everywhere := []string{"PROGRAM", "auditor.jwk", "auth/action_grant.token (secret)", "registry.jwk", "trust.json",
		"vault-ca.pem"}
	for name, want := range map[string][]string{
		"serve": {"api-ca.pem", "manifest.yaml", "mediator.yaml", "run/control.sock", "run/reputation.sock",
			"run/serve.sock [7]", "run/trigger.sock", "secrets/api-token (secret)", "state/ledger.db (secret)"},
		"control":    {"control.yaml", "manifest.yaml", "policy.yaml", "run/control.sock [7]"},
		"reputation": {"reputation.yaml", "reputation/reputation.db (secret)", "run/reputation.sock [7]"},
		"trigger":    {"events/events.db (secret)", "run/trigger.sock [7]", "secrets/webhook (secret)", "trigger.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range all[name].Observer(roles).Paths {
				got = append(got, describePath(t, d.Dir, p))
			}
			want := kit.With(want, everywhere...)
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

func plans(t *testing.T, dir string) map[string]daemon.Plan {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	s, err1 := config.LoadSidecar(at(devstack.SidecarFile))
	c, err2 := config.LoadControl(at(devstack.ControlFile))
	g, err3 := config.LoadTrigger(at(devstack.TriggerFile))
	n, err4 := config.LoadReputation(at(devstack.ReputationFile))
	check.Must(t, errors.Join(err1, err2, err3, err4))
	ofSidecar, err1 := sidecar.Plan(s)
	ofNode, err2 := node.Plan(n)
	check.Must(t, errors.Join(err1, err2))
	return map[string]daemon.Plan{"serve": ofSidecar, "control": control.Plan(c), "trigger": trigger.Plan(g),
		"reputation": ofNode}
}
