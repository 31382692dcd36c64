package evidence_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

type postQuantum struct {
	id      string
	public  *mldsa65.PublicKey
	private *mldsa65.PrivateKey
}

func newPostQuantum(id string, seed byte) postQuantum {
	var s [mldsa65.SeedSize]byte
	for i := range s {
		s[i] = seed
	}
	public, private := mldsa65.NewKeyFromSeed(&s)
	return postQuantum{id, public, private}
}

func (k postQuantum) KeyID() string { return k.id }

func (k postQuantum) Sign(_ context.Context, message []byte) ([]byte, error) {
	sig := make([]byte, mldsa65.SignatureSize)
	return sig, mldsa65.SignTo(k.private, message, nil, true, sig)
}

type twice struct {
	root   evidence.Root
	ed     custody.Version
	second postQuantum
	want   evidence.Expected
	token  string
}

func newTwice(t testing.TB) twice {
	t.Helper()
	key, err := custody.NewMemory("auditor")
	check.Must(t, err)
	v, err := key.Current(t.Context())
	check.Must(t, err)
	w := twice{
		ed: v, second: newPostQuantum(v.KeyID(), 1),
		want: evidence.Expected{Issuers: []string{"auditor"}, Audiences: []string{"api"}, KeyIDs: []string{"auditor"},
			MaxAge: time.Hour},
	}
	w.root = evidence.Root{KeyID: v.KeyID(), Public: v.Public(), Purpose: evidence.PurposeDeploymentCertificate,
		PostQuantum: w.second.public}
	o := signer.Options{Issuer: "auditor", Audience: "api", Lifetime: time.Hour, Now: func() time.Time { return noon },
		Second: w.second}
	w.token, _ = sign(t, evidence.DeploymentCertificateKind(), key, o, aDeployment())
	return w
}

func aDeployment() evidence.DeploymentCertificate {
	h := evidence.HashBytes(nil)
	return evidence.DeploymentCertificate{ControlsHash: h, DeploymentID: "d", ManifestHash: h, Version: "1.0"}
}

func (w twice) open(t testing.TB, token string, change func(*evidence.Root, *evidence.Expected)) error {
	t.Helper()
	root, want := w.root, w.want
	if change != nil {
		change(&root, &want)
	}
	trust, err := evidence.NewTrust([]evidence.Root{root}, evidence.Bundle{}, evidence.SignerPolicy{})
	check.Must(t, err)
	_, err = evidence.Open(verifierAt(t, trust, noon), evidence.DeploymentCertificateKind(), token, want)
	return err
}

func (w twice) forgeTwice(t testing.TB, key postQuantum, header, payload string) string {
	t.Helper()
	first, _, _ := strings.Cut(w.token, "~")
	return first + "~" + forge(t, key, header, payload)
}

