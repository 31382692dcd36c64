package gatetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
)

// Content is the default content of a chain, and Token its post's access token.
const (
	Content = `{"text":"hello","to":"world"}`
	Token   = "Bearer upstream"
)

// Binding returns the default operation of a chain, without a nonce.
func Binding() evidence.Binding {
	hash, _ := evidence.HashJSON([]byte(Content))
	return evidence.Binding{Subject: "agent:worker-1", Action: "create_post", Resource: "POST /posts", ContentHash: hash}
}

// Event is the event behind a chain.
type Event struct{ ID, Kind, Source, Method string }

// Plan describes how a chain differs from a valid one.
type Plan struct {
	Binding    evidence.Binding // Binding() if zero
	Event      Event            // an empty field has a valid default
	RuntimeID  string           // worker-1 if empty
	PolicyHash string
	EnvHash    string

	claims  map[string][]any        // by purpose: see Claim
	Signers map[string]evidence.Key // replaces the keys of some purposes
}

// Claim plans a chain with other claims, given as names and values, in the artifact of one purpose. The artifacts that
// rest on it fit, but their own claims stay.
func Claim(purpose string, pairs ...any) Plan { return Plan{claims: map[string][]any{purpose: pairs}} }

// Set changes fields of the struct that v points to, given as paths of JSON names and values.
func Set(t testing.TB, v any, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1]
		for _, name := range slices.Backward(strings.Split(pairs[i].(string), ".")) {
			value = map[string]any{name: value}
		}
		if err := strictjson.ParseMembers(must(json.Marshal(value))(t), v); err != nil {
			t.Fatal(err)
		}
	}
}

func (p Plan) complete(k *Kit) Plan {
	if p.Binding == (evidence.Binding{}) {
		p.Binding = Binding()
	}
	for _, d := range []struct {
		to   *string
		want string
	}{
		{&p.Event.ID, "evt_1"}, {&p.Event.Kind, evidence.TriggerSourceEvent}, {&p.Event.Source, "github"},
		{&p.Event.Method, evidence.MethodWebhookSignature},
		{&p.RuntimeID, "worker-1"}, {&p.PolicyHash, k.Strict.Runtime.PolicyHash},
		{&p.EnvHash, k.Strict.Runtime.EnvironmentHashes[0]},
	} {
		if *d.to == "" {
			*d.to = d.want
		}
	}
	return p
}

// Chain makes a valid chain with its own challenge.
func (k *Kit) Chain(t testing.TB) gate.AdmitRequest {
	t.Helper()
	return k.Build(t, Plan{})
}

// Build makes a chain with its own challenge.
func (k *Kit) Build(t testing.TB, p Plan) gate.AdmitRequest {
	t.Helper()
	p = p.complete(k)
	return k.Over(t, p, must(k.Gate.Challenge(context.Background(), p.Binding))(t))
}

