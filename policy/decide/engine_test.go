package decide_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/policytest"
)

func TestDecide(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	r := w.request(nil)
	d, err := w.engine().Decide(t.Context(), r)
	check.Must(t, err)
	opened, err := evidence.Open(w.Verifier, evidence.PolicyDecisionKind(), d.PolicyDecision, w.Strict.Decision)
	check.Must(t, err)
	granted, err := evidence.Open(w.Verifier, evidence.ActionGrantKind(), d.Grant, w.Strict.Grant)
	check.Must(t, err)
	decision, grant := opened.Claims(), granted.Claims()

	b, evidenceHash := r.Binding, evidence.HashBytes([]byte("signature"))
	key := evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator}
	check.WantEqual(t, decision, evidence.PolicyDecision{
		Registered: decision.Registered, KeyClaims: key, Action: b.Action, BindingHash: b.Hash(), ChallengeID: "challenge-1",
		ContentHash: b.ContentHash, Decision: "allow",
		EnvironmentHash: r.EnvironmentHash, OriginEvidenceHash: evidenceHash, OriginEvidenceID: "delivery-1",
		OriginVerificationMethod: "webhook_signature",
		PolicyHash:               w.rules.Hash(), Resource: b.Resource, Rule: "verified-events", RuntimeID: "worker-1",
		Subject:        b.Subject,
		TriggerEventID: "event-1", TriggerKind: "source_event", TriggerSource: "github",
	})
	check.WantEqual(t, grant, evidence.ActionGrant{
		Registered: grant.Registered, KeyClaims: key, Actions: []string{b.Action}, BindingHashes: []string{b.Hash()},
		ContentHashes:   []string{b.ContentHash},
		EnvironmentHash: r.EnvironmentHash, OriginEvidenceHashes: []string{evidenceHash},
		OriginEvidenceIDs:         []string{"delivery-1"},
		OriginVerificationMethods: []string{"webhook_signature"},
		PolicyDecisionHashes:      []string{evidence.HashToken(d.PolicyDecision)},
		PolicyDecisionIDs:         []string{decision.ID}, PolicyHash: w.rules.Hash(), Resources: []string{b.Resource},
		RuntimeIDs: []string{"worker-1"}, Subject: b.Subject,
		TriggerEventIDs: []string{"event-1"}, TriggerSources: []string{"github"},
	})
	if decision.Issuer == grant.Issuer || evidence.KeyIDOf(d.PolicyDecision) == evidence.KeyIDOf(d.Grant) {
		t.Error("one role signed both")
	}
}

