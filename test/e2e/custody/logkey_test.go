package custody

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// withLog adds a transparency log to a sidecar's configuration.
func withLog(file string) string {
	return strings.Replace(file, "\nmanifest: manifest.yaml\ntrigger:", "\nmanifest: manifest.yaml\n"+
		"transparencyLog: {origin: log.example/vault, key: transparency-log-key, interval: 1s}\ntrigger:", 1)
}

// logKeys returns the versions of the log's key that the command prints.
func (v *vaultRig) logKeys(t *testing.T) []string {
	t.Helper()
	kit.Write(t, v.In("token"), v.vault.Token)
	return strings.Fields(kit.Run(t, "log", "key", "--config", v.In(devstack.SidecarFile), "--token-file", v.In("token")))
}

func (v *vaultRig) logState(t *testing.T) (s admin.TransparencyLog) {
	t.Helper()
	check.Must(t, admin.Get(t.Context(), v.Stack.Admin(), "/v1/log", &s))
	return s
}

// TestLogKey rotates the log's key. The version that the policy names signs, and the tree goes on.
func TestLogKey(t *testing.T) {
	t.Parallel()
	v := newVaultRig(t, withLog)
	before := v.logKeys(t)
	v.OpenAgent(t).MustPost(t)
	var s admin.TransparencyLog
	kit.Until(t, "checkpoint", func() bool { s = v.logState(t); return s.Witnessed > 3 && s.Witnessed == s.Entries })
	if len(before) != 1 || s.Key != before[0] || s.Demanded {
		t.Errorf("the keys are %q, and the log says %+v", before, s)
	}
	post := v.NewestRecord(t, "flow=post")

	v.vault.Write(t, "transit/keys/transparency-log-key/rotate", nil)
	after := v.logKeys(t)
	if len(after) != 2 || after[0] != before[0] {
		t.Fatalf("after the rotation the keys are %q, before it %q", after, before)
	}
	v.Stack.Stop()
	policy := []byte("log " + after[1] + "\nquorum none\n")
	kit.Write(t, v.In("log-policy.txt"), policy)
	kit.Edit(t, v.In(devstack.SidecarFile), "interval: 1s}", "interval: 1s, policy: log-policy.txt}")
	v.redeliver(t)
	v.Start(t)
	v.OpenAgent(t).MustPost(t)
	kit.Until(t, "checkpoint by the new version", func() bool { return v.logState(t).Witnessed > s.Entries })
	if got := v.logState(t); got.Key != after[1] {
		t.Errorf("the log says %+v", got)
	}

	v.Stack.Stop()
	store, err := sqlite.Open(t.Context(), v.In("state/ledger.db"), sqlite.Options{Now: time.Now, Logged: func() {}})
	check.Must(t, err)
	defer store.Close()
	proof, err := translog.Prove(t.Context(), store, leaf.ID(leaf.Intent, post.ID)) // of a post before the rotation
	check.Must(t, err)
	p, err := translog.ParsePolicy(policy)
	check.Must(t, err)
	_, err = p.Verify(proof)
	check.Must(t, err)
}