// Over makes a chain over an issued challenge.
func (k *Kit) Over(t testing.TB, p Plan, ch challenge.Challenge) gate.AdmitRequest {
	t.Helper()
	p = p.complete(k)
	b := *ch.Binding
	e := evidence.Envelope{ChallengeToken: ch.Token, DeploymentCertificate: k.Deployment}
	e.Response = evidence.Response{ChallengeID: ch.ID, Answers: must(challenge.Solve(context.Background(), ch.Tasks))(t)}
	e.OriginProof, e.TriggerReceipt = k.trigger(t, p, b)

	var decision evidence.PolicyDecision
	proofID, proofHash := "delivery_1", evidence.HashBytes([]byte("delivery"))
	e.PolicyDecision, decision = sign(t, k, p, evidence.PolicyDecisionKind(), evidence.PolicyDecision{
		Action: b.Action, BindingHash: b.Hash(), ChallengeID: ch.ID, ContentHash: b.ContentHash,
		Decision:        evidence.DecisionAllow,
		EnvironmentHash: p.EnvHash, OriginEvidenceHash: proofHash, OriginEvidenceID: proofID,
		OriginVerificationMethod: p.Event.Method,
		PolicyHash:               p.PolicyHash, Resource: b.Resource, Rule: "posts", RuntimeID: p.RuntimeID,
		Subject:        b.Subject,
		TriggerEventID: p.Event.ID, TriggerKind: p.Event.Kind, TriggerSource: p.Event.Source,
	})
	e.Grant, _ = sign(t, k, p, evidence.ActionGrantKind(), evidence.ActionGrant{
		Actions: []string{b.Action}, BindingHashes: []string{b.Hash()}, ContentHashes: []string{b.ContentHash},
		EnvironmentHash:      p.EnvHash,
		OriginEvidenceHashes: []string{proofHash}, OriginEvidenceIDs: []string{proofID},
		OriginVerificationMethods: []string{p.Event.Method},
		PolicyDecisionHashes:      []string{evidence.HashToken(e.PolicyDecision)}, PolicyDecisionIDs: []string{decision.ID},
		PolicyHash: p.PolicyHash,
		Resources:  []string{b.Resource}, RuntimeIDs: []string{p.RuntimeID}, Subject: b.Subject,
		TriggerEventIDs: []string{p.Event.ID}, TriggerSources: []string{p.Event.Source},
	})
	e.Attestation, _ = sign(t, k, p, evidence.RuntimeAttestationKind(), evidence.RuntimeAttestation{
		BindingHash: b.Hash(), ChallengeID: ch.ID, ContentHash: b.ContentHash, EnvironmentHash: p.EnvHash,
		Mode:       evidence.ModeAutonomous,
		PolicyHash: p.PolicyHash, RuntimeID: p.RuntimeID,
		Trigger:            evidence.Trigger{ID: p.Event.ID, Kind: p.Event.Kind, Source: p.Event.Source},
		TriggerReceiptHash: evidence.HashToken(e.TriggerReceipt),
	})
	e.SessionReceipt, _ = sign(t, k, p, evidence.SessionReceiptKind(), evidence.SessionReceipt{
		BindingHash: b.Hash(), ChallengeID: ch.ID, EnvironmentHash: p.EnvHash, EventID: p.Event.ID, InputKind: p.Event.Kind,
		InputSource: p.Event.Source,
		PolicyHash:  p.PolicyHash, RuntimeID: p.RuntimeID, SessionID: "ses_1", TranscriptHash: evidence.HashBytes(nil),
	})
	return gate.AdmitRequest{Envelope: e, Binding: p.Binding}
}

// Trigger makes an origin proof and a trigger receipt for b with its nonce.
func (k *Kit) Trigger(t testing.TB, p Plan, b evidence.Binding) (proof, receipt string) {
	t.Helper()
	return k.trigger(t, p.complete(k), b)
}

func (k *Kit) trigger(t testing.TB, p Plan, b evidence.Binding) (proof, receipt string) {
	t.Helper()
	payload := evidence.HashBytes([]byte("payload"))
	proof, _ = sign(t, k, p, evidence.TriggerOriginProofKind(), evidence.TriggerOriginProof{
		BindingHash: b.Hash(), EventID: p.Event.ID, EvidenceHash: evidence.HashBytes([]byte("delivery")),
		EvidenceID: "delivery_1", Kind: p.Event.Kind,
		PayloadHash: payload, Source: p.Event.Source, VerificationMethod: p.Event.Method,
	})
	receipt, _ = sign(t, k, p, evidence.TriggerReceiptKind(), evidence.TriggerReceipt{
		BindingHash: b.Hash(), EventID: p.Event.ID, Kind: p.Event.Kind, OriginProofHash: evidence.HashToken(proof),
		PayloadHash: payload, Source: p.Event.Source,
	})
	return proof, receipt
}

