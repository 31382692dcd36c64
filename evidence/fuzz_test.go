package evidence_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

// FuzzBundle: no panic, a code for each refusal, and only the registry's key is believed.
func FuzzBundle(f *testing.F) {
	d := newDesk(f)
	token, id := d.proof(f)
	want := expect("mediator", "proof-key")
	for _, b := range []evidence.Bundle{
		{Certificates: d.certificates},
		{Certificates: append(d.certificates, d.certificates...), DeploymentCertificate: "x"},
		{Certificates: d.certificates,
			Revocations: d.list(f, d.options("registry", noon),
				evidence.Revocation{Kind: evidence.RevokedArtifact, ID: id})},
	} {
		raw, err := json.Marshal(b)
		check.Must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var trust *evidence.Trust
		b, err := evidence.ParseBundle(raw)
		if err == nil {
			trust, err = evidence.NewTrust([]evidence.Root{d.root}, b, d.policy)
		}
		var refused *refusal.Refusal
		if err != nil {
			if !errors.As(err, &refused) {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		_, err = evidence.Open(verifierAt(t, trust, noon), evidence.RequestProofKind(), token, want)
		if err == nil && !slices.Contains(b.Certificates, d.certificates[0]) {
			t.Errorf("a key is believed that nobody certified: %q", raw)
		}
	})
}

// FuzzParseRoot: an accepted root can verify, and its file has no private part.
func FuzzParseRoot(f *testing.F) {
	d := newDesk(f)
	f.Add([]byte(
		`{"kty":"OKP","crv":"Ed25519","kid":"` + d.root.KeyID + `","x":"` + evidence.EncodePublicKey(d.root.Public) + `"}`))
	f.Add([]byte(
		`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a:v1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":` +
			`"AKP","alg":"ML-DSA-65","kid":"a:v1","pub":"AA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
		var refused *refusal.Refusal
		switch {
		case err != nil && !errors.As(err, &refused):
			t.Errorf("an error without a code: %v", err)
		case err == nil && (r.KeyID == "" || r.Public == nil):
			t.Errorf("%q is a root without a key: %+v", raw, r)
		case err == nil:
			if _, err := evidence.NewPublicKey(r.Public); err != nil {
				t.Errorf("%q: %v", raw, err)
			}
		}
	})
}
