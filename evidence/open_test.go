package evidence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

func TestJudge(t *testing.T) {
	for name, signedHere := range map[string]bool{"opened": false, "signed here": true} {
		t.Run(name, func(t *testing.T) {
			d, now := newDesk(t), noon
			d.certificates = nil
			certificate := d.certify(t)
			v, err := evidence.NewVerifier(d.trust(t, ""),
				evidence.VerifierOptions{Now: func() time.Time { return now }})
			check.Must(t, err)
			i, err := signer.New(evidence.RequestProofKind(), d.key, d.options("mediator", noon))
			check.Must(t, err)
			o, err := i.Issue(t.Context(), aProof())
			check.Must(t, err)
			claims := o.Claims()
			want := expect("mediator", "proof-key")
			if !signedHere {
				o, err = evidence.Open(v, evidence.RequestProofKind(), o.Token(), want)
				check.Must(t, err)
			}
			if o.Claims() != claims || o.KeyID() != "proof-key:v1" || o.Hash() != evidence.HashToken(o.Token()) {
				t.Errorf("got %+v by %s, want %+v", o.Claims(), o.KeyID(), claims)
			}
			judge := func(want evidence.Expected) error {
				err := evidence.Judge(v, evidence.RequestProofKind(), o, want)
				if _, again := evidence.Open(v, evidence.RequestProofKind(), o.Token(), want); fmt.Sprint(err) !=
					fmt.Sprint(again) {
					t.Errorf("Judge says %v, and Open says %v", err, again)
				}
				return err
			}
			for range 3 {
				check.Must(t, judge(want))
			}
			for _, row := range []struct {
				code   string
				change func(*evidence.Expected)
			}{
				{"not_allowed", func(e *evidence.Expected) { e.Issuers = []string{"other"} }},
				{"not_allowed", func(e *evidence.Expected) { e.Audiences = []string{"other"} }},
				{"not_allowed", func(e *evidence.Expected) { e.KeyIDs = []string{"other"} }},
				{"not_allowed", func(e *evidence.Expected) { e.MaxAge = 0 }},
				{"roots_not_pinned", func(e *evidence.Expected) { e.RequirePostQuantum = true }},
				{"key_custody", func(e *evidence.Expected) { e.Custody = []string{evidence.CustodyHardwareBacked} }},
				{"artifact_malformed", func(e *evidence.Expected) {
					e.Secrets = []evidence.Secret{secretOf(t, []byte(strings.Repeat("s", 32)))}
				}},
			} {
				other := want
				row.change(&other)
				wantCode(t, judge(other), row.code)
			}
			now = noon.Add(10 * time.Minute)
			wantCode(t, judge(want), "expired")
			now = noon.Add(time.Hour)
			wantCode(t, judge(want), "expired")
			now = noon

			for _, row := range []struct {
				code    string
				revoked evidence.Revocation
			}{
				{"revoked", evidence.Revocation{Kind: evidence.RevokedKey, ID: "proof-key:v1"}},
				{"revoked", evidence.Revocation{Kind: evidence.RevokedArtifact, ID: certificate}},
				{"revoked", evidence.Revocation{Kind: evidence.RevokedArtifact, ID: claims.ID}},
			} {
				v.SetTrust(d.trust(t, d.list(t, d.options("registry", noon), row.revoked)))
				wantCode(t, judge(want), row.code)
			}

			d.certificates = nil // the key's certificate is gone
			v.SetTrust(d.trust(t, ""))
			wantCode(t, judge(want), "key_unknown")
			check.Must(t, d.key.Rotate()) // a later version has one: the key is retired
			d.certify(t)
			v.SetTrust(d.trust(t, ""))
			wantCode(t, judge(want), "key_retired")

			other := newDesk(t) // another registry and key with the same ids
			v.SetTrust(other.trust(t, ""))
			wantCode(t, judge(want), "signature_invalid")
		})
	}
}

func TestNothingIsOpenedByItself(t *testing.T) {
	w := newWorld(t)
	wantCode(t, evidence.Judge(w.verifier, evidence.RequestProofKind(), evidence.Opened[evidence.RequestProof]{},
		w.want), "artifact_missing")

	refused, err := evidence.Open(w.verifier, evidence.RequestProofKind(), w.token+"x", w.want)
	if err == nil || refused.Token() != "" || refused.KeyID() != "" || refused.Claims() != (evidence.RequestProof{}) {
		t.Errorf("an artifact that is refused was opened: %+v, %v", refused, err)
	}

	o, err := evidence.Open(w.verifier, evidence.RequestProofKind(), w.token, w.want)
	check.Must(t, err)
	c := o.Claims()
	c.Action = "other"
	if o.Claims().Action != "a" {
		t.Error("the claims of an opened artifact were changed from outside")
	}

	// Another typ or purpose is another kind, with the same claims.
	other := evidence.RequestProofKind()
	other.Typ = evidence.SessionReceiptKind().Typ
	wantCode(t, evidence.Judge(w.verifier, other, o, w.want), "artifact_malformed")
	other = evidence.RequestProofKind()
	other.Purpose = evidence.PurposeAgentSession
	wantCode(t, evidence.Judge(w.verifier, other, o, w.want), "key_purpose")

	foreign := newWorld(t)
	version, err := foreign.key.Current(t.Context())
	check.Must(t, err)
	draft, err := evidence.Prepare(version, evidence.RequestProofKind(), o.Claims())
	check.Must(t, err)
	forged, err := draft.Sign(t.Context())
	check.Must(t, err)
	wantCode(t, evidence.Judge(w.verifier, evidence.RequestProofKind(), forged, w.want), "signature_invalid")
	check.Must(t, evidence.Judge(foreign.verifier, evidence.RequestProofKind(), forged, w.want))
}