func TestDecideRefuses(t *testing.T) {
	other := strings.Repeat("a", 64)
	ask := func(f func(*request)) change {
		return func(r *request, _ *proof, _ *receipt) { f(r) }
	}
	both := func(f func(o *proof, r *receipt)) change {
		return func(_ *request, o *proof, r *receipt) { f(o, r) }
	}
	w := newWorld(t, string(configs.Policy()), func(m *policy.Manifest) { // a method that the origin policy does not allow
		o := &m.RuntimePolicy.TriggerReceiptPolicy.OriginProofPolicy
		o.AllowedVerificationMethods = []string{"webhook_signature", "scheduler_lock"}
		o.AllowedKinds = []string{"source_event", "scheduled"}
	})
	stranger := newWorld(t, string(configs.Policy()), nil)
	engine := w.engine()
	for name, c := range map[string]struct {
		change change
		code   string
	}{
		"no nonce":            {ask(func(r *request) { r.Binding.Nonce = "" }), "artifact_malformed"},
		"no content hash":     {ask(func(r *request) { r.Binding.ContentHash = "" }), "artifact_malformed"},
		"no challenge":        {ask(func(r *request) { r.ChallengeID = "" }), "query_malformed"},
		"no session":          {ask(func(r *request) { r.SessionID = "" }), "query_malformed"},
		"no runtime":          {ask(func(r *request) { r.RuntimeID = "" }), "query_malformed"},
		"no host":             {ask(func(r *request) { r.Call.Host = "" }), "query_malformed"},
		"a long rule":         {ask(func(r *request) { r.Call.Rule = strings.Repeat("r", 257) }), "query_malformed"},
		"a long path":         {ask(func(r *request) { r.Call.Path = strings.Repeat("/", 2049) }), "query_malformed"},
		"a negative size":     {ask(func(r *request) { r.Call.Size = -1 }), "query_malformed"},
		"another method":      {ask(func(r *request) { r.Call.Method = "PUT" }), "artifacts_mismatch"},
		"another path":        {ask(func(r *request) { r.Call.Path = "/posts/" }), "artifacts_mismatch"},
		"another manifest":    {ask(func(r *request) { r.ManifestHash = other }), "deployment_mismatch"},
		"no manifest":         {ask(func(r *request) { r.ManifestHash = "" }), "deployment_mismatch"},
		"another environment": {ask(func(r *request) { r.EnvironmentHash = other }), "pin_mismatch"},
		"no environment":      {ask(func(r *request) { r.EnvironmentHash = "" }), "pin_mismatch"},
		"another runtime":     {ask(func(r *request) { r.RuntimeID = "worker-2" }), "not_allowed"},

		"another binding":   {ask(func(r *request) { r.Binding.Nonce = "other" }), "artifacts_mismatch"},
		"other content":     {ask(func(r *request) { r.Binding.ContentHash = other }), "artifacts_mismatch"},
		"receipt's binding": {both(func(_ *proof, r *receipt) { r.BindingHash = other }), "artifacts_mismatch"},
		"receipt's origin":  {both(func(_ *proof, r *receipt) { r.OriginProofHash = other }), "artifacts_mismatch"},
		"receipt's event":   {both(func(_ *proof, r *receipt) { r.EventID = "event-2" }), "artifacts_mismatch"},
		"receipt's payload": {both(func(_ *proof, r *receipt) { r.PayloadHash = other }), "artifacts_mismatch"},
		"receipt's kind":    {both(func(_ *proof, r *receipt) { r.Kind = "scheduled" }), "artifacts_mismatch"},
		"receipt's source":  {both(func(_ *proof, r *receipt) { r.Source = "hooks" }), "artifacts_mismatch"},
		"a human":           {both(func(_ *proof, r *receipt) { r.HumanInitiated = true }), "human_involved"},
		"a human's request": {both(func(o *proof, r *receipt) {
			o.Kind, r.Kind = "human_request", "human_request"
		}), "not_allowed"},
		"an unknown kind": {both(func(o *proof, r *receipt) {
			o.Kind, r.Kind = "unknown", "unknown"
		}), "not_allowed"},
		"a kind not allowed": {both(func(o *proof, r *receipt) {
			o.Kind, r.Kind = "autonomous_policy", "autonomous_policy"
		}), "not_allowed"},
		"a source not allowed": {both(func(o *proof, r *receipt) {
			o.Source, r.Source = "gitlab", "gitlab"
		}), "not_allowed"},
		"a method not allowed": {both(func(o *proof, _ *receipt) {
			o.VerificationMethod = "queue_claim"
		}), "not_allowed"},
		"by hand":       {both(func(o *proof, _ *receipt) { o.VerificationMethod = "manual" }), "not_allowed"},
		"self-reported": {both(func(o *proof, _ *receipt) { o.VerificationMethod = "self_reported" }), "not_allowed"},
		"method of another kind": {both(func(o *proof, _ *receipt) {
			o.VerificationMethod = "scheduler_lock"
		}), "policy_denied"},

		"no origin proof": {ask(func(r *request) { r.OriginProof = "-" }), "artifact_malformed"},
		"no receipt":      {ask(func(r *request) { r.TriggerReceipt = "-" }), "artifact_malformed"},
		"a stranger's origin proof": {ask(func(r *request) {
			r.OriginProof = stranger.request(nil).OriginProof
		}), "signature_invalid"},
		"a stranger's receipt": {ask(func(r *request) {
			r.TriggerReceipt = stranger.request(nil).TriggerReceipt
		}), "signature_invalid"},
		"the receipt as the origin proof": {ask(func(r *request) {
			r.OriginProof = w.request(nil).TriggerReceipt
		}), "artifact_malformed"},
		"the trigger mediator's proof": {ask(func(r *request) {
			var err error
			r.OriginProof, _, err = policytest.Issuer(t, evidence.TriggerOriginProofKind(), w.Keys["trigger-receipt-key"],
				"mediator-source-verifier", "mediator-trigger", time.Minute).Sign(t.Context(), evidence.TriggerOriginProof{
				BindingHash: r.Binding.Hash(), EventID: "e", EvidenceHash: other, EvidenceID: "d", Kind: "source_event",
				PayloadHash: other, Source: "github", VerificationMethod: "webhook_signature",
			})
			check.Must(t, err)
		}), "key_purpose"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := engine.Decide(t.Context(), w.request(c.change))
			check.WantCode(t, err, c.code)
			if d != (policy.Decision{}) {
				t.Error("something was signed")
			}
		})
	}
	t.Run("and not a valid one", func(t *testing.T) {
		_, err := engine.Decide(t.Context(), w.request(nil))
		check.Must(t, err)
	})
}

