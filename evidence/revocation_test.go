package evidence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

type desk struct {
	registry, key *custody.Memory
	root          evidence.Root
	policy        evidence.SignerPolicy
	certificates  []string
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	registry, err := custody.NewMemory("registry")
	check.Must(t, err)
	key, err := custody.NewMemory("proof-key")
	check.Must(t, err)
	v, err := registry.Current(t.Context())
	check.Must(t, err)
	d := &desk{registry: registry, key: key,
		root: evidence.Root{KeyID: v.KeyID(), Public: v.Public(), Purpose: evidence.PurposeSignerCertificate}}
	d.policy.Expected = evidence.Expected{Issuers: []string{"registry"}, Audiences: []string{"api"},
		KeyIDs: []string{"registry"}, MaxAge: time.Hour}
	d.certify(t)
	return d
}

func (d *desk) options(issuer string, now time.Time) signer.Options {
	return signer.Options{Issuer: issuer, Audience: "api", Lifetime: 10 * time.Minute, Now: func() time.Time {
		return now
	}}
}

func (d *desk) certify(t testing.TB) string {
	t.Helper()
	v, err := d.key.Current(t.Context())
	check.Must(t, err)
	token, c := sign(t, evidence.SignerCertificateKind(), d.registry, d.options("registry", noon),
		certificateFor(v, evidence.PurposeRequestProof, "mediator"))
	d.certificates = append(d.certificates, token)
	return c.ID
}

func (d *desk) list(t testing.TB, o signer.Options, entries ...evidence.Revocation) string {
	t.Helper()
	for i := range entries {
		entries[i].Expires, entries[i].Reason = noon.Add(time.Hour).Unix(), "lost in a train"
	}
	token, _ := sign(t, evidence.RevocationListKind(), d.registry, o,
		evidence.RevocationList{Revoked: append([]evidence.Revocation{}, entries...)})
	return token
}

func (d *desk) proof(t testing.TB) (token, id string) {
	t.Helper()
	token, c := sign(t, evidence.RequestProofKind(), d.key, d.options("mediator", noon), aProof())
	return token, c.ID
}

func (d *desk) trust(t testing.TB, list string) *evidence.Trust {
	t.Helper()
	trust, err := evidence.NewTrust([]evidence.Root{d.root},
		evidence.Bundle{Certificates: d.certificates, Revocations: list}, d.policy)
	check.Must(t, err)
	return trust
}

func (d *desk) verifier(t testing.TB, list string, now time.Time) *evidence.Verifier {
	t.Helper()
	return verifierAt(t, d.trust(t, list), now)
}

func (d *desk) open(t testing.TB, token, list string, now time.Time) error {
	t.Helper()
	_, err := evidence.Open(d.verifier(t, list, now), evidence.RequestProofKind(), token,
		expect("mediator", "proof-key"))
	return err
}

// TestRevoked: what the golden vectors do not show.
func TestRevoked(t *testing.T) {
	d := newDesk(t)
	token, id := d.proof(t)
	list := func(entries ...evidence.Revocation) string { return d.list(t, d.options("registry", noon), entries...) }
	artifact := func(id string) evidence.Revocation {
		return evidence.Revocation{Kind: evidence.RevokedArtifact, ID: id}
	}
	key := func(id string) evidence.Revocation { return evidence.Revocation{Kind: evidence.RevokedKey, ID: id} }
	err := d.open(t, token, list(artifact("x"), artifact(id)), noon)
	wantCode(t, err, "revoked")
	if !strings.Contains(err.Error(), "lost in a train") {
		t.Errorf("%v does not say why", err)
	}

	v := d.verifier(t, list(artifact("g"), key("proof-key")), noon)
	wantCode(t, v.NotRevoked("capability", "other:v1", "a", "g"), "revoked")
	wantCode(t, v.NotRevoked("capability", "proof-key:v7"), "revoked")
	check.Must(t, v.NotRevoked("capability", "other:v1", "a"))
}

