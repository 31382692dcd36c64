package gate_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func before[C any](t testing.TB, whole, now *evidence.Trust, kind evidence.Kind[C], token string,
	want evidence.Expected) evidence.Opened[C] {
	t.Helper()
	c, err := evidence.UnverifiedClaims(kind, token)
	if err != nil {
		return evidence.Opened[C]{}
	}
	signed := func() time.Time { return time.Unix(kind.Registered(c).IssuedAt, 0) }
	for _, trust := range []*evidence.Trust{whole, now} {
		v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: signed})
		check.Must(t, err)
		if o, err := evidence.Open(v, kind, token, want); err == nil {
			return o
		}
	}
	return evidence.Opened[C]{}
}

func opened(t testing.TB, k *gatetest.Kit, e evidence.Envelope) gate.Opened {
	t.Helper()
	revocations := k.Revocations
	k.Revocations = ""
	whole := k.Trust(t)
	k.Revocations = revocations
	s, now := k.Strict, k.Verifier.Trust()
	return gate.Opened{
		OriginProof:    before(t, whole, now, evidence.TriggerOriginProofKind(), e.OriginProof, s.Origin.Expected),
		TriggerReceipt: before(t, whole, now, evidence.TriggerReceiptKind(), e.TriggerReceipt, s.Receipt.Expected),
		PolicyDecision: before(t, whole, now, evidence.PolicyDecisionKind(), e.PolicyDecision, s.Decision),
		Grant:          before(t, whole, now, evidence.ActionGrantKind(), e.Grant, s.Grant),
		Attestation:    before(t, whole, now, evidence.RuntimeAttestationKind(), e.Attestation, s.Runtime.Expected),
		SessionReceipt: before(t, whole, now, evidence.SessionReceiptKind(), e.SessionReceipt, s.Session.Expected),
	}
}

func TestAdmitOpened(t *testing.T) {
	t.Parallel()
	type row struct {
		code   string
		change func(t *testing.T, k *gatetest.Kit)
	}
	rows := map[string]row{
		"nothing":              {"", func(*testing.T, *gatetest.Kit) {}},
		"the same trust again": {"", func(t *testing.T, k *gatetest.Kit) { k.Verifier.SetTrust(k.Trust(t)) }},
		"too old":              {"expired", func(_ *testing.T, k *gatetest.Kit) { k.Clock.Advance(20 * time.Second) }},
		"revocation list is over": {"revocations_stale", func(t *testing.T, k *gatetest.Kit) {
			k.Revoke(t)
			k.Verifier.SetTrust(k.Trust(t))
			k.Clock.Advance(31 * 24 * time.Hour)
		}},
	}
	for _, a := range artifacts {
		without := func(t *testing.T, k *gatetest.Kit, more ...string) {
			k.Verifier.SetTrust(k.TrustWithout(t, a.purpose, more...))
		}
		rows[a.name+"'s key revoked"] = row{"revoked", func(t *testing.T, k *gatetest.Kit) {
			k.Revoke(t, evidence.Revocation{Kind: evidence.RevokedKey, ID: k.Key(t, a.purpose).KeyID()})
			k.Verifier.SetTrust(k.Trust(t))
		}}
		rows[a.name+"'s key retired"] = row{"key_retired", func(t *testing.T, k *gatetest.Kit) {
			k.Rotate(t, a.purpose)
			without(t, k, k.Vouch(t, k.Key(t, a.purpose), a.purpose, k.Issuer(a.purpose)))
		}}
		rows[a.name+"'s certificate gone"] = row{"key_unknown", func(t *testing.T, k *gatetest.Kit) { without(t, k) }}
		rows[a.name+"'s certificate for another issuer"] = row{"key_purpose", func(t *testing.T, k *gatetest.Kit) {
			without(t, k, k.Vouch(t, k.Key(t, a.purpose), a.purpose, "another-issuer"))
		}}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			r := k.Chain(t)
			r.Opened = opened(t, k, r.Envelope)
			if o := r.Opened; slices.Contains(
				[]string{o.OriginProof.Token(), o.TriggerReceipt.Token(), o.PolicyDecision.Token(), o.Grant.Token(),
					o.Attestation.Token(), o.SessionReceipt.Token()}, "") {
				t.Fatalf("not all is opened: %+v", o)
			}
			row.change(t, k)
			a, err := k.Gate.Admit(t.Context(), r)
			if row.code == "" {
				if err != nil || a.Capability == "" || len(a.Keys) != 7 {
					t.Errorf("%+v, %v", a, err)
				}
				return
			}
			gatetest.WantCode(t, err, row.code)
			if a.Capability != "" || len(a.Keys) != 0 {
				t.Errorf("a refused chain has earned %+v", a)
			}
		})
	}
}

func TestAuthorizeSigned(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	r := authorizing(t, k)
	trust := k.Verifier.Trust()
	r.Signed = before(t, trust, trust, evidence.RequestProofKind(), r.RequestProof, k.Strict.RequestProof)
	if _, err := k.Gate.Authorize(t.Context(), r); err != nil || r.Signed.Token() == "" {
		t.Fatalf("%v, with the proof %q", err, r.Signed.Token())
	}
	other := r
	other.RequestProof = r.RequestProof[:len(r.RequestProof)-4] + "AAAA" // the request's own proof counts
	_, err := k.Gate.Authorize(t.Context(), other)
	gatetest.WantCode(t, err, "signature_invalid")
	k.Verifier.SetTrust(k.TrustWithout(t, evidence.PurposeRequestProof))
	_, err = k.Gate.Authorize(t.Context(), r)
	gatetest.WantCode(t, err, "key_unknown")
}

func BenchmarkOpenAndAdmit(b *testing.B) {
	k := gatetest.New(b)
	r := k.Chain(b)
	signed := opened(b, k, r.Envelope)
	b.ReportAllocs()
	for b.Loop() {
		var err [4]error
		e, s := r.Envelope, k.Strict
		r.Opened = gate.Opened{Attestation: signed.Attestation, SessionReceipt: signed.SessionReceipt}
		r.Opened.OriginProof, err[0] = evidence.Open(k.Verifier, evidence.TriggerOriginProofKind(), e.OriginProof,
			s.Origin.Expected)
		r.Opened.TriggerReceipt, err[1] = evidence.Open(k.Verifier, evidence.TriggerReceiptKind(), e.TriggerReceipt,
			s.Receipt.Expected)
		r.Opened.PolicyDecision, err[2] = evidence.Open(k.Verifier, evidence.PolicyDecisionKind(), e.PolicyDecision,
			s.Decision)
		r.Opened.Grant, err[3] = evidence.Open(k.Verifier, evidence.ActionGrantKind(), e.Grant, s.Grant)
		check.Must(b, errors.Join(err[:]...))
		if _, err := k.Gate.Admit(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
