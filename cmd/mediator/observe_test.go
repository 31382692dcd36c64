package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
)

// TestEachFileIsLookedAt lists the files of each process by which somebody could do its work: those that are secret, and those that must
// not be changed.
func TestEachFileIsLookedAt(t *testing.T) {
	d := &demo{dir: t.TempDir(), listen: "127.0.0.1:0", hooks: "127.0.0.1:0", awareAddr: "127.0.0.1:1", plainAddr: "127.0.0.1:2"}
	files := d.files(demoRules)
	for name, raw := range files {
		files[name] = []byte(strings.NewReplacer("custody: {type: memory}", `custody:
  type: vault
  vault: {address: "https://127.0.0.1:1", ca: vault-ca.pem, keys: [k], auth: {tokenFile: "auth/{role}.token"}}`,
			"admin: {unix: run/serve.sock}", "admin: {unix: run/serve.sock, uids: [7]}",
			"internal: {unix: run/trigger.sock}", "internal: {unix: run/trigger.sock, uids: [7]}",
			"internal: {unix: run/control.sock}", "internal: {unix: run/control.sock, uids: [7]}").Replace(string(raw)))
	}
	must(t, prepareDir(d.dir, files))
	must(t, writeAbsent(filepath.Join(d.dir, "secrets", "api-token"), []byte(demoToken)))
	must(t, writeDemoCertificates(d.dir))
	roles := []role{{purpose: evidence.PurposeActionGrant}}
	s, err := loadSidecar(filepath.Join(d.dir, serveFile))
	must(t, err)
	c, err := loadControl(filepath.Join(d.dir, controlFile))
	must(t, err)
	g, err := loadTrigger(filepath.Join(d.dir, triggerFile))
	must(t, err)
	everywhere := []string{"PROGRAM", "auditor.jwk", "auth/action_grant.token (secret)", "registry.jwk", "trust.json", "vault-ca.pem"}
	for _, tt := range []struct {
		name string
		o    *observer
		want []string
	}{
		{"serve", s.observer(roles), []string{"api-ca.pem", "manifest.yaml", "mediator.yaml", "run/control.sock", "run/serve.sock [7]", "run/trigger.sock", "secrets/api-token (secret)", "state/ledger.db (secret)"}},
		{"control", c.observer(roles), []string{"control.yaml", "manifest.yaml", "policy.yaml", "run/control.sock [7]"}},
		{"trigger", g.observer(roles), []string{"events/events.db (secret)", "run/trigger.sock [7]", "secrets/webhook (secret)", "trigger.yaml"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range tt.o.paths {
				got = append(got, describePath(t, d.dir, p))
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

// describePath says what is looked at for, in a few words.
func describePath(t *testing.T, dir string, p observe.Path) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	if p.Name == self {
		return "PROGRAM"
	}
	name, err := filepath.Rel(dir, p.Name)
	must(t, err)
	if p.Secret {
		name += " (secret)"
	}
	if slices.Equal(p.Users, []uint32{7}) {
		name += " [7]"
	}
	return name
}
