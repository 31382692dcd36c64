package node

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/nodetest"
)

func registered(t *testing.T, state string, agents ...string) {
	t.Helper()
	s, err := verification.Open(t.Context(), filepath.Join(state, "verification.db"), "", time.Now)
	check.Must(t, err)
	defer s.Close()
	at := time.Now().Add(-time.Hour)
	session := verification.Session{ID: "registered", Opened: at.UnixMilli(), State: verification.Completed}
	check.Must(t, s.Begin(t.Context(), session, 1, 1))
	check.Must(t, s.Update(t.Context(), session, verification.Effects{Agents: agents, At: at}))
}

func TestDisputeScripts(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t, quickConfig+"disputes: {arbiter: arbiter.jwk, windows: {short: 1h}}\n")
	quickly(t, n)
	kit.Run(t, "keys", "root", "--name", "arbiter", "--out", n.Dir)
	agent := func(name string) string {
		key, err := cli.TakeAgentKey(n.At(name + ".key"))
		check.Must(t, err)
		return evidence.DIDKey([]byte(key.Public().(ed25519.PublicKey)))
	}
	one, two := agent("one"), agent("two")
	registered(t, n.At(n.Name), one, two)
	n.Start(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/dispute", Setup: func(e *testscript.Env) error {
		for name, value := range map[string]string{"NODE": "unix:" + n.Socket(), "KEYS": n.Dir, "ONE": one, "TWO": two,
			"GORACE": os.Getenv("GORACE")} {
			e.Setenv(name, value)
		}
		return nil
	}})
}

func prepareSpeakingRig(t *testing.T) tiersRig {
	t.Helper()
	r := prepareTiersRig(t, func(file string) string {
		if strings.Contains(file, "\nbelievedHosts: ") {
			return kit.WithDisputes(file, "arbiter: arbiter.jwk, windows: {short: 5s}") + "verification: {}\n"
		}
		return kit.Speaking(file)
	})
	kit.Run(t, "keys", "root", "--name", "arbiter", "--out", r.Dir)
	return r
}

func TestDisputes(t *testing.T) {
	t.Parallel()
	r := prepareSpeakingRig(t)
	r.Start(t) // the roots are made, and so the owner is known
	agent := r.agent(t)
	key, err := cli.TakeAgentKey(r.In("other.key"))
	check.Must(t, err)
	other := evidence.DIDKey([]byte(key.Public().(ed25519.PublicKey)))
	r.StopProcess(t, "reputation")
	registered(t, r.In("reputation"), agent.String(), other)
	s, err := store.Open(t.Context(), r.In("reputation/reputation.db"), "")
	check.Must(t, err)
	nodetest.Log(t, s, agent, time.Now(), 12, 45)
	check.Must(t, s.Close())
	r.StartProcess(t, "reputation")
	r.decided(t, fewWords, "")

	// the agent's user starts it
	check.Must(t, errors.Join(os.Chmod(filepath.Dir(r.Dir), 0o711), os.Chmod(r.Dir, 0o711), r.CopySelf()))
	self := r.Self
	byAgent := func(args ...string) string {
		t.Helper()
		out, err := r.AsAgent(t, append([]string{self}, args...)...)
		check.Must(t, err)
		return out
	}
	node := "unix:" + r.Stack.Socket("reputation")
	byOther := func(args ...string) string {
		t.Helper()
		text := kit.Run(t, args...)
		return text
	}
	if said := byAgent("signal", "publish", "The build is green.", "--id", "sig_1"); !strings.Contains(said,
		agent.String()) || !strings.Contains(said, "provisional") {
		t.Fatalf("%s", said)
	}
	r.stated(t, "signals", interaction.StatesSignal)

	file := filepath.Join(t.TempDir(), "dispute.json")
	open := byOther("dispute", "open", "sig_1", "--claim", "It is red.", "--reasoning", "I looked.", "--key",
		r.In("other.key"), "--node", node, "--json")
	kit.Write(t, file, open)
	kit.Until(t, "the reputation to name the accusation", func() bool {
		shown := kit.Mediator(t, "reputation", "show", "agent", "--node", node, "--json", "--", agent.String())
		return strings.Contains(shown.Out, `"disputes_pending": 1`)
	})
	r.decided(t, fewWords, "") // an accusation alone blocks nobody

	decision := byOther("dispute", "resolve", file, "--outcome", "challenger_wins", "--reason", "It was red.",
		"--arbiter-key", r.In("arbiter.key.jwk"), "--audience", "mediator-reputation")
	kit.Write(t, file+".jwt", decision)
	resolved := byOther("dispute", "resolve", file, "--decision", file+".jwt", "--node", node, "--json")
	kit.Write(t, file+".resolved", resolved)
	kit.Mediator(t, "verify", file+".resolved", "--dir", r.Dir).Done(": challenger_wins by arbiter, It was red.")
	refused := r.decided(t, fewWords, "policy_denied") // once the window of the signal has closed
	kit.Mediator(t, "posts", "show", refused.Post, "--admin", r.Stack.Admin()).Done("lost-a-dispute")

	byOther("signal", "publish", "It is red.", "--id", "sig_2", "--horizon", "long", "--key", r.In("other.key"), "--node",
		node)
	if said, err := r.AsAgent(t, self, "dispute", "open", "sig_2", "--claim", "It is green.", "--reasoning",
		"I looked too."); err == nil || !strings.Contains(err.Error(), "policy_denied") {
		t.Errorf("an agent that has lost disputes: %s, %v", said, err)
	}

	r.StopProcess(t, "reputation")
	s, err = store.Open(t.Context(), r.In("reputation/reputation.db"), "")
	check.Must(t, err)
	nodetest.Log(t, s, agent, time.Now(), 20, 45)
	check.Must(t, s.Close())
	r.StartProcess(t, "reputation")
	r.decided(t, fewWords, "")
	byAgent("dispute", "open", "sig_2", "--claim", "It is green.", "--reasoning", "I looked too.")
	r.stated(t, "disputes", interaction.StatesContract)
}

func (r tiersRig) stated(t *testing.T, rule, kind string) {
	t.Helper()
	var found ledger.Record
	kit.Until(t, "the record of the post by "+rule, func() bool {
		posts := r.Records(t, "limit=20")
		at := slices.IndexFunc(posts, func(p ledger.Record) bool {
			return p.Rule == rule && p.State == ledger.StateForwarded
		})
		if at >= 0 {
			found = posts[at]
		}
		return at >= 0
	})
	kit.Mediator(t, "posts", "show", found.ID, "--admin", r.Stack.Admin()).Done("agent statement        " + kind + " ")
	kit.Run(t, "verify", r.SaveRecord(t, found.ID), "--dir", r.Dir)
}
