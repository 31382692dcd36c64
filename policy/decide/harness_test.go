package decide_test

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type world struct {
	*gatetest.Kit
	t        testing.TB
	rules    *decide.Rules
	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	made     *decide.Engine
}

func newWorld(t testing.TB, rules string, edits ...func(*policy.Manifest)) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.rules, err = decide.ParseRules([]byte(rules))
	check.Must(t, err)
	pin := func(m *policy.Manifest) {
		m.RuntimePolicy.RequiredPolicyHash, m.AgentSessionReceiptPolicy.RequiredPolicyHash = w.rules.Hash(),
			w.rules.Hash()
	}
	w.Kit = gatetest.NewAt(t, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		append([]func(*policy.Manifest){pin}, edits...)...)
	w.decision = gatetest.Signer(t, w.Kit, evidence.PolicyDecisionKind())
	w.grant = gatetest.Signer(t, w.Kit, evidence.ActionGrantKind())
	return w
}

// engine returns the world's only engine.
func (w *world) engine() *decide.Engine {
	w.t.Helper()
	if w.made == nil {
		w.made = w.another()
	}
	return w.made
}

func (w *world) another() *decide.Engine {
	w.t.Helper()
	e, err := w.with(w.decision, w.grant)
	check.Must(w.t, err)
	return e
}

func (w *world) with(decision *signer.Issuer[evidence.PolicyDecision], grant *signer.Issuer[evidence.ActionGrant]) (
	*decide.Engine, error) {
	return decide.NewEngine(w.rules, w.Verifier, w.Strict, decision, grant, w.options())
}

func (w *world) options() decide.EngineOptions {
	return decide.EngineOptions{Now: w.Clock.Now, Log: zap.NewNop()}
}

func (w *world) engines() *decide.Engines {
	w.t.Helper()
	var e decide.Engines
	check.Must(w.t, e.Set(w.engine()))
	return &e
}

type request = policy.Request

func (w *world) request(edits ...func(*request)) request {
	w.t.Helper()
	return w.planned(gatetest.Plan{}, edits...)
}

func (w *world) planned(p gatetest.Plan, edits ...func(*request)) request {
	w.t.Helper()
	r := request{
		Binding: gatetest.Binding(), ChallengeID: "challenge-1", RuntimeID: "worker-1", SessionID: "session-1",
		EnvironmentHash: w.Strict.Runtime.EnvironmentHashes[0], ManifestHash: w.Strict.ManifestHash,
		Call: policy.Call{Method: "POST", Scheme: "https", Host: "api.example.com", Path: "/posts",
			Rule: "example-post", ContentKind: "json", Size: 7},
	}
	r.Binding.Resource, r.Binding.Nonce = "POST /posts?draft=1", "nonce"
	for _, edit := range edits {
		edit(&r)
	}
	r.OriginProof, r.TriggerReceipt = w.Trigger(w.t, p, r.Binding)
	return r
}

func (w *world) appraised(token string) request {
	w.t.Helper()
	return w.request(func(r *request) { r.Reputation = token })
}

func (w *world) decide(r request) (evidence.PolicyDecision, error) {
	w.t.Helper()
	d, err := w.engine().Decide(w.t.Context(), r)
	if err != nil {
		check.WantEqual(w.t, d, policy.Decision{})
		return evidence.PolicyDecision{}, err
	}
	o, err := evidence.Open(w.Verifier, evidence.PolicyDecisionKind(), d.PolicyDecision, w.Strict.Decision)
	check.Must(w.t, err)
	return o.Claims(), nil
}

func wantVerdict(t testing.TB, err error, code string, texts ...string) {
	t.Helper()
	if code == "" {
		check.Must(t, err)
		return
	}
	check.WantCode(t, err, code, texts...)
}
