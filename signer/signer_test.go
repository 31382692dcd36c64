package signer_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

func now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func newIssuer[C any](t testing.TB, kind evidence.Kind[C], key signer.Key) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now})
	check.Must(t, err)
	return i
}

func memory(t testing.TB) *custody.Memory {
	t.Helper()
	k, err := custody.NewMemory("k")
	check.Must(t, err)
	return k
}

var run = signer.Run{
	Binding: evidence.Binding{Subject: "s", Action: "a", Resource: "r", ContentHash: evidence.HashBytes(nil),
		Nonce: "n"},
	ChallengeID: "c", RuntimeID: "rt", SessionID: "ses", TranscriptHash: evidence.HashBytes(nil), EventID: "e",
	TriggerKind:   "source_event",
	TriggerSource: "github", TriggerReceiptHash: evidence.HashBytes(nil), PolicyHash: evidence.HashBytes(nil),
	EnvironmentHash: evidence.HashBytes(nil),
}

func TestAttest(t *testing.T) {
	a := signer.NewAttester(newIssuer(t, evidence.RuntimeAttestationKind(), memory(t)),
		newIssuer(t, evidence.SessionReceiptKind(), memory(t)), signer.Access{UserShellAccess: true})
	out, err := a.Attest(t.Context(), run)
	check.Must(t, err)
	attestation, err := evidence.UnverifiedClaims(evidence.RuntimeAttestationKind(), out.Attestation.Token())
	check.Must(t, err)
	session, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), out.SessionReceipt.Token())
	check.Must(t, err)
	// Declarations go in truthfully; strict policy refuses them later.
	if !attestation.HumanInteractive || !session.UserShellAccess || session.HumanPromptPresent {
		t.Errorf("%+v %+v", attestation, session)
	}
	// Declared is not observed.
	for _, tt := range []struct {
		got  []string
		want string
	}{
		{attestation.Observed, "bindingHash challengeId contentHash environmentHash trigger triggerReceiptHash"},
		{session.Observed, "bindingHash challengeId environmentHash eventId inputKind inputSource sessionId transcriptHash"},
	} {
		if got := strings.Join(tt.got, " "); got != tt.want {
			t.Errorf("observed: %s, want %s", got, tt.want)
		}
	}
	if attestation.IssuedAt != now().Unix() || attestation.Expires != now().Unix()+60 ||
		attestation.KeyCustody != custody.ExternalMediator || attestation.ID == session.ID {
		t.Errorf("%+v", attestation.Registered)
	}
}

func TestAttestWithSecret(t *testing.T) {
	secret, err := evidence.NewSecret([]byte(strings.Repeat("s", 32)))
	check.Must(t, err)
	o := signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now}
	runtime, err1 := signer.NewShared(evidence.RuntimeAttestationKind(), secret, o)
	session, err2 := signer.NewShared(evidence.SessionReceiptKind(), secret, o)
	check.Must(t, errors.Join(err1, err2))
	out, err := signer.NewAttester(runtime, newIssuer(t, evidence.SessionReceiptKind(), memory(t)),
		signer.Access{}).Attest(t.Context(), run)
	check.Must(t, err)
	if header, _, _ := strings.Cut(out.Attestation.Token(), "."); !strings.HasPrefix(header,
		base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256",`))) {
		t.Errorf("the attestation is %s", out.Attestation.Token())
	}
	if out, err := signer.NewAttester(runtime, session, signer.Access{}).Attest(t.Context(), run); err == nil {
		t.Errorf("a session receipt under a secret: %+v", out)
	}
}

