package signer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

func now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func newIssuer[C any](t *testing.T, kind evidence.Kind[C], key signer.Key) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func memory(t *testing.T) *custody.Memory {
	t.Helper()
	k, err := custody.NewMemory("k")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var run = signer.Run{
	Binding:     evidence.Binding{Subject: "s", Action: "a", Resource: "r", ContentHash: evidence.HashBytes(nil), Nonce: "n"},
	ChallengeID: "c", RuntimeID: "rt", SessionID: "ses", TranscriptHash: evidence.HashBytes(nil), EventID: "e", TriggerKind: "source_event",
	TriggerSource: "github", TriggerReceiptHash: evidence.HashBytes(nil), PolicyHash: evidence.HashBytes(nil), EnvironmentHash: evidence.HashBytes(nil),
}

func TestAttest(t *testing.T) {
	a := signer.NewAttester(newIssuer(t, evidence.RuntimeAttestationKind, memory(t)), newIssuer(t, evidence.SessionReceiptKind, memory(t)), signer.Access{UserShellAccess: true})
	out, err := a.Attest(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	attestation, err := evidence.UnverifiedClaims(evidence.RuntimeAttestationKind, out.Attestation)
	if err != nil {
		t.Fatal(err)
	}
	session, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind, out.SessionReceipt)
	if err != nil {
		t.Fatal(err)
	}
	// What is declared goes in truthfully; strict policy refuses it later.
	if !attestation.HumanInteractive || !session.UserShellAccess || session.HumanPromptPresent {
		t.Errorf("%+v %+v", attestation, session)
	}
	for _, claim := range []string{"humanInteractive", "mode", "userShellAccess", "humanPromptPresent", "humanOperatorPresent", "agentEnvironmentUserAccessible"} {
		for _, observed := range append(attestation.Observed, session.Observed...) {
			if claim == observed {
				t.Errorf("%s is claimed as observed; it is only declared", claim)
			}
		}
	}
	if attestation.IssuedAt != now().Unix() || attestation.Expires != now().Unix()+60 || attestation.KeyCustody != custody.ExternalMediator || attestation.ID == session.ID {
		t.Errorf("%+v", attestation.Registered)
	}
}

// failing is a key whose custody does not answer.
type failing struct{ *custody.Memory }

func (failing) Current(context.Context) (custody.Version, error) {
	return custody.Version{}, errors.New("custody is away")
}

func TestAttestFailsAsAWhole(t *testing.T) {
	a := signer.NewAttester(newIssuer(t, evidence.RuntimeAttestationKind, memory(t)), newIssuer(t, evidence.SessionReceiptKind, failing{memory(t)}), signer.Access{})
	if out, err := a.Attest(t.Context(), run); err == nil {
		t.Errorf("got %+v", out)
	}
}

func TestNewRefuses(t *testing.T) {
	good := signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now}
	for name, change := range map[string]func(*signer.Options){
		"no issuer":       func(o *signer.Options) { o.Issuer = "" },
		"no audience":     func(o *signer.Options) { o.Audience = "" },
		"no clock":        func(o *signer.Options) { o.Now = nil },
		"no lifetime":     func(o *signer.Options) { o.Lifetime = 0 },
		"a long lifetime": func(o *signer.Options) { o.Lifetime = time.Hour },
	} {
		o := good
		change(&o)
		if _, err := signer.New(evidence.RequestProofKind, memory(t), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := signer.New(evidence.RequestProofKind, nil, good); err == nil {
		t.Error("no key: accepted")
	}
	// An issuer does not sign claims that no verifier accepts.
	if _, _, err := newIssuer(t, evidence.RequestProofKind, memory(t)).Sign(t.Context(), evidence.RequestProof{}); err == nil {
		t.Error("empty claims were signed")
	}
}
