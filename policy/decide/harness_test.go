package decide_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
)

// start is when every test takes place: a Saturday.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return start }

// world is a deployment of the example manifest: keys, trust, trigger evidence and an engine.
type world struct {
	t        testing.TB
	manifest *policy.Manifest
	rules    *decide.Rules
	strict   *policy.Strict
	keys     map[string]*custody.Memory
	verifier *evidence.Verifier
	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
}

// roles are the keys that the registry certifies.
var roles = []struct{ key, issuer, purpose string }{
	{"origin-proof-key", "mediator-source-verifier", evidence.PurposeTriggerOriginProof},
	{"trigger-receipt-key", "mediator-trigger", evidence.PurposeTriggerReceipt},
	{"policy-decision-key", "mediator-policy", evidence.PurposePolicyDecision},
	{"action-grant-key", "mediator-authorization", evidence.PurposeActionGrant},
}

// newWorld makes a world with the given policy file; edit may change the example manifest.
func newWorld(t testing.TB, rules string, edit func(*policy.Manifest)) *world {
	t.Helper()
	w := &world{t: t, manifest: example(t), keys: make(map[string]*custody.Memory)}
	var err error
	w.rules, err = decide.ParseRules([]byte(rules))
	must(t, err)
	w.manifest.RuntimePolicy.RequiredPolicyHash, w.manifest.AgentSessionReceiptPolicy.RequiredPolicyHash = w.rules.Hash(), w.rules.Hash()
	if edit != nil {
		edit(w.manifest)
	}
	w.strict, err = w.manifest.Strict()
	must(t, err)

	registry, auditor := w.key("registry"), w.key("auditor")
	var certificates []string
	for _, r := range roles {
		v := current(t, w.key(r.key))
		token, _, err := issuer(t, evidence.SignerCertificateKind, registry, "key-registry", "posting-api", time.Hour).Sign(t.Context(), evidence.SignerCertificate{
			KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{r.purpose}, SubjectIssuer: r.issuer, SubjectKeyID: v.KeyID(),
			SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
		})
		must(t, err)
		certificates = append(certificates, token)
	}
	trust, err := evidence.NewTrust([]evidence.Root{
		{KeyID: "registry:v1", Public: current(t, registry).Public(), Purpose: evidence.PurposeSignerCertificate},
		{KeyID: "auditor:v1", Public: current(t, auditor).Public(), Purpose: evidence.PurposeDeploymentCertificate},
	}, evidence.Bundle{Certificates: certificates}, w.strict.Signers)
	must(t, err)
	w.verifier, err = evidence.NewVerifier(trust, evidence.VerifierOptions{Now: clock})
	must(t, err)
	w.decision = issuer(t, evidence.PolicyDecisionKind, w.keys["policy-decision-key"], "mediator-policy", "posting-api", 15*time.Second)
	w.grant = issuer(t, evidence.ActionGrantKind, w.keys["action-grant-key"], "mediator-authorization", "posting-api", 15*time.Second)
	return w
}

func (w *world) key(name string) *custody.Memory {
	k, err := custody.NewMemory(name)
	must(w.t, err)
	w.keys[name] = k
	return k
}

func (w *world) engine() *decide.Engine {
	w.t.Helper()
	e, err := decide.NewEngine(w.rules, w.verifier, w.strict, w.decision, w.grant, decide.EngineOptions{Now: clock, Log: zap.NewNop()})
	must(w.t, err)
	return e
}

// engines has the world's one engine in force.
func (w *world) engines() *decide.Engines {
	w.t.Helper()
	var e decide.Engines
	must(w.t, e.Set(w.engine()))
	return &e
}

// request is a valid request; change may alter what is asked, the proof or the receipt before they are signed.
func (w *world) request(change func(*policy.Request, *evidence.TriggerOriginProof, *evidence.TriggerReceipt)) policy.Request {
	w.t.Helper()
	r := policy.Request{
		Binding:     evidence.Binding{Subject: "agent:worker-1", Action: "create_post", Resource: "POST /posts?draft=1", ContentHash: evidence.HashBytes([]byte("content")), Nonce: "nonce"},
		ChallengeID: "challenge-1", RuntimeID: "worker-1", SessionID: "session-1", EnvironmentHash: w.manifest.RuntimePolicy.RequiredEnvironmentHash,
		ManifestHash: w.strict.ManifestHash,
		Call:         policy.Call{Method: "POST", Scheme: "https", Host: "api.example.com", Path: "/posts", Rule: "example-post", ContentKind: "json", Size: 7},
	}
	payload, bindingHash := evidence.HashBytes([]byte("payload")), r.Binding.Hash()
	o := evidence.TriggerOriginProof{
		BindingHash: bindingHash, EventID: "event-1", EvidenceHash: evidence.HashBytes([]byte("signature")), EvidenceID: "delivery-1",
		Kind: evidence.TriggerSourceEvent, PayloadHash: payload, Source: "github", VerificationMethod: evidence.MethodWebhookSignature,
	}
	rec := evidence.TriggerReceipt{BindingHash: bindingHash, EventID: "event-1", Kind: evidence.TriggerSourceEvent, PayloadHash: payload, Source: "github"}
	if change != nil {
		change(&r, &o, &rec)
	}
	var err error
	if r.OriginProof == "" {
		r.OriginProof, _, err = issuer(w.t, evidence.TriggerOriginProofKind, w.keys["origin-proof-key"], "mediator-source-verifier", "mediator-trigger", 15*time.Second).Sign(w.t.Context(), o)
		must(w.t, err)
	}
	if rec.OriginProofHash == "" {
		rec.OriginProofHash = evidence.HashToken(r.OriginProof)
	}
	if r.TriggerReceipt == "" {
		r.TriggerReceipt, _, err = issuer(w.t, evidence.TriggerReceiptKind, w.keys["trigger-receipt-key"], "mediator-trigger", "mediator-runtime", 15*time.Second).Sign(w.t.Context(), rec)
		must(w.t, err)
	}
	return r
}

func issuer[C any](t testing.TB, kind evidence.Kind[C], key signer.Key, name, audience string, lifetime time.Duration) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, signer.Options{Issuer: name, Audience: audience, Lifetime: lifetime, Now: clock})
	must(t, err)
	return i
}

func current(t testing.TB, k *custody.Memory) custody.Version {
	t.Helper()
	v, err := k.Current(t.Context())
	must(t, err)
	return v
}

func example(t testing.TB) *policy.Manifest {
	t.Helper()
	m, err := policy.ParseManifest(configs.Manifest())
	must(t, err)
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantEqual(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// wantCode demands that err is a refusal with exactly this code, and that its sentence holds each of the texts.
func wantCode(t testing.TB, err error, code string, texts ...string) {
	t.Helper()
	var coded interface {
		error
		Code() string
	}
	if !errors.As(err, &coded) || coded.Code() != code {
		t.Fatalf("got %v, want a refusal with code %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the sentence lacks %q:\n%v", text, err)
		}
	}
}