func TestAttestWhatWasSeen(t *testing.T) {
	whole := look.NewReport(nil, nil)
	part := look.NewReport(nil, map[string]string{look.Stranger: "it is not isolated"})
	found := func(kinds ...string) look.Report {
		r := whole
		for _, kind := range kinds {
			r.Found = append(r.Found, look.Finding{Kind: kind})
		}
		return r
	}
	for name, tt := range map[string]struct {
		seen        look.Report
		access      signer.Access
		want        signer.Access
		interactive bool
		observed    []string // of the flags
	}{
		"nothing was looked at":    {look.Report{}, signer.Access{}, signer.Access{}, false, nil},
		"no launcher":              {(*observe.Run)(nil).Report(), signer.Access{}, signer.Access{}, false, nil},
		"strangers cannot be told": {part, signer.Access{}, signer.Access{}, false, nil},
		"nothing was found":        {whole, signer.Access{}, signer.Access{}, false, []string{"noProcessEntered"}},
		"nothing was found, a shell declared": {whole, signer.Access{UserShellAccess: true},
			signer.Access{UserShellAccess: true}, true, []string{"noProcessEntered"}},
		"a terminal": {found(look.Terminal), signer.Access{},
			signer.Access{HumanOperatorPresent: true}, true, []string{"humanInteractive", "humanOperatorPresent"}},
		"a terminal to read from": {found(look.Stdin), signer.Access{}, signer.Access{HumanPromptPresent: true},
			true, []string{"humanInteractive", "humanPromptPresent"}},
		"a debugger": {found(look.Debugger), signer.Access{},
			signer.Access{AgentEnvironmentUserAccessible: true}, false, []string{"agentEnvironmentUserAccessible"}},
		"a stranger": {found(look.Stranger), signer.Access{}, signer.Access{UserShellAccess: true},
			true, []string{"humanInteractive", "userShellAccess"}},
		"the launcher has ended": {found(look.Launcher), signer.Access{}, signer.Access{}, false, nil},
		"a terminal, an operator declared": {found(look.Terminal), signer.Access{HumanOperatorPresent: true},
			signer.Access{HumanOperatorPresent: true}, true,
			[]string{"humanOperatorPresent"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := signer.NewAttester(newIssuer(t, evidence.RuntimeAttestationKind(), memory(t)),
				newIssuer(t, evidence.SessionReceiptKind(), memory(t)), tt.access)
			of := run
			of.Seen = tt.seen
			out, err := a.Attest(t.Context(), of)
			check.Must(t, err)
			attestation, err1 := evidence.UnverifiedClaims(evidence.RuntimeAttestationKind(), out.Attestation.Token())
			session, err2 := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), out.SessionReceipt.Token())
			check.Must(t, errors.Join(err1, err2))
			got := signer.Access{
				HumanPromptPresent: session.HumanPromptPresent, HumanOperatorPresent: session.HumanOperatorPresent,
				UserShellAccess: session.UserShellAccess, AgentEnvironmentUserAccessible: session.AgentEnvironmentUserAccessible,
			}
			if got != tt.want || attestation.HumanInteractive != tt.interactive {
				t.Errorf("%+v, interactive %t", got, attestation.HumanInteractive)
			}
			var observed []string
			for _, claim := range append(attestation.Observed, session.Observed...) {
				if strings.HasPrefix(claim, "human") || claim == "userShellAccess" || claim == "noProcessEntered" ||
					claim == "agentEnvironmentUserAccessible" {
					observed = append(observed, claim)
				}
			}
			if !slices.Equal(observed, tt.observed) {
				t.Errorf("observed %v, want %v", observed, tt.observed)
			}
		})
	}
}

var errAway = errors.New("custody is away")

type failing struct {
	*custody.Memory
	late bool
}

func (f failing) Current(ctx context.Context) (custody.Version, error) {
	if !f.late {
		return custody.Version{}, errAway
	}
	v, err := f.Memory.Current(ctx)
	return custody.NewVersion(f.Name(), 1, v.Public(), func(context.Context, []byte) ([]byte, error) {
		return nil, errAway
	}), err
}

func (failing) Versions(context.Context) ([]custody.Version, error) { return nil, errAway }

