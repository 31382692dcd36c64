package decide_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestDecide(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	r := w.request()
	d, err := w.engine().Decide(t.Context(), r)
	check.Must(t, err)
	opened, err := evidence.Open(w.Verifier, evidence.PolicyDecisionKind(), d.PolicyDecision, w.Strict.Decision)
	check.Must(t, err)
	granted, err := evidence.Open(w.Verifier, evidence.ActionGrantKind(), d.Grant, w.Strict.Grant)
	check.Must(t, err)
	decision, grant := opened.Claims(), granted.Claims()

	b, evidenceHash := r.Binding, evidence.HashBytes([]byte("delivery"))
	key := evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator}
	check.WantEqual(t, decision, evidence.PolicyDecision{
		Registered: decision.Registered, KeyClaims: key, Action: b.Action, BindingHash: b.Hash(),
		ChallengeID: "challenge-1",
		ContentHash: b.ContentHash, Decision: "allow",
		EnvironmentHash: r.EnvironmentHash, OriginEvidenceHash: evidenceHash, OriginEvidenceID: "delivery_1",
		OriginVerificationMethod: "webhook_signature",
		PolicyHash:               w.rules.Hash(), Resource: b.Resource, Rule: "verified-events", RuntimeID: "worker-1",
		Subject:        b.Subject,
		TriggerEventID: "evt_1", TriggerKind: "source_event", TriggerSource: "github",
	})
	check.WantEqual(t, grant, evidence.ActionGrant{
		Registered: grant.Registered, KeyClaims: key, Actions: []string{b.Action}, BindingHashes: []string{b.Hash()},
		ContentHashes:   []string{b.ContentHash},
		EnvironmentHash: r.EnvironmentHash, OriginEvidenceHashes: []string{evidenceHash},
		OriginEvidenceIDs:         []string{"delivery_1"},
		OriginVerificationMethods: []string{"webhook_signature"},
		PolicyDecisionHashes:      []string{evidence.HashToken(d.PolicyDecision)},
		PolicyDecisionIDs:         []string{decision.ID}, PolicyHash: w.rules.Hash(), Resources: []string{b.Resource},
		RuntimeIDs: []string{"worker-1"}, Subject: b.Subject,
		TriggerEventIDs: []string{"evt_1"}, TriggerSources: []string{"github"},
	})
	if decision.Issuer == grant.Issuer || evidence.KeyIDOf(d.PolicyDecision) == evidence.KeyIDOf(d.Grant) {
		t.Error("one role signed both")
	}
}

func TestDecideRefuses(t *testing.T) {
	other := strings.Repeat("a", 64)
	w := newWorld(t, string(configs.Policy()))
	stranger := newWorld(t, string(configs.Policy()))
	for name, c := range map[string]struct {
		plan   gatetest.Plan
		change func(*request) // after the trigger evidence is signed
		code   string
	}{
		"no nonce":            {change: func(r *request) { r.Binding.Nonce = "" }, code: "artifact_malformed"},
		"no content hash":     {change: func(r *request) { r.Binding.ContentHash = "" }, code: "artifact_malformed"},
		"no host":             {change: func(r *request) { r.Call.Host = "" }, code: "query_malformed"},
		"another path":        {change: func(r *request) { r.Call.Path = "/posts/" }, code: "artifacts_mismatch"},
		"another manifest":    {change: func(r *request) { r.ManifestHash = other }, code: "deployment_mismatch"},
		"no manifest":         {change: func(r *request) { r.ManifestHash = "" }, code: "deployment_mismatch"},
		"another environment": {change: func(r *request) { r.EnvironmentHash = other }, code: "pin_mismatch"},
		"no environment":      {change: func(r *request) { r.EnvironmentHash = "" }, code: "pin_mismatch"},
		"another runtime":     {change: func(r *request) { r.RuntimeID = "worker-2" }, code: "not_allowed"},
		"another binding":     {change: func(r *request) { r.Binding.Nonce = "other" }, code: "artifacts_mismatch"},
		"other content":       {change: func(r *request) { r.Binding.ContentHash = other }, code: "artifacts_mismatch"},

		"receipt's origin":      {plan: receipt("originProofHash", other), code: "artifacts_mismatch"},
		"a human":               {plan: receipt("humanInitiated", true), code: "human_involved"},
		"a human's request":     {plan: event(gatetest.Event{Kind: evidence.TriggerHumanRequest}), code: "not_allowed"},
		"an unknown kind":       {plan: event(gatetest.Event{Kind: evidence.TriggerUnknown}), code: "not_allowed"},
		"a source not allowed":  {plan: event(gatetest.Event{Source: "gitlab"}), code: "not_allowed"},
		"by hand":               {plan: event(gatetest.Event{Method: "manual"}), code: "not_allowed"},
		"self-reported":         {plan: event(gatetest.Event{Method: "self_reported"}), code: "not_allowed"},
		"a method of schedules": {plan: event(gatetest.Event{Method: "scheduler_lock"}), code: "policy_denied"},
		"the trigger mediator's proof": {plan: gatetest.Plan{Signers: map[string]evidence.Key{
			evidence.PurposeTriggerOriginProof: w.Key(t, evidence.PurposeTriggerReceipt)}}, code: "key_purpose"},

		"no origin proof": {change: func(r *request) { r.OriginProof = "-" }, code: "artifact_malformed"},
		"no receipt":      {change: func(r *request) { r.TriggerReceipt = "-" }, code: "artifact_malformed"},
		"a stranger's origin proof": {change: func(r *request) {
			r.OriginProof = stranger.request().OriginProof
		}, code: "signature_invalid"},
		"a stranger's receipt": {change: func(r *request) {
			r.TriggerReceipt = stranger.request().TriggerReceipt
		}, code: "signature_invalid"},
		"the receipt as the origin proof": {change: func(r *request) {
			r.OriginProof = r.TriggerReceipt
		}, code: "artifact_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.planned(c.plan)
			if c.change != nil {
				c.change(&r)
			}
			_, err := w.decide(r)
			check.WantCode(t, err, c.code)
		})
	}
	t.Run("and not a valid one", func(t *testing.T) {
		_, err := w.decide(w.request())
		check.Must(t, err)
	})
}