func TestSecondSignature(t *testing.T) {
	w := newTwice(t)
	check.Must(t, w.open(t, w.token, nil))
	if len(w.token) > 8<<10 {
		t.Errorf("a certificate that is signed twice has %d bytes", len(w.token))
	}
	first, second, _ := strings.Cut(w.token, "~")
	header, payload := parts(t, second)
	if header != `{"alg":"ML-DSA-65","kid":"auditor:v1","typ":"deployment-certificate+jwt"}` {
		t.Errorf("the second header is %s", header)
	}
	unpinned := func(r *evidence.Root, _ *evidence.Expected) { r.PostQuantum = nil }
	demanded := func(_ *evidence.Root, e *evidence.Expected) { e.RequirePostQuantum = true }
	_, otherSecond, _ := strings.Cut(newTwice(t).token, "~")

	check.Must(t, w.open(t, w.token, demanded))
	check.Must(t, w.open(t, w.token, unpinned)) // the security team signs twice before everybody pins the second key
	check.Must(t, w.open(t, first, unpinned))
	for name, tt := range map[string]struct {
		token, code string
		change      func(*evidence.Root, *evidence.Expected)
	}{
		"the first stripped to the separator": {second + "~", "artifact_malformed", nil},
		"at the limit":                        {strings.Repeat("A", 16<<10), "artifact_malformed", nil},
		"the first stripped":                  {second, "artifact_malformed", nil},
		"in the other order":                  {second + "~" + first, "artifact_malformed", nil},
		"a third":                             {w.token + "~" + second, "artifact_malformed", nil},
		"of another certificate":              {first + "~" + otherSecond, "artifact_malformed", nil},
		"of another certificate, not pinned":  {first + "~" + otherSecond, "artifact_malformed", unpinned},
		"under another kid, not pinned": {w.forgeTwice(t, w.second, strings.Replace(header, ":v1", ":v2", 1), payload),
			"signature_invalid", unpinned},
		"for another typ": {
			w.forgeTwice(t, w.second, strings.Replace(header, "deployment", "signer-custody", 1), payload),
			"artifact_malformed", nil},
		"with an unknown crit": {
			w.forgeTwice(t, w.second, `{"alg":"ML-DSA-65","crit":["x"],"kid":"auditor:v1","typ":"deployment-certificate+jwt"}`,
				payload), "artifact_malformed", nil},
		"one byte short": {w.token[:len(w.token)-4], "signature_invalid", nil},
		"no signature":   {w.token[:strings.LastIndex(w.token, ".")+1], "signature_invalid", nil},
		"too large":      {w.token + strings.Repeat("A", 16<<10), "artifact_malformed", nil},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, w.open(t, tt.token, tt.change), tt.code) })
	}
	check.Must(t, w.open(t, w.token, nil))
}

func TestSecondSignatureOfTheBundle(t *testing.T) {
	registry, root := version(t, "registry")
	second := newPostQuantum(root.KeyID(), 3)
	o := signer.Options{Issuer: "registry", Audience: "api", Lifetime: time.Hour, Now: func() time.Time { return noon },
		Second: second}
	certificate := func(name string) string {
		_, v := version(t, name)
		token, _ := sign(t, evidence.SignerCertificateKind(), registry, o,
			certificateFor(v, evidence.PurposeRequestProof, name))
		return token
	}
	a, b := certificate("a"), certificate("b")
	firstA, _, _ := strings.Cut(a, "~")
	_, secondB, _ := strings.Cut(b, "~")
	pinned := evidence.Root{KeyID: root.KeyID(), Public: root.Public(), Purpose: evidence.PurposeSignerCertificate,
		PostQuantum: second.public}
	unpinned := pinned
	unpinned.PostQuantum = nil
	demand := evidence.SignerPolicy{Expected: evidence.Expected{RequirePostQuantum: true}}
	for name, tt := range map[string]struct {
		root   evidence.Root
		certs  []string
		policy evidence.SignerPolicy
		code   string
	}{
		"stripped": {pinned, []string{b, firstA}, evidence.SignerPolicy{}, "signature_invalid"},
		"swapped": {pinned, []string{firstA + "~" + secondB}, evidence.SignerPolicy{},
			"artifact_malformed"},
		"demanded, and no key is pinned": {unpinned, []string{a}, demand, "roots_not_pinned"},
		"demanded and stripped":          {pinned, []string{firstA}, demand, "signature_invalid"},
	} {
		_, err := evidence.NewTrust([]evidence.Root{tt.root}, evidence.Bundle{Certificates: tt.certs}, tt.policy)
		t.Run(name, func(t *testing.T) { wantCode(t, err, tt.code) })
	}
	_, err := evidence.NewTrust([]evidence.Root{pinned}, evidence.Bundle{Certificates: []string{a, b}}, demand)
	check.Must(t, err)
	_, err = evidence.NewTrust([]evidence.Root{unpinned}, evidence.Bundle{Certificates: []string{a, firstA}},
		evidence.SignerPolicy{})
	check.Must(t, err)
}

