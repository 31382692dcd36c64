package evidence_test

import (
	"context"
	stded25519 "crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type world struct {
	*desk
	verifier *evidence.Verifier
	want     evidence.Expected
	token    string
}

func newWorld(t testing.TB) world {
	t.Helper()
	d := newDesk(t)
	token, _ := d.proof(t)
	return world{d, d.verifier(t, "", noon), expect("mediator", "proof-key"), token}
}

func (w world) open(token string) error {
	_, err := evidence.Open(w.verifier, evidence.RequestProofKind(), token, w.want)
	return err
}

func expect(issuer string, keys ...string) evidence.Expected {
	return evidence.Expected{Issuers: []string{issuer}, Audiences: []string{"api"}, KeyIDs: keys, MaxAge: time.Minute}
}

func aProof() evidence.RequestProof {
	h := evidence.HashBytes(nil)
	return evidence.RequestProof{AccessTokenHash: h, Action: "a", BindingHash: h, CapabilityID: "c", ContentHash: h,
		Resource: "r", Subject: "s"}
}

func certificateFor(v custody.Version, purpose, issuer string) evidence.SignerCertificate {
	return evidence.SignerCertificate{
		KeyCustody: custody.ExternalMediator, Purposes: []string{purpose}, SubjectIssuer: issuer, SubjectKeyID: v.KeyID(),
		SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
	}
}

func sign[C any](t testing.TB, kind evidence.Kind[C], key signer.Key, o signer.Options, c C) (token string, signed C) {
	t.Helper()
	i, err := signer.New(kind, key, o)
	check.Must(t, err)
	token, signed, err = i.Sign(t.Context(), c)
	check.Must(t, err)
	return token, signed
}

func verifierAt(t testing.TB, trust *evidence.Trust, at time.Time) *evidence.Verifier {
	t.Helper()
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: func() time.Time { return at }})
	check.Must(t, err)
	return v
}

func forge(t testing.TB, key evidence.Key, header, payload string) string {
	t.Helper()
	input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(payload))
	sig, err := key.Sign(t.Context(), []byte(input))
	check.Must(t, err)
	return input + "." + b64.EncodeToString(sig)
}

func forgeMAC(secret []byte, header, payload string) string {
	input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(payload))
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(input))
	return input + "." + b64.EncodeToString(m.Sum(nil))
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var refused *refusal.Refusal
	if code == "" && err == nil || errors.As(err, &refused) && refused.Code() == code {
		return
	}
	t.Errorf("got %v, want code %q", err, code)
}

var b64 = base64.RawURLEncoding

func (w world) forge(t testing.TB, header, payload string) string {
	t.Helper()
	v, err := w.key.Current(t.Context())
	check.Must(t, err)
	return forge(t, v, header, payload)
}

func parts(t testing.TB, token string) (header, payload string) {
	t.Helper()
	p := strings.Split(token, ".")
	h, err := b64.DecodeString(p[0])
	check.Must(t, err)
	c, err := b64.DecodeString(p[1])
	check.Must(t, err)
	return string(h), string(c)
}

// TestHostileTokens changes one thing of a valid token whose signature stays right: what the golden vectors do not
// show.
func TestHostileTokens(t *testing.T) {
	w := newWorld(t)
	check.Must(t, w.open(w.token))
	header, payload := parts(t, w.token)
	replace := func(s, old, with string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("%s is not in %s", old, s)
		}
		return strings.Replace(s, old, with, 1)
	}
	withHeader := func(h string) string { return w.forge(t, h, payload) }
	withPayload := func(p string) string { return w.forge(t, header, p) }
	const malformed = "artifact_malformed"
	for name, tt := range map[string]struct{ token, code string }{
		"100 KB":                 {strings.Repeat("a", 100<<10), malformed},
		"a separator in the kid": {withHeader(replace(header, "proof-key:v1", "\u2028")), "key_unknown"},
		"the longest kid": {withHeader(replace(header, "proof-key:v1", strings.Repeat("k", 256))),
			"key_unknown"},
		"a kid without a version":     {withHeader(replace(header, "proof-key:v1", "proof-key")), "key_unknown"},
		"another spelling of version": {withHeader(replace(header, "proof-key:v1", "proof-key:v01")), "key_unknown"},
		"version 0":                   {withHeader(replace(header, "proof-key:v1", "proof-key:v0")), "key_unknown"},
		"a key for another purpose": {w.forge(t, replace(header, "request-proof+jwt", "action-grant+jwt"), payload),
			malformed},
		"a header without a beginning":   {withHeader(replace(header, `{"alg":"EdDSA","kid":"`, "")), malformed},
		"a header without an end":        {withHeader(replace(header, `","typ":"request-proof+jwt"}`, "")), malformed},
		"a kid with an escape":           {withHeader(replace(header, "proof-key:v1", `proof-key:v\u0031`)), malformed},
		"a kid with a control character": {withHeader(replace(header, "proof-key:v1", "proof-key:v1\x1f")), malformed},
		"a kid that is not UTF-8":        {withHeader(replace(header, "proof-key:v1", "proof-key:v1\xff")), malformed},
		"kid twice":                      {withHeader(replace(header, `"kid":"`, `"kid":"x","kid":"`)), malformed},
		"a root's kid":                   {withHeader(replace(header, "proof-key:v1", "registry:v1")), "key_purpose"},
		"a hash that is none": {withPayload(replace(payload, evidence.HashBytes(nil), strings.Repeat("Z", 64))),
			malformed},
		"no claims": {withPayload(`null`), malformed},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, w.open(tt.token), tt.code) })
	}
	check.Must(t, w.open(w.token))
}

func TestExpectationsHaveNoDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		code   string
		change func(*evidence.Expected)
	}{
		"issuers":         {"not_allowed", func(e *evidence.Expected) { e.Issuers = nil }},
		"audiences":       {"not_allowed", func(e *evidence.Expected) { e.Audiences = nil }},
		"key ids":         {"not_allowed", func(e *evidence.Expected) { e.KeyIDs = nil }},
		"age":             {"not_allowed", func(e *evidence.Expected) { e.MaxAge = 0 }},
		"another issuer":  {"not_allowed", func(e *evidence.Expected) { e.Issuers = []string{"x"} }},
		"another api":     {"not_allowed", func(e *evidence.Expected) { e.Audiences = []string{"x"} }},
		"another key":     {"not_allowed", func(e *evidence.Expected) { e.KeyIDs = []string{"proof"} }},
		"another version": {"not_allowed", func(e *evidence.Expected) { e.KeyIDs = []string{"proof-key:v2"} }},
		"the version":     {"", func(e *evidence.Expected) { e.KeyIDs = []string{"proof-key:v1"} }},
		"the custody": {"", func(e *evidence.Expected) {
			e.Custody = []string{evidence.CustodyHardwareBacked, evidence.CustodyExternalMediator}
		}},
		"no export": {"", func(e *evidence.Expected) { e.RequireNonExportable = true }},
		"another custody": {"key_custody", func(e *evidence.Expected) {
			e.Custody = []string{evidence.CustodyHardwareBacked}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			check.Must(t, w.open(w.token))
			tt.change(&w.want)
			wantCode(t, w.open(w.token), tt.code)
		})
	}
}

// TestAnotherLibraryVerifies: go-jose opens our tokens, and we open its.
func TestAnotherLibraryVerifies(t *testing.T) {
	w := newWorld(t)
	v, err := w.key.Current(t.Context())
	check.Must(t, err)
	parsed, err := jose.ParseSignedCompact(w.token, []jose.SignatureAlgorithm{jose.EdDSA})
	check.Must(t, err)
	_, payload := parts(t, w.token)
	got, err := parsed.Verify(stded25519.PublicKey(v.Public()))
	check.Must(t, err)
	if string(got) != payload {
		t.Errorf("go-jose reads %s", got)
	}
}

