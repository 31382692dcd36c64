package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/mod/sumdb/note"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/nodetest"
	"github.com/actionproof/mediator/trigger"
)

const tierRules = `
actions:
  - name: post
    match: {url: "https://PLAIN/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
` + kit.Upstream

const fewWords, manyWords = 10, 8 << 10

type tiersRig struct{ *kit.Rig }

func prepareTiersRig(t *testing.T, change ...func(file string) string) tiersRig {
	t.Helper()
	return tiersRig{kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			r.Posts.Add(1)
			w.WriteHeader(http.StatusCreated)
		}), tierRules
	}, append([]func(string) string{func(file string) string {
		switch {
		case file == string(configs.Policy()):
			return string(configs.PolicyReputation())
		case strings.Contains(file, "\ndeploymentId: "):
			return strings.Replace(string(trial.WithAutonomy([]byte(file))), "maxReputationAgeMs: 600000",
				"maxReputationAgeMs: 20000", 1)
		}
		return strings.Replace(file, "lifetime: 10m", "lifetime: 1m", 1)
	}}, change...)...)}
}

func (r tiersRig) post(t *testing.T, words int) kit.Outcome {
	t.Helper()
	return r.OpenAgent(t).Call(http.MethodPost, "/posts", `{"body":"`+strings.Repeat("x ", words)+`"}`)
}

func (r tiersRig) decided(t *testing.T, words int, code string) (o kit.Outcome) {
	t.Helper()
	kit.Until(t, fmt.Sprintf("a post of %d words with the code %q", words, code), func() bool {
		o = r.post(t, words)
		return o.Code == code
	})
	return o
}

func (r tiersRig) shown(t *testing.T, o kit.Outcome, rule, reputation string) {
	t.Helper()
	text := kit.Run(t, "posts", "show", o.Post, "--admin", r.Stack.Admin())
	_, below, found := strings.Cut(text, "allow by rule "+rule+",")
	if !found || !strings.Contains(below, "reputation             "+reputation) {
		t.Errorf("want rule %s and %s in\n%s", rule, reputation, text)
	}
}

func (r tiersRig) reputation(t *testing.T, o kit.Outcome) (token string) {
	t.Helper()
	var record ledger.Record
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/v1/posts/"+o.Post, &record))
	at := slices.IndexFunc(record.Artifacts, func(a ledger.Artifact) bool { return a.Name == "reputation" })
	if at < 0 {
		t.Fatalf("the record of a post has no reputation: %+v", record)
	}
	return record.Artifacts[at].Token
}

func (r tiersRig) decide(t *testing.T, reputation string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	event, err := r.DeliverRelease(ctx)
	check.Must(t, err)
	over, base := endpoint.Client(config.Peer{Unix: r.Stack.Socket("trigger")}, nil)
	defer over.CloseIdleConnections()
	triggers := trigger.NewClient(base, over)
	_, err = triggers.Claim(ctx, trigger.Claim{EventID: event, Runtime: "worker-1"})
	check.Must(t, err)
	b := evidence.Binding{Action: "create_post", ContentHash: evidence.HashBytes(nil), Nonce: "nonce",
		Resource: "POST /posts", Subject: "agent:worker-1"}
	e, err := triggers.Evidence(ctx, event, b)
	check.Must(t, err)
	over, base = endpoint.Client(config.Peer{Unix: r.Stack.Socket("control")}, nil)
	defer over.CloseIdleConnections()
	control := policy.NewClient(base, over)
	manifests, err := control.Manifests(ctx)
	check.Must(t, err)
	raw := kit.Read(t, r.In(devstack.SidecarFile))
	environment, err := deployed.EnvironmentHash(raw)
	check.Must(t, err)
	_, err = control.Decide(ctx, policy.Request{
		Binding: b, ChallengeID: "chal", RuntimeID: "worker-1", SessionID: "ses", EnvironmentHash: environment,
		ManifestHash: manifests[0],
		OriginProof:  e.OriginProof, TriggerReceipt: e.TriggerReceipt, Reputation: reputation,
		Call: policy.Call{Method: "POST", Scheme: "https", Host: r.Plain(), Path: "/posts", Rule: "post", ContentKind: "json",
			Size: 2},
	})
	return err
}