func sign[C any](t testing.TB, k *Kit, p Plan, kind evidence.Kind[C], c C) (string, C) {
	t.Helper()
	r := k.roles[kind.Purpose]
	kind.Stamp(&c, evidence.NewRegistered(r.issuer, r.audience, k.Clock.Now(), r.lifetime),
		evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
	Set(t, &c, p.claims[kind.Purpose]...)
	var key evidence.Key = k.Key(t, kind.Purpose)
	if other, ok := p.Signers[kind.Purpose]; ok {
		key = other
	}
	return must(evidence.Sign(context.Background(), key, kind, c))(t), c
}

// Proof makes a post's request proof, with other claims as in [Claim].
func (k *Kit) Proof(t testing.TB, capability, authorization string, pairs ...any) string {
	t.Helper()
	c := must(evidence.UnverifiedClaims(evidence.CapabilityKind(), capability))(t)
	b := c.Binding
	token, _ := sign(t, k, Claim(evidence.PurposeRequestProof, pairs...), evidence.RequestProofKind(),
		evidence.RequestProof{
			AccessTokenHash: evidence.HashBytes([]byte(authorization)), Action: b.Action, BindingHash: b.Hash(),
			CapabilityID: c.ID,
			ContentHash:  b.ContentHash, Resource: b.Resource, Subject: b.Subject,
		})
	return token
}

// Admit admits a chain and consumes its keys, as a [gate.Server] does.
func Admit(ctx context.Context, g *gate.Gate, r gate.AdmitRequest, consume gate.Consume) (gate.Admission, error) {
	a, err := g.Admit(ctx, r)
	if err == nil {
		err = consume(ctx, a.Keys...)
	}
	if err != nil {
		return gate.Admission{Checks: a.Checks}, err
	}
	return a, nil
}

// Used is a set of single-use keys in memory. Its zero value is empty.
type Used struct {
	// Fail, if set, is the answer of Consume.
	Fail error

	mu    sync.Mutex // guards what follows
	keys  map[ledger.Key]bool
	calls int
}

// Consume is a [gate.Consume].
func (u *Used) Consume(_ context.Context, keys ...ledger.Key) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	if u.Fail != nil {
		return u.Fail
	}
	if u.keys == nil {
		u.keys = make(map[ledger.Key]bool)
	}
	fresh := make(map[ledger.Key]bool)
	for _, k := range keys {
		if k.ID == "" || k.Kind == "" || k.Expires.IsZero() {
			return errors.New("gatetest: a key lacks its kind, its id or its expiry")
		}
		k.Expires = k.Expires.UTC()
		name := ledger.Key{Kind: k.Kind, ID: k.ID}
		if u.keys[name] || fresh[name] {
			return &ledger.ConsumedError{Key: k}
		}
		fresh[name] = true
	}
	maps.Copy(u.keys, fresh)
	return nil
}

// Calls returns how often Consume was called.
func (u *Used) Calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls
}

// Kinds returns the kinds of the keys that are consumed, sorted.
func (u *Used) Kinds() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for k := range u.keys {
		out = append(out, k.Kind)
	}
	slices.Sort(out)
	return out
}

// WantCode demands a code.
func WantCode(t testing.TB, err error, code string) {
	t.Helper()
	var coded interface {
		error
		Code() string
	}
	switch {
	case err == nil:
		t.Errorf("nothing was refused; want code %s", code)
	case !errors.As(err, &coded):
		t.Errorf("got %v, which has no code; want %s", err, code)
	case coded.Code() != code:
		t.Errorf("got code %s (%v), want %s", coded.Code(), err, code)
	}
}

// Post makes the record of a post with its chain.
func (k *Kit) Post(t testing.TB) ledger.Record {
	t.Helper()
	return k.PostOf(t, Plan{})
}

// PostOf makes the record of a post with a planned chain.
func (k *Kit) PostOf(t testing.TB, p Plan) ledger.Record {
	t.Helper()
	r := k.Build(t, p)
	var used Used
	a := must(Admit(context.Background(), k.Gate, r, used.Consume))(t)
	earned := must(evidence.UnverifiedClaims(evidence.CapabilityKind(), a.Capability))(t)
	e, b := r.Envelope, r.Binding
	method, path, _ := strings.Cut(b.Resource, " ")
	var standing *ledger.Standing
	if head := must(evidence.UnverifiedClaims(evidence.SessionReceiptKind(), e.SessionReceipt))(t).Interactions; head !=
		nil {
		standing = &ledger.Standing{Number: head.Number, Head: head.HeadHash, Open: head.OpenCalls}
	}
	return ledger.Record{
		ID: fmt.Sprint("post_", k.posts.Add(1)), Interactions: standing, Flow: "post", State: ledger.StateForwarded,
		Started: k.Clock.Now(), Finished: k.Clock.Now(), Method: method, Path: path,
		Event: earned.Runtime.Trigger.ID, Session: earned.Session.SessionID, BindingHash: a.BindingHash,
		Manifest: k.Strict.ManifestHash,
		Subject:  b.Subject, Action: b.Action, Resource: b.Resource, ContentHash: b.ContentHash, CapabilityID: a.CapabilityID,
		Artifacts: []ledger.Artifact{
			{Name: "challenge", Token: e.ChallengeToken}, {Name: "originProof", Token: e.OriginProof},
			{Name: "triggerReceipt", Token: e.TriggerReceipt},
			{Name: "policyDecision", Token: e.PolicyDecision}, {Name: "grant", Token: e.Grant},
			{Name: "runtimeAttestation", Token: e.Attestation},
			{Name: "sessionReceipt", Token: e.SessionReceipt}, {Name: "deploymentCertificate", Token: e.DeploymentCertificate},
			{Name: "capability", Token: a.Capability}, {Name: "requestProof", Token: k.Proof(t, a.Capability, Token)},
		},
	}
}
