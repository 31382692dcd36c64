package signer_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/observe"
	"github.com/actionproof/mediator/signer"
)

func now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func newIssuer[C any](t testing.TB, kind evidence.Kind[C], key signer.Key) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func memory(t testing.TB) *custody.Memory {
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

// TestAttestWhatWasSeen puts what was found in a run into both artifacts, and claims as observed nothing else than what was looked at.
func TestAttestWhatWasSeen(t *testing.T) {
	user := uint32(60578)
	whole := observe.NewWatch(&user, time.Now, func(*observe.Run, observe.Finding) {}).Begin("e", os.Getpid(), 0).Report()
	part := observe.NewWatch(nil, time.Now, func(*observe.Run, observe.Finding) {}).Begin("e", os.Getpid(), 0).Report()
	found := func(kinds ...string) observe.Report {
		r := whole
		for _, kind := range kinds {
			r.Found = append(r.Found, observe.Finding{Kind: kind})
		}
		return r
	}
	for name, tt := range map[string]struct {
		seen        observe.Report
		access      signer.Access
		want        signer.Access
		interactive bool
		observed    []string // of the flags
	}{
		"nothing was looked at":               {observe.Report{}, signer.Access{}, signer.Access{}, false, nil},
		"no launcher":                         {(*observe.Run)(nil).Report(), signer.Access{}, signer.Access{}, false, nil},
		"strangers cannot be told":            {part, signer.Access{}, signer.Access{}, false, nil},
		"nothing was found":                   {whole, signer.Access{}, signer.Access{}, false, []string{"userShellAccess"}},
		"nothing was found, a shell declared": {whole, signer.Access{UserShellAccess: true}, signer.Access{UserShellAccess: true}, true, nil},
		"a terminal":                          {found(observe.Terminal), signer.Access{}, signer.Access{HumanOperatorPresent: true}, true, []string{"humanInteractive", "humanOperatorPresent"}},
		"a terminal to read from":             {found(observe.Stdin), signer.Access{}, signer.Access{HumanPromptPresent: true}, true, []string{"humanInteractive", "humanPromptPresent"}},
		"a debugger":                          {found(observe.Debugger), signer.Access{}, signer.Access{AgentEnvironmentUserAccessible: true}, false, []string{"agentEnvironmentUserAccessible"}},
		"a stranger":                          {found(observe.Stranger), signer.Access{}, signer.Access{UserShellAccess: true}, true, []string{"humanInteractive", "userShellAccess"}},
		"the launcher has ended":              {found(observe.Launcher), signer.Access{}, signer.Access{}, false, nil},
		"a terminal, an operator declared": {found(observe.Terminal), signer.Access{HumanOperatorPresent: true}, signer.Access{HumanOperatorPresent: true}, true,
			[]string{"humanOperatorPresent"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := signer.NewAttester(newIssuer(t, evidence.RuntimeAttestationKind, memory(t)), newIssuer(t, evidence.SessionReceiptKind, memory(t)), tt.access)
			of := run
			of.Seen = tt.seen
			out, err := a.Attest(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			attestation, err1 := evidence.UnverifiedClaims(evidence.RuntimeAttestationKind, out.Attestation)
			session, err2 := evidence.UnverifiedClaims(evidence.SessionReceiptKind, out.SessionReceipt)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			got := signer.Access{
				HumanPromptPresent: session.HumanPromptPresent, HumanOperatorPresent: session.HumanOperatorPresent,
				UserShellAccess: session.UserShellAccess, AgentEnvironmentUserAccessible: session.AgentEnvironmentUserAccessible,
			}
			if got != tt.want || attestation.HumanInteractive != tt.interactive {
				t.Errorf("%+v, interactive %t", got, attestation.HumanInteractive)
			}
			var observed []string
			for _, claim := range append(attestation.Observed, session.Observed...) {
				if strings.HasPrefix(claim, "human") || claim == "userShellAccess" || claim == "agentEnvironmentUserAccessible" {
					observed = append(observed, claim)
				}
			}
			if !slices.Equal(observed, tt.observed) {
				t.Errorf("observed %v, want %v", observed, tt.observed)
			}
		})
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
