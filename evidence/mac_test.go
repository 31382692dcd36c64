package evidence_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

func secretOf(t testing.TB, b []byte) evidence.Secret {
	t.Helper()
	s, err := evidence.NewSecret(b)
	must(t, err)
	return s
}

// attestation is a whole runtime attestation, but for what its signer stamps.
func attestation() evidence.RuntimeAttestation {
	h := evidence.HashBytes(nil)
	return evidence.RuntimeAttestation{
		BindingHash: h, ChallengeID: "c", ContentHash: h, EnvironmentHash: h, Mode: evidence.ModeAutonomous, PolicyHash: h, RuntimeID: "r",
		Trigger: evidence.Trigger{ID: "e", Kind: evidence.TriggerSourceEvent, Source: "github"}, TriggerReceiptHash: h,
	}
}

func options() signer.Options {
	return signer.Options{Issuer: "runtime", Audience: "api", Lifetime: time.Minute, Now: func() time.Time { return noon }}
}

// TestSharedSecret holds attestations that a shared secret authenticates (seed: runtimeAttestationSecret) against verifiers whose
// policies name that secret, another one, or none.
func TestSharedSecret(t *testing.T) {
	w := newWorld(t)
	s, rotated := secretOf(t, []byte(strings.Repeat("s", 32))), secretOf(t, []byte(strings.Repeat("t", 32)))
	shared := func(s evidence.Secret) string {
		i, err := signer.NewShared(evidence.RuntimeAttestationKind, s, options())
		must(t, err)
		token, _, err := i.Sign(t.Context(), attestation())
		must(t, err)
		return token
	}
	token := shared(s)
	header, payload := parts(t, token)
	mac := func(key []byte, header, payload string) string {
		input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(payload))
		m := hmac.New(sha256.New, key)
		m.Write([]byte(input))
		return input + "." + b64.EncodeToString(m.Sum(nil))
	}
	key, err := w.key.Current(t.Context())
	must(t, err)
	signed := func() string { // the same claims, signed with a certified Ed25519 key
		i, err := signer.New(evidence.RuntimeAttestationKind, w.key, options())
		must(t, err)
		token, _, err := i.Sign(t.Context(), attestation())
		must(t, err)
		return token
	}()
	public, publicText := secretOf(t, key.Public()), secretOf(t, []byte(evidence.EncodePublicKey(key.Public())))
	names := func(secrets ...evidence.Secret) evidence.Expected {
		e := evidence.Expected{Issuers: []string{"runtime"}, Audiences: []string{"api"}, MaxAge: time.Minute, Secrets: secrets, KeyIDs: []string{"proof-key"}}
		for _, s := range secrets {
			e.KeyIDs = append(e.KeyIDs, s.KeyID())
		}
		return e
	}
	change := func(e evidence.Expected, f func(*evidence.Expected)) evidence.Expected { f(&e); return e }

	for name, tt := range map[string]struct {
		token, code string
		want        evidence.Expected
	}{
		"the policy names it":                      {token, "", names(s)},
		"one of two, for a rotation":               {token, "", names(rotated, s)},
		"the policy holds another":                 {token, "key_unknown", names(rotated)},
		"the policy holds it and does not name it": {token, "key_not_allowed", change(names(s), func(e *evidence.Expected) { e.KeyIDs = []string{"proof-key"} })},
		"the policy wants a signature":             {token, "jws_algorithm", names()},
		"the policy names it and holds nothing":    {token, "jws_algorithm", change(names(s), func(e *evidence.Expected) { e.Secrets = nil })},
		"the policy holds a secret that is none":   {token, "key_unknown", names(evidence.Secret{})},
		"a signature, where the policy names it":   {signed, "jws_algorithm", names(s)},
		"alg EdDSA over the MAC":                   {mac([]byte(strings.Repeat("s", 32)), strings.Replace(header, "HS256", "EdDSA", 1), payload), "jws_algorithm", names(s)},
		"alg none":                                 {mac([]byte(strings.Repeat("s", 32)), strings.Replace(header, "HS256", "none", 1), payload), "jws_algorithm", names(s)},
		"alg HS512":                                {mac([]byte(strings.Repeat("s", 32)), strings.Replace(header, "HS256", "HS512", 1), payload), "jws_algorithm", names(s)},
		"another secret under its name":            {mac([]byte(strings.Repeat("t", 32)), header, payload), "signature_invalid", names(s)},
		"the public key under its name":            {mac(key.Public(), header, payload), "signature_invalid", names(s)},
		"the public key as secret":                 {mac(key.Public(), strings.Replace(header, s.KeyID(), key.KeyID(), 1), payload), "jws_algorithm", names()},
		"the public key as the policy's secret":    {shared(public), "secret_public_key", names(public)},
		"its text as the policy's secret":          {shared(publicText), "secret_public_key", names(publicText)},
		"a secret under a key's name":              {mac([]byte(strings.Repeat("s", 32)), strings.Replace(header, s.KeyID(), key.KeyID(), 1), payload), "key_unknown", names(s)},
		"custody is asked for":                     {token, "key_custody", change(names(s), func(e *evidence.Expected) { e.Custody = []string{evidence.CustodyExternalMediator} })},
		"a key that cannot be exported":            {token, "key_exportable", change(names(s), func(e *evidence.Expected) { e.RequireNonExportable = true })},
		"a secret that claims more":                {mac([]byte(strings.Repeat("s", 32)), header, strings.Replace(payload, `"keyExportable":true`, `"keyExportable":false`, 1)), "key_custody", names(s)},
		"another issuer":                           {token, "issuer_not_allowed", change(names(s), func(e *evidence.Expected) { e.Issuers = []string{"other"} })},
		"no age":                                   {token, "expectation_missing", change(names(s), func(e *evidence.Expected) { e.MaxAge = 0 })},
		"altered":                                  {mac([]byte(strings.Repeat("s", 32)), header, payload)[:len(token)-4] + "AAAA", "signature_invalid", names(s)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.Open(w.verifier, evidence.RuntimeAttestationKind, tt.token, tt.want)
			if tt.code == "" {
				must(t, err)
				return
			}
			wantCode(t, err, tt.code)
		})
	}
}