func TestSignFails(t *testing.T) {
	for _, late := range []bool{false, true} {
		key := failing{memory(t), late}
		certificates, err := signer.New(evidence.SignerCertificateKind(), key,
			signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now, Second: secondKey{}})
		check.Must(t, err)
		if token, _, err := certificates.Sign(t.Context(), aCertificate(t)); !errors.Is(err, errAway) || token != "" {
			t.Errorf("late %t: a certificate: %q, %v", late, token, err)
		}
		good, bad := newIssuer(t, evidence.SessionReceiptKind(), memory(t)), newIssuer(t, evidence.SessionReceiptKind(), key)
		runtime, fails := newIssuer(t, evidence.RuntimeAttestationKind(), memory(t)),
			newIssuer(t, evidence.RuntimeAttestationKind(), key)
		for _, a := range []*signer.Attester{signer.NewAttester(runtime, bad, signer.Access{}),
			signer.NewAttester(fails, good, signer.Access{})} {
			if out, err := a.Attest(t.Context(), run); !errors.Is(err, errAway) || out.Attestation.Token() != "" ||
				out.SessionReceipt.Token() != "" {
				t.Errorf("late %t: %+v, %v", late, out, err)
			}
		}
		origin, receipt := newIssuer(t, evidence.TriggerOriginProofKind(), memory(t)),
			newIssuer(t, evidence.TriggerReceiptKind(), memory(t))
		for _, sign := range []func() ([2]string, error){
			func() ([2]string, error) {
				return signer.SignPair(t.Context(), newIssuer(t, evidence.TriggerOriginProofKind(), key), anOrigin, receipt,
					aReceipt)
			},
			func() ([2]string, error) {
				return signer.SignPair(t.Context(), origin, anOrigin, newIssuer(t, evidence.TriggerReceiptKind(), key), aReceipt)
			},
		} {
			if tokens, err := sign(); !errors.Is(err, errAway) || tokens != [2]string{} {
				t.Errorf("late %t: a pair: %q, %v", late, tokens, err)
			}
		}
	}
}

type secondKey struct{}

func (secondKey) KeyID() string { return "second:v1" }
func (secondKey) Sign(context.Context, []byte) ([]byte, error) {
	return nil, errors.New("the second key was asked")
}

func aCertificate(t *testing.T) evidence.SignerCertificate {
	t.Helper()
	v, err := memory(t).Current(t.Context())
	check.Must(t, err)
	return certificateOf(v)
}

func TestNewRefuses(t *testing.T) {
	secret, err := evidence.NewSecret([]byte(strings.Repeat("s", 32)))
	check.Must(t, err)
	longest := evidence.RuntimeAttestationKind().MaxLifetime
	for name, tt := range map[string]struct {
		change func(*signer.Options)
		want   string // of the error, if any
	}{
		"good":                 {func(*signer.Options) {}, ""},
		"no issuer":            {func(o *signer.Options) { o.Issuer = "" }, "needs an issuer name"},
		"no audience":          {func(o *signer.Options) { o.Audience = "" }, "needs an issuer name"},
		"no clock":             {func(o *signer.Options) { o.Now = nil }, "needs a clock"},
		"no lifetime":          {func(o *signer.Options) { o.Lifetime = 0 }, "is not between"},
		"under a second":       {func(o *signer.Options) { o.Lifetime = time.Second - 1 }, "is not between"},
		"a second":             {func(o *signer.Options) { o.Lifetime = time.Second }, ""},
		"the longest lifetime": {func(o *signer.Options) { o.Lifetime = longest }, ""},
		"a longer lifetime":    {func(o *signer.Options) { o.Lifetime = longest + 1 }, "is not between"},
	} {
		o := signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now}
		tt.change(&o)
		_, err1 := signer.New(evidence.RuntimeAttestationKind(), memory(t), o)
		_, err2 := signer.NewShared(evidence.RuntimeAttestationKind(), secret, o)
		for _, err := range []error{err1, err2} {
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	good := signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now}
	if _, err := signer.New(evidence.RequestProofKind(), nil, good); err == nil {
		t.Error("no key: accepted")
	}
	good.Second = secondKey{}
	if _, err := signer.NewShared(evidence.RuntimeAttestationKind(), secret, good); err == nil {
		t.Error("a secret and a second key: accepted")
	}
	if _, _, err := newIssuer(t, evidence.RequestProofKind(), memory(t)).Sign(t.Context(), evidence.RequestProof{}); err ==
		nil {
		t.Error("empty claims were signed")
	}
}

func TestIssueRefuses(t *testing.T) {
	var refused *refusal.Refusal
	if o, err := newIssuer(t, evidence.SessionReceiptKind(), memory(t)).Issue(t.Context(),
		evidence.SessionReceipt{}); !errors.As(err, &refused) || o.Token() != "" {
		t.Errorf("a receipt without claims: %q, %v", o.Token(), err)
	}
	twice, err := signer.New(evidence.SignerCertificateKind(), memory(t),
		signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now, Second: secondKey{}})
	check.Must(t, err)
	if o, err := twice.Issue(t.Context(), aCertificate(t)); err == nil ||
		!strings.Contains(err.Error(), "is made with Sign") || o.Token() != "" {
		t.Errorf("an artifact with two signatures: %q, %v", o.Token(), err)
	}
}
