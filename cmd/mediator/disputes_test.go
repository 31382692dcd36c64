package main

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/verification"
	verifications "github.com/actionproof/mediator/reputation/verification/store"
)

// registered has a node that does not run know agents as registered since an hour ago, as if they had passed a verification then.
func registered(t *testing.T, state string, agents ...string) {
	t.Helper()
	s, err := verifications.OpenSQLite(t.Context(), filepath.Join(state, "verification.db"), time.Now)
	must(t, err)
	defer s.Close()
	at := time.Now().Add(-time.Hour)
	session := verification.Session{ID: "registered", Opened: at.UnixMilli(), State: verification.Completed}
	must(t, s.Open(t.Context(), session, 1, 1))
	must(t, s.Update(t.Context(), session, verification.Effects{Agents: agents, At: at}))
}

// TestDisputeScripts publishes and disputes by hand, at a real node, and decides as an arbiter.
func TestDisputeScripts(t *testing.T) {
	t.Parallel()
	n := newNodeRig(t, quickConfig+"disputes: {arbiter: arbiter.jwk, windows: {short: 1h}}\n")
	n.quickly(t)
	if status, _, said := invoke(t, "keys", "root", "--name", "arbiter", "--out", n.dir); status != exitDone {
		t.Fatal(said)
	}
	agent := func(name string) string {
		key, err := cli.TakeAgentKey(n.at(name + ".key"))
		must(t, err)
		return evidence.DIDKey([]byte(key.Public().(ed25519.PublicKey)))
	}
	one, two := agent("one"), agent("two")
	registered(t, n.at(n.name), one, two)
	n.start(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/dispute", Setup: func(e *testscript.Env) error {
		for name, value := range map[string]string{"NODE": "unix:" + n.socket(), "KEYS": n.dir, "ONE": one, "TWO": two, "GORACE": os.Getenv("GORACE")} {
			e.Setenv(name, value)
		}
		return nil
	}})
}