func TestSignFails(t *testing.T) {
	w := newWorld(t)
	o, err := evidence.Open(w.verifier, evidence.RequestProofKind(), w.token, w.want)
	check.Must(t, err)
	version, err := w.key.Current(t.Context())
	check.Must(t, err)
	draft, err := evidence.Prepare(brokenKey{version}, evidence.RequestProofKind(), o.Claims())
	check.Must(t, err)
	signed, err := draft.Sign(t.Context())
	if !errors.Is(err, errBroken) {
		t.Errorf("signed with a broken key: %v", err)
	}
	wantCode(t, evidence.Judge(w.verifier, evidence.RequestProofKind(), signed, w.want), "artifact_missing")
}

type brokenKey struct{ evidence.OwnKey }

func (brokenKey) Sign(context.Context, []byte) ([]byte, error) { return nil, errBroken }

func TestJudgeOfARoot(t *testing.T) {
	w := newTwice(t)
	trust := func(second bool) *evidence.Trust {
		root := w.root
		if !second {
			root.PostQuantum = nil
		}
		trust, err := evidence.NewTrust([]evidence.Root{root}, evidence.Bundle{}, evidence.SignerPolicy{})
		check.Must(t, err)
		return trust
	}
	v := verifierAt(t, trust(false), noon)
	once, _, _ := strings.Cut(w.token, "~")
	o, err := evidence.Open(v, evidence.DeploymentCertificateKind(), once, w.want)
	check.Must(t, err)
	check.Must(t, evidence.Judge(v, evidence.DeploymentCertificateKind(), o, w.want))
	v.SetTrust(trust(true))
	wantCode(t, evidence.Judge(v, evidence.DeploymentCertificateKind(), o, w.want), "signature_invalid")

	draft, err := evidence.Prepare(w.ed, evidence.DeploymentCertificateKind(), o.Claims())
	check.Must(t, err)
	signed, err := draft.Sign(t.Context())
	check.Must(t, err)
	wantCode(t, evidence.Judge(v, evidence.DeploymentCertificateKind(), signed, w.want), "signature_invalid")
	v.SetTrust(trust(false))
	check.Must(t, evidence.Judge(v, evidence.DeploymentCertificateKind(), signed, w.want))
}

func TestJudgeOfASecret(t *testing.T) {
	w := newWorld(t)
	s, other := secretOf(t, []byte(strings.Repeat("s", 32))), secretOf(t, []byte(strings.Repeat("t", 32)))
	i, err := signer.NewShared(evidence.RuntimeAttestationKind(), s, options())
	check.Must(t, err)
	o, err := i.Issue(t.Context(), attestation())
	check.Must(t, err)
	names := func(secrets ...evidence.Secret) evidence.Expected {
		return evidence.Expected{Issuers: []string{"runtime"}, Audiences: []string{"api"}, MaxAge: time.Minute,
			Secrets: secrets, KeyIDs: []string{s.KeyID()}}
	}
	check.Must(t, evidence.Judge(w.verifier, evidence.RuntimeAttestationKind(), o, names(other, s)))
	wantCode(t, evidence.Judge(w.verifier, evidence.RuntimeAttestationKind(), o, names(other)), "key_unknown")
	wantCode(t, evidence.Judge(w.verifier, evidence.RuntimeAttestationKind(), o, names()), "artifact_malformed")
	received, err := evidence.Open(w.verifier, evidence.RuntimeAttestationKind(), o.Token(), names(s))
	check.Must(t, err)
	wantCode(t, evidence.Judge(w.verifier, evidence.RuntimeAttestationKind(), received, names()), "artifact_malformed")
}

func BenchmarkOpen(b *testing.B) {
	w := newWorld(b)
	o, err := evidence.Open(w.verifier, evidence.RequestProofKind(), w.token, w.want)
	check.Must(b, err)
	for name, do := range map[string]func() error{
		"open":  func() error { return w.open(w.token) },
		"judge": func() error { return evidence.Judge(w.verifier, evidence.RequestProofKind(), o, w.want) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check.Must(b, do())
			}
		})
	}
}

// TestOpenRefusesOfARoot: what the golden vectors do not show.
func TestOpenRefusesOfARoot(t *testing.T) {
	w := newTwice(t)
	w.root.PostQuantum = nil
	once, _, _ := strings.Cut(w.token, "~")
	claims, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), once)
	check.Must(t, err)
	list, err := evidence.Sign(t.Context(), w.ed, evidence.RevocationListKind(),
		evidence.RevocationList{Registered: claims.Registered, Revoked: []evidence.Revocation{}})
	check.Must(t, err)
	head, _ := parts(t, once)
	_, payload := parts(t, list)
	trust, err := evidence.NewTrust([]evidence.Root{w.root}, evidence.Bundle{}, evidence.SignerPolicy{})
	check.Must(t, err)
	_, err = evidence.Open(verifierAt(t, trust, noon), evidence.DeploymentCertificateKind(),
		forge(t, w.ed, head, payload), w.want)
	wantCode(t, err, "artifact_malformed")
}