func TestTiers(t *testing.T) {
	t.Parallel()
	r := prepareTiersRig(t)
	r.Start(t)
	r.StopProcess(t, "reputation")
	if o := r.post(t, fewWords); o.Code != "reputation_missing" || r.Posts.Load() != 0 {
		t.Fatalf("without a reputation: %+v, %d posts", o, r.Posts.Load())
	}
	doctor, _ := r.Doctor(t)
	doctor.Refused("none           reputation_missing: the node gives none: ",
		"remedy         Check that the node answers")
	r.StartProcess(t, "reputation")
	first := r.decided(t, fewWords, "")
	kit.Until(t, "doctor to be content with the reputation", func() bool {
		doctor, _ := r.Doctor(t)
		return doctor.Status == program.Done && strings.Contains(doctor.Out, "believed       tier new, signed at ")
	})
	r.shown(t, first, "newcomers", "new: score 0.0 (at least 0.0), 0 interactions")
	r.decided(t, manyWords, "policy_denied")
	if r.Posts.Load() != 1 {
		t.Errorf("%d posts came to the API, want 1", r.Posts.Load())
	}
	r.verified(t, first)

	last := r.decided(t, fewWords, "")
	r.StopProcess(t, "reputation")
	var refused kit.Outcome
	kit.Until(t, "the last reputation to be too old", func() bool {
		o := r.post(t, fewWords)
		if o.Code == "" {
			last = o
		}
		refused = o
		return o.Code != ""
	})
	if refused.Code != "reputation_missing" {
		t.Errorf("once the last reputation is too old: %+v", refused)
	}
	var coded *problem.Error
	kit.Until(t, "the control plane to refuse the old reputation itself", func() bool {
		return errors.As(r.decide(t, r.reputation(t, last)), &coded)
	})
	if coded.Code() != "expired" {
		t.Errorf("a sidecar that sends an old reputation is refused: %v", coded)
	}

	s, err := store.Open(t.Context(), r.In("reputation/reputation.db"), "")
	check.Must(t, err)
	nodetest.Log(t, s, r.Agent(t), time.Now(), 12, 45)
	check.Must(t, s.Close())
	before := r.Posts.Load()
	r.StartProcess(t, "reputation")
	more := r.decided(t, manyWords, "")
	if r.Posts.Load() != before+1 {
		t.Errorf("%d posts came to the API, want 1", r.Posts.Load()-before)
	}
	r.shown(t, more, "building", "building: score 45.0 (at least 45.0), 12 interactions, 100 % observed")
	check.Must(t, r.decide(t, r.reputation(t, more)))
}

func (r tiersRig) verified(t *testing.T, o kit.Outcome) {
	t.Helper()
	file := r.SaveRecord(t, o.Post)
	kit.Run(t, "verify", file, "--dir", r.Dir)
	token := r.reputation(t, o)
	kit.Edit(t, file, token, token[:len(token)-8]+"AAAAAAAA")
	kit.Mediator(t, "verify", file, "--dir", r.Dir).Refused() // with another reputation
}

func TestDisputeScripts(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t, quickConfig+"disputes: {arbiters: [{key: arbiter.jwk}], windows: {short: 1h}}\n")
	quickly(t, n)
	kit.Run(t, "keys", "root", "--name", "arbiter", "--out", n.Dir)
	one, two := nodetest.NewStranger(t), nodetest.NewStranger(t)
	kit.RegisterAgents(t, n.At(n.Name), one.ID, two.ID)
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
			return kit.WithDisputes(file, "arbiters: [{key: arbiter.jwk}], windows: {short: 5s}")
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
	agent := r.Agent(t)
	other := nodetest.NewStranger(t)
	r.StopProcess(t, "reputation")
	kit.RegisterAgents(t, r.In("reputation"), agent.String(), other.ID)
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
	var named struct{ Key string }
	check.Must(t, admin.Call(t.Context(), node, http.MethodGet, "/v1/disputes/log", nil, &named))
	by, err := note.NewVerifier(named.Key)
	check.Must(t, err)
	checkpoint, err := exec.Command(kit.Need(t, "curl"), "-sS", "--unix-socket", r.Stack.Socket("reputation"),
		"http://node/v1/disputes/log/checkpoint").Output()
	check.Must(t, err)
	if n, err := note.Open(checkpoint, note.VerifierList(by)); err != nil ||
		!strings.HasPrefix(n.Text, "mediator-reputation\n6\n") {
		t.Errorf("%s, %v", checkpoint, err)
	}
	if said, err := r.says(t, "/v1/dispute", contractOf(agent.String(), "sig_2")); err != nil ||
		!strings.Contains(said, "policy_denied") {
		t.Errorf("an agent that has lost disputes: %s, %v", said, err)
	}

	r.StopProcess(t, "reputation")
	kit.Mediator(t, "reputation", "audit", "--config", r.In("reputation.yaml")).Done("the 6 entries of the log")
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