func receipt(pairs ...any) gatetest.Plan {
	return gatetest.Claim(evidence.PurposeTriggerReceipt, pairs...)
}

func event(e gatetest.Event) gatetest.Plan { return gatetest.Plan{Event: e} }

func TestEngineRefusesOtherRules(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	other, err := decide.ParseRules([]byte(file("yes allow true")))
	check.Must(t, err)
	for _, rules := range []*decide.Rules{other, {}} {
		_, err := decide.NewEngine(rules, w.Verifier, w.Strict, w.decision, w.grant, w.options())
		check.WantCode(t, err, "pin_mismatch")
	}
	open := *w.Strict
	open.Runtime.PolicyHash = ""
	_, err = decide.NewEngine(&decide.Rules{}, w.Verifier, &open, w.decision, w.grant, w.options())
	check.WantCode(t, err, "pin_mismatch")
}

func TestEngineNeedsAllItsParts(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	type parts struct {
		rules    *decide.Rules
		verifier *evidence.Verifier
		strict   *policy.Strict
		decision *signer.Issuer[evidence.PolicyDecision]
		grant    *signer.Issuer[evidence.ActionGrant]
		o        decide.EngineOptions
	}
	for name, remove := range map[string]func(p *parts){
		"rules":         func(p *parts) { p.rules = nil },
		"verifier":      func(p *parts) { p.verifier = nil },
		"strict policy": func(p *parts) { p.strict = nil },
		"decision":      func(p *parts) { p.decision = nil },
		"grant":         func(p *parts) { p.grant = nil },
		"clock":         func(p *parts) { p.o.Now = nil },
		"log":           func(p *parts) { p.o.Log = nil },
	} {
		p := parts{w.rules, w.Verifier, w.Strict, w.decision, w.grant, w.options()}
		remove(&p)
		if e, err := decide.NewEngine(p.rules, p.verifier, p.strict, p.decision, p.grant, p.o); err == nil || e != nil {
			t.Errorf("an engine without %s was made: %v", name, err)
		}
	}
}

// TestEngineWithoutAKey checks that no artifact leaves if the other cannot be signed.
func TestEngineWithoutAKey(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	for name, c := range map[string]struct {
		decision *signer.Issuer[evidence.PolicyDecision]
		grant    *signer.Issuer[evidence.ActionGrant]
	}{
		"of decisions": {issuer(t, w, evidence.PolicyDecisionKind(), broken{}, evidence.PurposePolicyDecision),
			w.grant},
		"of grants": {w.decision, issuer(t, w, evidence.ActionGrantKind(), broken{}, evidence.PurposeActionGrant)},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := w.with(c.decision, c.grant)
			check.Must(t, err)
			if d, err := e.Decide(t.Context(), w.request()); !errors.Is(err, errBroken) || d != (policy.Decision{}) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestRolesMustBeSeparate(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	for name, grant := range map[string]*signer.Issuer[evidence.ActionGrant]{
		"one key": issuer(t, w, evidence.ActionGrantKind(), w.Custody(evidence.PurposePolicyDecision),
			evidence.PurposeActionGrant),
		"one issuer": issuer(t, w, evidence.ActionGrantKind(), w.Custody(evidence.PurposeActionGrant),
			evidence.PurposePolicyDecision),
	} {
		t.Run(name, func(t *testing.T) {
			e, err := w.with(w.decision, grant)
			check.Must(t, err)
			d, err := e.Decide(t.Context(), w.request())
			check.WantCode(t, err, "key_purpose")
			check.WantEqual(t, d, policy.Decision{})
		})
	}
}

func TestDecideStopsWithItsContext(t *testing.T) {
	w := newWorld(t, string(configs.Policy()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.engine().Decide(ctx, w.request())
	check.WantCode(t, err, "custody_unavailable")
}

func BenchmarkDecide(b *testing.B) {
	w := newWorld(b, string(configs.Policy()))
	e, r := w.engine(), w.request()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Decide(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func issuer[C any](t *testing.T, w *world, kind evidence.Kind[C], key signer.Key, purpose string) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, w.Options(purpose))
	check.Must(t, err)
	return i
}

type broken struct{}

var errBroken = errors.New("the key is out of reach")

func (broken) Current(context.Context) (custody.Version, error) { return custody.Version{}, errBroken }
func (broken) Properties() custody.Properties                   { return custody.Properties{} }