// TestSharedSecretIsForAttestationsAlone: every other artifact has a key, whatever a policy says.
func TestSharedSecretIsForAttestationsAlone(t *testing.T) {
	w := newWorld(t)
	s := secretOf(t, []byte(strings.Repeat("s", 32)))
	w.want.Secrets, w.want.KeyIDs = []evidence.Secret{s}, []string{s.KeyID()}
	wantCode(t, w.open(w.token), "jws_algorithm")

	h := evidence.HashBytes(nil)
	i, err := signer.NewShared(evidence.RequestProofKind, s, options())
	must(t, err)
	_, _, err = i.Sign(t.Context(), evidence.RequestProof{AccessTokenHash: h, Action: "a", BindingHash: h, CapabilityID: "c", ContentHash: h, Resource: "r", Subject: "s"})
	wantCode(t, err, "jws_algorithm")

	shared, err := signer.NewShared(evidence.RuntimeAttestationKind, evidence.Secret{}, options())
	must(t, err)
	_, _, err = shared.Sign(t.Context(), attestation())
	wantCode(t, err, "secret_too_short")
	claims := attestation()
	evidence.RuntimeAttestationKind.Stamp(&claims, evidence.NewRegistered("runtime", "api", noon, time.Minute), evidence.KeyClaims{KeyCustody: custody.HardwareBacked})
	_, err = evidence.SignMAC(s, evidence.RuntimeAttestationKind, claims)
	wantCode(t, err, "key_custody")
	certify, err := signer.New(evidence.SignerCertificateKind, w.key, options())
	must(t, err)
	_, _, err = certify.Sign(t.Context(), evidence.SignerCertificate{
		KeyCustody: custody.ExternalMediator, Purposes: []string{evidence.PurposeRuntimeAttestation}, SubjectIssuer: "runtime", SubjectKeyID: s.KeyID(),
		SubjectPublicKey: strings.Repeat("A", 43), SubjectPublicKeyHash: h,
	})
	wantCode(t, err, "claims_malformed")
	o := options()
	o.Second = newPostQuantum("k", 1)
	if _, err := signer.NewShared(evidence.RuntimeAttestationKind, s, o); err == nil {
		t.Error("a secret has a second key")
	}
	if _, err := evidence.NewSecret(make([]byte, 31)); err == nil {
		t.Error("31 bytes are a secret")
	}
}

func TestKeyName(t *testing.T) {
	for kid, want := range map[string]string{
		"runtime-key:v1": "runtime-key", "runtime-key:v12": "runtime-key", "a:v1:v2": "a:v1", "runtime-key": "runtime-key", "runtime-key:v": "runtime-key:v",
		"mac:vabc": "mac:vabc", ":v1": ":v1", "": "", "a:v-1": "a:v-1", "a:v1 ": "a:v1 ",
	} {
		if got := evidence.KeyName(kid); got != want {
			t.Errorf("%q: %q, want %q", kid, got, want)
		}
	}
}