// TestRevocationListThatIsRefused: what the golden vectors do not show.
func TestRevocationListThatIsRefused(t *testing.T) {
	d := newDesk(t)
	good := d.list(t, d.options("registry", noon), evidence.Revocation{Kind: evidence.RevokedKey, ID: "k"})
	for name, list := range map[string]string{"cut off": good[:len(good)-1], "too large": strings.Repeat("a", 256<<10+1)} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.NewTrust([]evidence.Root{d.root},
				evidence.Bundle{Certificates: d.certificates, Revocations: list}, d.policy)
			wantCode(t, err, "artifact_malformed")
		})
	}
	i, err := signer.New(evidence.RevocationListKind(), d.registry, d.options("registry", noon))
	check.Must(t, err)
	for name, e := range map[string]evidence.Revocation{
		"no kind":            {Expires: 1, ID: "x", Reason: "r"},
		"a long reason":      {Expires: 1, ID: "x", Kind: evidence.RevokedKey, Reason: strings.Repeat("r", 257)},
		"a reason not UTF-8": {Expires: 1, ID: "x", Kind: evidence.RevokedKey, Reason: "\xff"},
	} {
		_, _, err := i.Sign(t.Context(), evidence.RevocationList{Revoked: []evidence.Revocation{e}})
		t.Run(name, func(t *testing.T) { wantCode(t, err, "artifact_malformed") })
	}
	_, _, err = i.Sign(t.Context(),
		evidence.RevocationList{
			Revoked: []evidence.Revocation{
				{Expires: 1, ID: strings.Repeat("k", 256), Kind: evidence.RevokedKey,
					Reason: strings.Repeat("r", 256)}}})
	check.Must(t, err)
	_, _, err = i.Sign(t.Context(), evidence.RevocationList{})
	wantCode(t, err, "artifact_malformed") // null is no list
	check.Must(t, func() error {
		many := make([]evidence.Revocation, 500)
		for i := range many {
			many[i] = evidence.Revocation{Kind: evidence.RevokedArtifact, ID: evidence.NewID()}
		}
		token, _ := d.proof(t)
		return d.open(t, token, d.list(t, d.options("registry", noon), many...), noon)
	}())
}

func TestRevocationsAreNotRolledBack(t *testing.T) {
	d := newDesk(t)
	none, old, young := d.trust(t, ""), d.trust(t, d.list(t, d.options("registry", noon))),
		d.trust(t, d.list(t, d.options("registry", noon.Add(time.Second))))
	revoked := evidence.Revocation{Kind: evidence.RevokedKey, ID: "k"}
	more := d.trust(t,
		d.list(t, d.options("registry", noon), revoked, evidence.Revocation{Kind: evidence.RevokedArtifact, ID: "k"}))
	less := d.trust(t, d.list(t, d.options("registry", noon), revoked))
	for name, tt := range map[string]struct {
		from, to *evidence.Trust
		code     string
	}{
		"to more in the same second": {less, more, ""},
		"to less in the same second": {more, less, "revocations_rolled_back"},
		"to less, later":             {more, young, ""},
		"none to none":               {none, none, ""}, "none to one": {none, old, ""},
		"to a younger": {old, young, ""},
		"to the same":  {old, old, ""},
		"to an older":  {young, old, "revocations_rolled_back"}, "to none": {old, none, "revocations_rolled_back"},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, tt.to.Succeeds(tt.from), tt.code)
		})
	}
	if l, ok := young.Revocations(); !ok || l.IssuedAt != noon.Unix()+1 {
		t.Errorf("%+v %t", l, ok)
	}
	if l, ok := none.Revocations(); ok || l.IssuedAt != 0 {
		t.Errorf("%+v %t", l, ok)
	}
}

func TestRetiredVersionsDoNotComeBack(t *testing.T) {
	d := newDesk(t)
	first := d.trust(t, "")
	check.Must(t, d.key.Rotate())
	d.certify(t)
	both := d.trust(t, "")
	d.certificates = d.certificates[1:]
	second := d.trust(t, "")
	d.certificates = nil
	none := d.trust(t, "")
	for name, tt := range map[string]struct {
		from, to *evidence.Trust
		code     string
	}{
		"a new version": {first, both, ""}, "the old one is retired": {both, second, ""},
		"it is left out, both are": {both, none, ""}, "the first": {none, first, ""},
		"the new one is given up before it was alone": {both, first, ""},
		"the old one comes back beside the new one":   {second, both, "revocations_rolled_back"},
		"the old one comes back alone":                {second, first, "revocations_rolled_back"},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, tt.to.Succeeds(tt.from), tt.code)
		})
	}
}