func TestSmallOrderAndUnreducedKeysAreRefused(t *testing.T) {
	for _, text := range []string{ // the points of small order in every encoding, and keys of other sizes
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000080",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "", "01",
	} {
		raw, err := hex.DecodeString(text)
		check.Must(t, err)
		if _, err := evidence.NewPublicKey(raw); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	for _, text := range []string{
		"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", // RFC 8032 section 7.1, test 1
		"ebffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // the largest reduced y not of small order
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f7f", // reduced in its second byte from above
	} {
		raw, err := hex.DecodeString(text)
		check.Must(t, err)
		if _, err := evidence.NewPublicKey(raw); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseJWK(t *testing.T) {
	// RFC 8037 appendix A.2, with a kid.
	const public = `{"kty":"OKP","crv":"Ed25519","kid":"k:v1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	if kid, key, err := evidence.ParseJWK([]byte(public)); err != nil || kid != "k:v1" ||
		evidence.EncodePublicKey(key) != "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" {
		t.Errorf("%s %v", kid, err)
	}
	if kid, _, err := evidence.ParseJWK([]byte(strings.Replace(public, "k:v1", strings.Repeat("k", 256), 1))); err !=
		nil || len(kid) != 256 {
		t.Errorf("the longest kid: %v", err)
	}
	for name, text := range map[string]string{
		"a long kid":  strings.Replace(public, "k:v1", strings.Repeat("k", 257), 1),
		"small order": `{"kty":"OKP","crv":"Ed25519","kid":"k:v1","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`,
		"a private key": `{"kty":"OKP","crv":"Ed25519","kid":"k:v1","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":` +
			`"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
		"no kid":       strings.Replace(public, `"kid":"k:v1",`, "", 1),
		"another kind": `{"kty":"oct","k":"AAAA","kid":"k"}`,
		"no JSON":      `x`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := evidence.ParseJWK([]byte(text))
			wantCode(t, err, "trust_malformed")
			if is := strings.Contains(err.Error(), "is not a JWK"); is != (name == "no JSON" || name == "small order") {
				t.Error(err)
			}
			if (name == "a private key" || name == "another kind") &&
				!strings.Contains(err.Error(), "must be a public Ed25519 key") {
				t.Error(err)
			}
		})
	}
}

func TestHashJSON(t *testing.T) {
	equal := func(a, b string) {
		t.Helper()
		x, err := evidence.HashJSON([]byte(a))
		check.Must(t, err)
		y, err := evidence.HashJSON([]byte(b))
		check.Must(t, err)
		if x != y {
			t.Errorf("%s and %s have different hashes", a, b)
		}
	}
	equal(`{"a":1,"b":"x"}`, "{ \"b\" : \"\\u0078\",\n\"a\":1.0 }")
	equal(`[1e2,0.5,-0]`, `[100, 5e-1, 0]`)
	equal(`"\u20ac"`, `"€"`)
	equal(`9007199254740992`, `9007199254740992.0`)
	equal(`1e20`, `100000000000000000000`)
	equal(`-9007199254740992`, `-9007199254740992.0`)
	equal(`1`, `1.`+strings.Repeat("0", 1098)) // the longest spelling
	for _, text := range []string{             // bounds do not add up
		strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat(`{"a":`, 99) + "{}" +
			strings.Repeat("}", 99), "[" + strings.Repeat("[],", 200) + "[]]", "[" + strings.Repeat("{},", 200) + "{}]",
	} {
		equal(text, text+" ")
	}
	equal(`1e23`, `1.0e+23`)
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\ud800"`,
		`"\udc00\ud800"`,
		"\"\xff\"", ``, `{`,
		`{} {}`,
		`{"a":1,}`,
		`01`, `NaN`,
		`1E400`, `-9007199254740993`,
		`1.` + strings.Repeat("0", 1099),
		strings.Repeat(`{"a":`, 101) + "0" + strings.Repeat("}", 101),
		`1e400`, `9007199254740993`, `-9007199254740995`,
		`1e-400`, `1152921504606846976`,
		`123456789012345678901234567890`, strings.Repeat("1", 1000),
		strings.Repeat("[", 101) + strings.Repeat("]", 101),
		strings.Repeat("[", 100_000),
		"[" + strings.Repeat("0,", strictjson.MaxItems-1) + "0]",
		"[" + strings.Repeat("{},", strictjson.MaxItems) + "{}]",
		strings.Repeat(`"",`, strictjson.MaxItems+1),
	} {
		_, err := evidence.HashJSON([]byte(text))
		wantCode(t, err, "content_malformed")
	}
}

func TestHashValue(t *testing.T) {
	got, err := evidence.HashValue(map[string]any{"b": 1, "a": "<"})
	check.Must(t, err)
	if got != evidence.HashBytes([]byte(`{"a":"<","b":1}`)) {
		t.Error(got)
	}
	_, err = evidence.HashValue(func() {})
	if wantCode(t, err, "content_malformed"); !strings.Contains(err.Error(), "cannot be written") {
		t.Error(err)
	}
	_, err = evidence.HashValue(int64(1)<<53 + 1)
	wantCode(t, err, "content_malformed")
}

func TestUnverified(t *testing.T) {
	w, twice := newWorld(t), newTwice(t)
	header, payload := parts(t, w.token)
	for token, want := range map[string]string{
		w.token: "proof-key:v1", twice.token: "auditor:v1", w.forge(t, header, "x"): "proof-key:v1",
		"": "", ".": "", "!" + w.token: "", b64.EncodeToString([]byte("[]")) + ".": "",
		b64.EncodeToString([]byte(`{"kid":"k","typ":1}`)) + ".": "",
		b64.EncodeToString([]byte(header)) + "=.":               "",
	} {
		if got := evidence.KeyIDOf(token); got != want {
			t.Errorf("%.40s: %q", token, got)
		}
	}
	c, err := evidence.UnverifiedClaims(evidence.RequestProofKind(),
		w.forge(t, header, strings.Replace(payload, `"action":"a"`, `"action":"b"`, 1)))
	check.Must(t, err)
	d, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), twice.token)
	check.Must(t, err)
	if c.Action != "b" || d.DeploymentID != "d" {
		t.Errorf("%+v, %+v", c, d)
	}
	for token, code := range map[string]string{
		"": "artifact_missing", w.token + "~" + w.token: "artifact_malformed",
		w.forge(t, header, "{}"): "artifact_malformed", twice.token: "artifact_malformed",
	} {
		_, err := evidence.UnverifiedClaims(evidence.RequestProofKind(), token)
		wantCode(t, err, code)
	}
	for token, code := range map[string]string{"": "artifact_missing", w.token: "artifact_malformed",
		twice.token + "~x": ""} {
		_, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token)
		wantCode(t, err, code)
	}
}

func TestRefusalIs(t *testing.T) {
	cause := errors.New("cause")
	r := refusal.New("expired", "it is over: %w", cause)
	for _, row := range []struct {
		target error
		want   bool
	}{{refusal.New("expired", "other words"), true}, {cause, true},
		{refusal.New("revoked", "it is over: %w", cause), false}, {errors.New("expired"), false}} {
		if got := errors.Is(r, row.target); got != row.want {
			t.Errorf("%v: %t", row.target, got)
		}
	}
}

type broken struct{ id string }

var errBroken = errors.New("the key is out of reach")

func (b broken) KeyID() string                                { return b.id }
func (b broken) Sign(context.Context, []byte) ([]byte, error) { return nil, errBroken }

func TestKeyThatDoesNotSign(t *testing.T) {
	w := newWorld(t)
	c, err := evidence.UnverifiedClaims(evidence.RequestProofKind(), w.token)
	check.Must(t, err)
	if token, err := evidence.Sign(t.Context(), broken{"k:v1"}, evidence.RequestProofKind(), c); token != "" ||
		!errors.Is(err, errBroken) {
		t.Errorf("%q, %v", token, err)
	}
	if _, err := evidence.Sign(t.Context(), broken{strings.Repeat("k", 256)}, evidence.RequestProofKind(),
		c); !errors.Is(err, errBroken) {
		t.Errorf("a key with the longest id is not asked: %v", err)
	}
	for _, id := range []string{"", strings.Repeat("k", 257)} {
		_, err = evidence.Sign(t.Context(), broken{id}, evidence.RequestProofKind(), c)
		wantCode(t, err, "artifact_malformed")
	}
	first, _, _ := strings.Cut(newTwice(t).token, "~")
	if token, err := evidence.Countersign(t.Context(), broken{"auditor:v1"}, evidence.DeploymentCertificateKind(),
		first); token != "" || !errors.Is(err, errBroken) {
		t.Errorf("%q, %v", token, err)
	}
	_, err = evidence.Countersign(t.Context(), broken{"auditor:v1"}, evidence.DeploymentCertificateKind(), first+"=")
	wantCode(t, err, "artifact_malformed")
}

func FuzzOpen(f *testing.F) {
	w := newWorld(f)
	f.Add(w.token)
	header, payload := parts(f, w.token)
	f.Add(w.forge(f, header, strings.Replace(payload, `"a"`, `"b"`, 1)))
	f.Fuzz(func(t *testing.T, token string) {
		c, err := evidence.Open(w.verifier, evidence.RequestProofKind(), token, w.want)
		if err != nil {
			return
		}
		_, payload := parts(t, token)
		var got map[string]any
		check.Must(t, json.Unmarshal([]byte(payload), &got))
		if fmt.Sprint(got["subject"]) != c.Claims().Subject || len(got) != 14 {
			t.Errorf("%q opens as %+v", token, c)
		}
	})
}

func TestMatchKeyID(t *testing.T) {
	for _, tt := range []struct {
		entry, kid string
		want       bool
	}{
		{"k/*", "k/a:v1", true}, {"k/*", "k/a", true}, {"k/a", "k/a:v7", true}, {"k/a:v1", "k/a:v1", true},
		{"k/*", "k:v1", false}, {"k/*", "k/a/b:v1", false}, {"k/*", "k/:v1", false}, {"k/*", "other/a:v1", false},
		{"k/*:v1", "k/a:v1", false}, {"*", "k:v1", false}, {"/*", "/a:v1", false}, {"k/a:v1", "k/a:v2", false},
	} {
		if got := evidence.MatchKeyID([]string{"x", tt.entry}, tt.kid); got != tt.want {
			t.Errorf("%s matches %s: %t", tt.entry, tt.kid, got)
		}
	}
}
