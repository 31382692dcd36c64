package decide_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/policytest"
)

// world is a deployment of the example manifest.
type world struct {
	*policytest.World
	t        testing.TB
	rules    *decide.Rules
	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
}

// newWorld makes a world with a policy file. edit may change the example manifest.
func newWorld(t testing.TB, rules string, edit func(*policy.Manifest)) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.rules, err = decide.ParseRules([]byte(rules))
	check.Must(t, err)
	w.World = policytest.New(t, func(m *policy.Manifest) {
		m.RuntimePolicy.RequiredPolicyHash, m.AgentSessionReceiptPolicy.RequiredPolicyHash = w.rules.Hash(), w.rules.Hash()
		if edit != nil {
			edit(m)
		}
	})
	w.decision = policytest.Issuer(t, evidence.PolicyDecisionKind(), w.Keys["policy-decision-key"], "mediator-policy",
		"posting-api", 15*time.Second)
	w.grant = policytest.Issuer(t, evidence.ActionGrantKind(), w.Keys["action-grant-key"], "mediator-authorization",
		"posting-api", 15*time.Second)
	return w
}

func (w *world) engine() *decide.Engine {
	w.t.Helper()
	e, err := w.with(w.decision, w.grant)
	check.Must(w.t, err)
	return e
}

// with makes an engine with these issuers.
func (w *world) with(decision *signer.Issuer[evidence.PolicyDecision], grant *signer.Issuer[evidence.ActionGrant]) (
	*decide.Engine, error) {
	return decide.NewEngine(w.rules, w.Verifier, w.Strict, decision, grant, options())
}

func options() decide.EngineOptions {
	return decide.EngineOptions{Now: policytest.Clock, Log: zap.NewNop()}
}

// wantVerdict wants a refusal with this code, or none if it is empty.
func wantVerdict(t testing.TB, err error, code string, texts ...string) {
	t.Helper()
	if code == "" {
		check.Must(t, err)
		return
	}
	check.WantCode(t, err, code, texts...)
}

func (w *world) engines() *decide.Engines {
	w.t.Helper()
	var e decide.Engines
	check.Must(w.t, e.Set(w.engine()))
	return &e
}

type (
	request = policy.Request
	proof   = evidence.TriggerOriginProof
	receipt = evidence.TriggerReceipt
	change  = func(*request, *proof, *receipt)
)

// request makes a valid request. change may alter it, the proof or the receipt before they are signed.
func (w *world) request(change change) request {
	w.t.Helper()
	r := request{
		Binding: evidence.Binding{Subject: "agent:worker-1", Action: "create_post", Resource: "POST /posts?draft=1",
			ContentHash: evidence.HashBytes([]byte("content")), Nonce: "nonce"},
		ChallengeID: "challenge-1", RuntimeID: "worker-1", SessionID: "session-1",
		EnvironmentHash: w.Manifest.RuntimePolicy.RequiredEnvironmentHash,
		ManifestHash:    w.Strict.ManifestHash,
		Call: policy.Call{Method: "POST", Scheme: "https", Host: "api.example.com", Path: "/posts",
			Rule: "example-post", ContentKind: "json", Size: 7},
	}
	payload, bindingHash := evidence.HashBytes([]byte("payload")), r.Binding.Hash()
	o := proof{
		BindingHash: bindingHash, EventID: "event-1", EvidenceHash: evidence.HashBytes([]byte("signature")),
		EvidenceID: "delivery-1",
		Kind:       evidence.TriggerSourceEvent, PayloadHash: payload, Source: "github",
		VerificationMethod: evidence.MethodWebhookSignature,
	}
	rec := receipt{BindingHash: bindingHash, EventID: "event-1", Kind: evidence.TriggerSourceEvent,
		PayloadHash: payload, Source: "github"}
	if change != nil {
		change(&r, &o, &rec)
	}
	var err error
	if r.OriginProof == "" {
		r.OriginProof, _, err = policytest.Issuer(w.t, evidence.TriggerOriginProofKind(), w.Keys["origin-proof-key"],
			"mediator-source-verifier", "mediator-trigger", 15*time.Second).Sign(w.t.Context(), o)
		check.Must(w.t, err)
	}
	if rec.OriginProofHash == "" {
		rec.OriginProofHash = evidence.HashToken(r.OriginProof)
	}
	if r.TriggerReceipt == "" {
		r.TriggerReceipt, _, err = policytest.Issuer(w.t, evidence.TriggerReceiptKind(), w.Keys["trigger-receipt-key"],
			"mediator-trigger", "mediator-runtime", 15*time.Second).Sign(w.t.Context(), rec)
		check.Must(w.t, err)
	}
	return r
}

// claimsText returns the JSON of a token's claims.
func claimsText(t testing.TB, token string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	check.Must(t, err)
	return string(raw)
}