// TestRetiredVersion: without a certificate, retired only if a later version has one.
func TestRetiredVersion(t *testing.T) {
	d := newDesk(t)
	first, _ := d.proof(t)
	check.Must(t, d.open(t, first, "", noon))
	check.Must(t, d.key.Rotate())
	second, _ := d.proof(t)
	wantCode(t, d.open(t, second, "", noon), "key_unknown")
	d.certify(t)
	check.Must(t, d.open(t, first, "", noon))
	check.Must(t, d.open(t, second, "", noon))
	firstCertificate := d.certificates[0]
	d.certificates = d.certificates[1:]
	wantCode(t, d.open(t, first, "", noon), "key_retired")
	check.Must(t, d.open(t, second, "", noon))
	check.Must(t, d.key.Rotate())
	d.certificates = nil
	wantCode(t, d.open(t, first, "", noon), "key_unknown")
	d.certify(t)
	d.certificates = append(d.certificates, firstCertificate)
	wantCode(t, d.open(t, second, "", noon), "key_retired")
	d.certificates = nil
	d.certify(t)
	wantCode(t, d.open(t, first,
		d.list(t, d.options("registry", noon), evidence.Revocation{Kind: evidence.RevokedKey, ID: "proof-key:v1"}),
		noon), "revoked")
}

func TestCertified(t *testing.T) {
	d := newDesk(t)
	key := func(id string) string {
		return d.list(t, d.options("registry", noon), evidence.Revocation{Kind: evidence.RevokedKey, ID: id})
	}
	for name, tt := range map[string]struct {
		list    string
		revoked bool
	}{"no list": {"", false}, "another": {key("other"), false}, "its version": {key("proof-key:v1"), true},
		"its name": {key("proof-key"), true}, "another version": {key("proof-key:v2"), false}} {
		t.Run(name, func(t *testing.T) {
			got := d.trust(t, tt.list).Certified()
			if len(got) != 1 || got[0].Revoked != tt.revoked || got[0].Certificate.SubjectKeyID != "proof-key:v1" ||
				len(got[0].Public) != 32 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestParseBundle(t *testing.T) {
	b, err := evidence.ParseBundle([]byte(`{"certificates":["a"],"deploymentCertificate":"d"}`))
	check.Must(t, err)
	if len(b.Certificates) != 1 || b.DeploymentCertificate != "d" || b.Revocations != "" {
		t.Errorf("%+v", b)
	}
	_, err = evidence.ParseBundle([]byte(`{"deploymentCertificate":"` + strings.Repeat("a", evidence.MaxBundle-28) + `"}`))
	check.Must(t, err)
	certificates := func(n int) string { return `{"certificates":[` + strings.Repeat(`"a",`, n-1) + `"a"]}` }
	_, err = evidence.ParseBundle([]byte(certificates(evidence.MaxCertificates)))
	check.Must(t, err)
	for name, text := range map[string]string{
		"a certificate too many": certificates(evidence.MaxCertificates + 1),
		"a byte too many":        `{"deploymentCertificate":"` + strings.Repeat("a", evidence.MaxBundle-27) + `"}`,
		"nothing":                ``, "no object": `[]`, "an unknown member": `{"certificate":[]}`,
		"a member twice": `{"revocations":"a","revocations":""}`,
		"another type":   `{"certificates":"a"}`, "text after it": `{} {}`,
		"too large": `{"certificates":["` + strings.Repeat("a", evidence.MaxBundle) + `"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.ParseBundle([]byte(text))
			wantCode(t, err, "trust_malformed")
		})
	}
}

func FuzzRevocations(f *testing.F) {
	d := newDesk(f)
	token, id := d.proof(f)
	f.Add(d.list(f, d.options("registry", noon), evidence.Revocation{Kind: evidence.RevokedArtifact, ID: id}))
	f.Add(d.list(f, d.options("registry", noon)))
	f.Fuzz(func(t *testing.T, list string) {
		trust, err := evidence.NewTrust([]evidence.Root{d.root},
			evidence.Bundle{Certificates: d.certificates, Revocations: list}, d.policy)
		if err != nil {
			return
		}
		if l, ok := trust.Revocations(); ok != (list != "") || ok && l.Issuer != "registry" {
			t.Errorf("%q is believed: %+v", list, l)
		}
		_ = d.open(t, token, list, noon)
	})
}