// TestOnlyRootsSignTwice: nobody can pin a second key for a role.
func TestOnlyRootsSignTwice(t *testing.T) {
	w := newWorld(t)
	_, err := evidence.Countersign(t.Context(), newPostQuantum("proof-key:v1", 1), evidence.RequestProofKind(), w.token)
	wantCode(t, err, "artifact_malformed")
	wantCode(t, w.open(w.token+"~"+w.token), "artifact_malformed")
	w.want.RequirePostQuantum = true
	wantCode(t, w.open(w.token), "roots_not_pinned")

	a := newTwice(t)
	first, _, _ := strings.Cut(a.token, "~")
	_, err = evidence.Countersign(t.Context(), newPostQuantum("another:v1", 1), evidence.DeploymentCertificateKind(),
		first)
	wantCode(t, err, "signature_invalid")
	if _, err = evidence.Countersign(t.Context(), a.ed, evidence.DeploymentCertificateKind(), first); err == nil {
		t.Error("an Ed25519 signature was taken for one by ML-DSA-65")
	}
}

func TestAKP(t *testing.T) {
	k := newPostQuantum("k", 1)
	for name, tt := range map[string]struct {
		change func(*evidence.AKP)
		ok     bool
	}{
		"as it is":        {func(*evidence.AKP) {}, true},
		"the longest kid": {func(j *evidence.AKP) { j.KeyID = strings.Repeat("k", 256) }, true},
		"a long kid":      {func(j *evidence.AKP) { j.KeyID = strings.Repeat("k", 257) }, false},
		"no kid":          {func(j *evidence.AKP) { j.KeyID = "" }, false},
		"no key":          {func(j *evidence.AKP) { j.Public = "" }, false},
		"a few bytes":     {func(j *evidence.AKP) { j.Public = "AAAA" }, false},
		"a byte too many": {func(j *evidence.AKP) { j.Public = b64.EncodeToString(append(k.public.Bytes(), 0)) }, false},
		"another form":    {func(j *evidence.AKP) { j.Public += "\n" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := evidence.NewAKP("k", k.public)
			tt.change(&j)
			got, err := j.Key()
			if !tt.ok {
				wantCode(t, err, "trust_malformed")
			} else if err != nil || !got.Equal(k.public) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSizeOfKeys(t *testing.T) {
	w := newTwice(t)
	one, err := json.Marshal(
		map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "auditor:v1",
			"x": evidence.EncodePublicKey(w.ed.Public())})
	check.Must(t, err)
	two, err := json.Marshal(
		map[string]any{"keys": []any{json.RawMessage(one), evidence.NewAKP("auditor:v1", w.second.public)}})
	check.Must(t, err)
	for name, row := range map[string]struct {
		raw  []byte
		read func([]byte) error
	}{
		"a key":         {one, func(raw []byte) error { _, _, err := evidence.ParseJWK(raw); return err }},
		"a root's key":  {one, func(raw []byte) error { _, err := evidence.ParseRoot(raw, "p"); return err }},
		"a root's keys": {two, func(raw []byte) error { _, err := evidence.ParseRoot(raw, "p"); return err }},
	} {
		padded := append(bytes.Repeat([]byte(" "), 64<<10-len(row.raw)), row.raw...)
		if err := row.read(padded); err != nil {
			t.Errorf("%s of the largest size: %v", name, err)
		}
		wantCode(t, row.read(append(padded, ' ')), "trust_malformed")
	}
}

func TestParseRoot(t *testing.T) {
	w := newTwice(t)
	ed := map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "auditor:v1",
		"x": evidence.EncodePublicKey(w.ed.Public())}
	akp := func(change func(*evidence.AKP)) evidence.AKP {
		j := evidence.NewAKP("auditor:v1", w.second.public)
		if change != nil {
			change(&j)
		}
		return j
	}
	set := func(keys ...any) string {
		raw, err := json.Marshal(map[string]any{"keys": keys})
		check.Must(t, err)
		return string(raw)
	}
	alone, err := json.Marshal(ed)
	check.Must(t, err)
	for _, text := range []string{string(alone), set(ed, akp(nil))} {
		r, err := evidence.ParseRoot([]byte(text), evidence.PurposeDeploymentCertificate)
		check.Must(t, err)
		if r.KeyID != "auditor:v1" || !r.Public.Equal(w.ed.Public()) ||
			(r.PostQuantum != nil) != strings.Contains(text, "AKP") {
			t.Errorf("%.60s… is read as %+v", text, r)
		}
	}
	private := map[string]any{"alg": "ML-DSA-65", "kid": "auditor:v1", "kty": "AKP", "pub": akp(nil).Public,
		"priv": strings.Repeat("A", 43)}
	degenerate := make([]byte, mldsa65.PublicKeySize)
	degenerate[0] = 1
	said := map[string]string{"nothing": "neither a JWK nor a JWK Set", "another file": "neither a JWK nor a JWK Set",
		"the other order": "is not a JWK", "a private second key": "the second key of the set"}
	for name, text := range map[string]string{
		"nothing":               ``,
		"another file":          `{"keys":"x"}`,
		"a set of one":          set(ed),
		"a set of three":        set(ed, akp(nil), akp(nil)),
		"two Ed25519 keys":      set(ed, ed),
		"the other order":       set(akp(nil), ed),
		"a private second key":  set(ed, private),
		"another kid":           set(ed, akp(func(j *evidence.AKP) { j.KeyID = "auditor:v2" })),
		"no kid":                set(ed, akp(func(j *evidence.AKP) { j.KeyID = "" })),
		"another algorithm":     set(ed, akp(func(j *evidence.AKP) { j.Algorithm = "ML-DSA-44" })),
		"another type":          set(ed, akp(func(j *evidence.AKP) { j.KeyType = "OKP" })),
		"a short key":           set(ed, akp(func(j *evidence.AKP) { j.Public = j.Public[:100] })),
		"padding":               set(ed, akp(func(j *evidence.AKP) { j.Public += "=" })),
		"a key that all can be": set(ed, akp(func(j *evidence.AKP) { j.Public = b64.EncodeToString(degenerate) })),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.ParseRoot([]byte(text), evidence.PurposeDeploymentCertificate)
			wantCode(t, err, "trust_malformed")
			if says, ok := said[name]; ok && !strings.Contains(err.Error(), says) {
				t.Error(err)
			}
		})
	}
}