func TestPinnedTriggerEvidence(t *testing.T) {
	payload, signature := evidence.HashBytes([]byte("payload")), evidence.HashBytes([]byte("signature"))
	binding := newWorld(t, string(configs.Policy()), nil).request(nil).Binding.Hash()
	other := strings.Repeat("a", 64)
	receipt := func(m *policy.Manifest) *policy.ReceiptPolicy { return &m.RuntimePolicy.TriggerReceiptPolicy }
	origin := func(m *policy.Manifest) *policy.OriginPolicy { return &receipt(m).OriginProofPolicy }
	for name, c := range map[string]struct {
		pin  func(m *policy.Manifest)
		want string // in the refusal; empty allows
	}{
		"all that match": {func(m *policy.Manifest) {
			receipt(m).RequiredPayloadHash, receipt(m).RequiredBindingHash = payload, binding
			origin(m).RequiredPayloadHash, origin(m).RequiredBindingHash, origin(m).RequiredEvidenceHash = payload, binding,
				signature
		}, ""},
		"receipt's payload": {func(m *policy.Manifest) {
			receipt(m).RequiredPayloadHash = other
		}, "trigger receipt's payloadHash"},
		"receipt's binding": {func(m *policy.Manifest) {
			receipt(m).RequiredBindingHash = other
		}, "trigger receipt's bindingHash"},
		"proof's payload": {func(m *policy.Manifest) {
			origin(m).RequiredPayloadHash = other
		}, "origin proof's payloadHash"},
		"proof's binding": {func(m *policy.Manifest) {
			origin(m).RequiredBindingHash = other
		}, "origin proof's bindingHash"},
		"proof's evidence": {func(m *policy.Manifest) {
			origin(m).RequiredEvidenceHash = other
		}, "origin proof's evidenceHash"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, string(configs.Policy()), c.pin)
			_, err := w.engine().Decide(t.Context(), w.request(nil))
			if c.want == "" {
				check.Must(t, err)
				return
			}
			check.WantCode(t, err, "not_allowed", c.want)
		})
	}
}

func TestRuntimeMayBeLeftToTheSessionPolicy(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), func(m *policy.Manifest) { m.RuntimePolicy.AllowedRuntimeIDs = nil })
	_, err := w.engine().Decide(t.Context(), w.request(nil))
	check.Must(t, err)
	_, err = w.engine().Decide(t.Context(),
		w.request(func(r *request, _ *proof, _ *receipt) {
			r.RuntimeID = "worker-2"
		}))
	check.WantCode(t, err, "not_allowed")

	// The session policy must not allow what the runtime policy forbids, nor the other way round.
	for _, pinned := range [][2][]string{{{"worker-1", "worker-2"}, {"worker-2"}},
		{{"worker-2"}, {"worker-1", "worker-2"}}} {
		w := newWorld(t, string(configs.Policy()), func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedRuntimeIDs, m.AgentSessionReceiptPolicy.AllowedRuntimeIDs = pinned[0], pinned[1]
		})
		_, err = w.engine().Decide(t.Context(), w.request(nil))
		check.WantCode(t, err, "not_allowed")
	}
}

func TestEngineRefusesOtherRules(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	other, err := decide.ParseRules([]byte(file("yes allow true")))
	check.Must(t, err)
	for _, rules := range []*decide.Rules{other, {}} {
		_, err := decide.NewEngine(rules, w.Verifier, w.Strict, w.decision, w.grant,
			options())
		check.WantCode(t, err, "pin_mismatch")
	}
	open := *w.Strict
	open.Runtime.PolicyHash = ""
	_, err = decide.NewEngine(&decide.Rules{}, w.Verifier, &open, w.decision, w.grant,
		options())
	check.WantCode(t, err, "pin_mismatch")
}

func TestEngineNeedsAllItsParts(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	o := options()
	for name, missing := range map[string]func() (*decide.Engine, error){
		"rules": func() (*decide.Engine, error) {
			return decide.NewEngine(nil, w.Verifier, w.Strict, w.decision, w.grant, o)
		},
		"verifier": func() (*decide.Engine, error) {
			return decide.NewEngine(w.rules, nil, w.Strict, w.decision, w.grant, o)
		},
		"strict policy": func() (*decide.Engine, error) {
			return decide.NewEngine(w.rules, w.Verifier, nil, w.decision, w.grant, o)
		},
		"decision": func() (*decide.Engine, error) { return w.with(nil, w.grant) },
		"grant":    func() (*decide.Engine, error) { return w.with(w.decision, nil) },
		"clock": func() (*decide.Engine, error) {
			return decide.NewEngine(w.rules, w.Verifier, w.Strict, w.decision, w.grant, decide.EngineOptions{Log: o.Log})
		},
		"log": func() (*decide.Engine, error) {
			return decide.NewEngine(w.rules, w.Verifier, w.Strict, w.decision, w.grant, decide.EngineOptions{Now: o.Now})
		},
	} {
		if e, err := missing(); err == nil || e != nil {
			t.Errorf("an engine without %s was made: %v", name, err)
		}
	}
}

