package node

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/nodetest"
)

func registered(t *testing.T, state string, agents ...string) {
	t.Helper()
	s, err := verification.Open(t.Context(), state+"/verification.db", "", time.Now)
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
	one, two := nodetest.NewStranger(t), nodetest.NewStranger(t)
	registered(t, n.At(n.Name), one.ID, two.ID)
	n.Start(t)
	node := "unix:" + n.Socket()
	publish(t, node, one, "sig_1")
	disputed := accuse(t, node, two, "sig_1")
	testscript.Run(t, testscript.Params{Dir: "testdata/dispute", Setup: func(e *testscript.Env) error {
		for name, value := range map[string]string{"NODE": node, "KEYS": n.Dir, "ID": disputed.DisputeID,
			"GORACE": os.Getenv("GORACE")} {
			e.Setenv(name, value)
		}
		return nil
	}})
}

func signalOf(agent, id string) dispute.Signal {
	return dispute.Signal{SignalID: id, AgentID: agent, Statement: "The tests pass.", Horizon: dispute.HorizonLong,
		Timestamp: time.Now().Unix()}
}

func contractOf(agent, signal string) dispute.Contract {
	return dispute.Contract{ChallengeID: "con_" + signal, OriginalSignalID: signal, ChallengerAgentID: agent,
		CounterClaim: "They do not.", ReasoningTrace: "I ran them.", Timestamp: time.Now().Unix()}
}

func publish(t *testing.T, node string, by nodetest.Stranger, id string) {
	t.Helper()
	said := json.RawMessage(by.Says(t, signalOf(by.ID, id)).Document)
	check.Must(t, admin.Call(t.Context(), node, http.MethodPost, "/v1/signals", said, new(reputation.Signal)))
}

func accuse(t *testing.T, node string, by nodetest.Stranger, signal string) (d reputation.Dispute) {
	t.Helper()
	said := json.RawMessage(by.Says(t, contractOf(by.ID, signal)).Document)
	check.Must(t, admin.Call(t.Context(), node, http.MethodPost, "/v1/dispute", said, &d))
	return d
}

// says posts a document as the agent behind the mediator.
func (r tiersRig) says(t *testing.T, path string, d dispute.Document) (string, error) {
	t.Helper()
	raw, err := json.Marshal(d)
	check.Must(t, err)
	return r.AsAgent(t, kit.Need(t, "curl"), "-sS", "-H", "Content-Type: application/json", "-d", string(raw),
		"http://mediator.internal"+path)
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
	other := nodetest.NewStranger(t)
	r.StopProcess(t, "reputation")
	registered(t, r.In("reputation"), agent.String(), other.ID)
	s, err := store.Open(t.Context(), r.In("reputation/reputation.db"), "")
	check.Must(t, err)
	nodetest.Log(t, s, agent, time.Now(), 12, 45)
	check.Must(t, s.Close())
	r.StartProcess(t, "reputation")
	r.decided(t, fewWords, "")

	node := "unix:" + r.Stack.Socket("reputation")
	signal := signalOf(agent.String(), "sig_1")
	signal.Horizon = dispute.HorizonShort
	said, err := r.says(t, "/v1/signals", signal)
	if err != nil || !strings.Contains(said, agent.String()) || !strings.Contains(said, "provisional") {
		t.Fatal(said, err)
	}
	r.stated(t, "signals", interaction.StatesSignal)

	file := t.TempDir() + "/dispute.json"
	opened := accuse(t, node, other, "sig_1")
	kit.Until(t, "the reputation to name the accusation", func() bool {
		shown := kit.Mediator(t, "reputation", "show", "agent", "--node", node, "--", agent.String())
		return strings.Contains(shown.Out, `"disputes_pending": 1`)
	})
	r.decided(t, fewWords, "") // an accusation alone blocks nobody

	shown := kit.Run(t, "reputation", "show", "dispute", opened.DisputeID, "--node", node)
	resolve := []string{"dispute", "resolve", file, "--outcome", "challenger_wins", "--reason", "It was red.",
		"--arbiter-key", r.In("arbiter.key.jwk"), "--audience", "mediator-reputation"}
	kit.Write(t, file, strings.Replace(shown, `"filing":`, `"filing": {}, "Filing":`, 1)) // which did the arbiter read?
	kit.Mediator(t, resolve...).Refused()
	kit.Write(t, file, shown)
	kit.Write(t, file+".jwt", kit.Run(t, resolve...))
	kit.Write(t, file+".resolved", kit.Run(t, "dispute", "resolve", file, "--decision", file+".jwt", "--node", node))
	kit.Mediator(t, "verify", file+".resolved", "--dir", r.Dir).Done(": challenger_wins by arbiter, It was red.")
	refused := r.decided(t, fewWords, "policy_denied") // once the window of the signal has closed
	kit.Mediator(t, "posts", "show", refused.Post, "--admin", r.Stack.Admin()).Done("lost-a-dispute")

	publish(t, node, other, "sig_2")
	if said, err := r.says(t, "/v1/dispute", contractOf(agent.String(), "sig_2")); err != nil ||
		!strings.Contains(said, "policy_denied") {
		t.Errorf("an agent that has lost disputes: %s, %v", said, err)
	}

	r.StopProcess(t, "reputation")
	s, err = store.Open(t.Context(), r.In("reputation/reputation.db"), "")
	check.Must(t, err)
	nodetest.Log(t, s, agent, time.Now(), 20, 45)
	check.Must(t, s.Close())
	r.StartProcess(t, "reputation")
	r.decided(t, fewWords, "")
	if said, err := r.says(t, "/v1/dispute", contractOf(agent.String(), "sig_2")); err != nil ||
		!strings.Contains(said, "pending") {
		t.Fatal(said, err)
	}
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