// TestPostQuantumVector: the example of the authors of RFC 9964.
func TestPostQuantumVector(t *testing.T) {
	raw, err := os.ReadFile("testdata/rfc9964.jws")
	check.Must(t, err)
	token := strings.TrimSpace(string(raw))
	key := newPostQuantum("k", 0)
	thumbprint, err := evidence.HashValue(
		map[string]string{"alg": "ML-DSA-65", "kty": "AKP", "pub": evidence.NewAKP("k", key.public).Public})
	check.Must(t, err)
	header, _ := parts(t, token)
	sum, err := hex.DecodeString(thumbprint)
	check.Must(t, err)
	if want := `{"alg":"ML-DSA-65","kid":"` + b64.EncodeToString(sum) + `"}`; header != want {
		t.Errorf("the example's header is %s, and the thumbprint (RFC 7638) of the key makes it %s", header, want)
	}
	i := strings.LastIndex(token, ".")
	sig, err := b64.DecodeString(token[i+1:])
	check.Must(t, err)
	if !mldsa65.Verify(key.public, []byte(token[:i]), nil, sig) {
		t.Error("the signature of the example does not verify")
	}
}

func FuzzOpenTwice(f *testing.F) {
	w := newTwice(f)
	first, second, _ := strings.Cut(w.token, "~")
	for _, token := range []string{w.token, first, second, first + "~", second + "~" + first, first + "~" + first} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if err := w.open(t, token, nil); err == nil &&
			!strings.HasPrefix(token, first+"~"+second[:strings.LastIndex(second, ".")]) {
			t.Errorf("%q opens", token)
		}
		if err := w.open(t, token, func(r *evidence.Root, _ *evidence.Expected) {
			r.PostQuantum = nil
		}); err == nil && !strings.HasPrefix(token, first) {
			t.Errorf("%q opens under the first key alone", token)
		}
	})
}

func BenchmarkOpenTwice(b *testing.B) {
	w := newTwice(b)
	trust, err := evidence.NewTrust([]evidence.Root{w.root}, evidence.Bundle{}, evidence.SignerPolicy{})
	check.Must(b, err)
	v := verifierAt(b, trust, noon)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := evidence.Open(v, evidence.DeploymentCertificateKind(), w.token, w.want); err != nil {
			b.Fatal(err)
		}
	}
}