// TestEngineWithoutAKey checks that no artifact leaves if the other cannot be signed.
func TestEngineWithoutAKey(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	for name, c := range map[string]struct {
		decision *signer.Issuer[evidence.PolicyDecision]
		grant    *signer.Issuer[evidence.ActionGrant]
	}{
		"of decisions": {
			policytest.Issuer(t, evidence.PolicyDecisionKind(), broken{}, "mediator-policy", "posting-api", time.Minute),
			w.grant},
		"of grants": {w.decision,
			policytest.Issuer(t, evidence.ActionGrantKind(), broken{}, "mediator-authorization", "posting-api", time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := w.with(c.decision, c.grant)
			check.Must(t, err)
			if d, err := e.Decide(t.Context(), w.request(nil)); !errors.Is(err, errBroken) || d != (policy.Decision{}) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestRequestAtItsLimits(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	e := w.engine()
	binding := evidence.Binding{Subject: "s", Action: "a", Resource: "POST /posts", ContentHash: evidence.HashBytes(nil),
		Nonce: "n"}
	whole := request{
		Binding: binding, ChallengeID: "c", RuntimeID: "r", SessionID: "s", ManifestHash: w.Strict.ManifestHash,
		Call: policy.Call{Method: "POST", Scheme: "https", Host: "h", Path: "/posts", Rule: "r", ContentKind: "json"},
	}
	for name, c := range map[string]struct {
		field func(*request) *string
		max   int
	}{
		"challengeId":      {func(r *request) *string { return &r.ChallengeID }, 256},
		"runtimeId":        {func(r *request) *string { return &r.RuntimeID }, 256},
		"sessionId":        {func(r *request) *string { return &r.SessionID }, 256},
		"call.method":      {func(r *request) *string { return &r.Call.Method }, 256},
		"call.scheme":      {func(r *request) *string { return &r.Call.Scheme }, 256},
		"call.host":        {func(r *request) *string { return &r.Call.Host }, 256},
		"call.path":        {func(r *request) *string { return &r.Call.Path }, 2048},
		"call.rule":        {func(r *request) *string { return &r.Call.Rule }, 256},
		"call.contentKind": {func(r *request) *string { return &r.Call.ContentKind }, 256},
	} {
		t.Run(name, func(t *testing.T) {
			for text, code := range map[string]string{
				"": "query_malformed", strings.Repeat("x", c.max+1): "query_malformed", strings.Repeat("x", c.max): "pin_mismatch",
			} {
				r := whole
				if *c.field(&r) = text; code == "pin_mismatch" && (name == "call.method" || name == "call.path") {
					code = "artifacts_mismatch" // the binding differs, and later checks are not reached
				}
				_, err := e.Decide(t.Context(), r)
				check.WantCode(t, err, code)
			}
		})
	}
}

func TestRolesMustBeSeparate(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	for name, grant := range map[string]*signer.Issuer[evidence.ActionGrant]{
		"one key": policytest.Issuer(t, evidence.ActionGrantKind(), w.Keys["policy-decision-key"], "mediator-authorization",
			"posting-api", time.Minute),
		"one issuer": policytest.Issuer(t, evidence.ActionGrantKind(), w.Keys["action-grant-key"], "mediator-policy",
			"posting-api", time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			e, err := w.with(w.decision, grant)
			check.Must(t, err)
			d, err := e.Decide(t.Context(), w.request(nil))
			check.WantCode(t, err, "key_purpose")
			if d != (policy.Decision{}) {
				t.Error("the artifacts were given out")
			}
		})
	}
}

func TestDecideStopsWithItsContext(t *testing.T) {
	w := newWorld(t, string(configs.Policy()), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.engine().Decide(ctx, w.request(nil))
	check.WantCode(t, err, "custody_unavailable")
}

func BenchmarkDecide(b *testing.B) {
	w := newWorld(b, string(configs.Policy()), nil)
	e, r := w.engine(), w.request(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Decide(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// broken is an unreachable key.
type broken struct{}

var errBroken = errors.New("the key is out of reach")

func (broken) Current(context.Context) (custody.Version, error) { return custody.Version{}, errBroken }
func (broken) Properties() custody.Properties                   { return custody.Properties{} }
