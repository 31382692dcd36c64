package evidence_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

func secretOf(t testing.TB, b []byte) evidence.Secret {
	t.Helper()
	s, err := evidence.NewSecret(b)
	check.Must(t, err)
	return s
}

func attestation() evidence.RuntimeAttestation {
	h := evidence.HashBytes(nil)
	return evidence.RuntimeAttestation{
		BindingHash: h, ChallengeID: "c", ContentHash: h, EnvironmentHash: h, Mode: evidence.ModeAutonomous, PolicyHash: h,
		RuntimeID: "r",
		Trigger:   evidence.Trigger{ID: "e", Kind: evidence.TriggerSourceEvent, Source: "github"}, TriggerReceiptHash: h,
	}
}

func options() signer.Options {
	return signer.Options{Issuer: "runtime", Audience: "api", Lifetime: time.Minute, Now: func() time.Time { return noon }}
}

// TestSharedSecret: what the golden vectors do not show.
func TestSharedSecret(t *testing.T) {
	w := newWorld(t)
	s := secretOf(t, []byte(strings.Repeat("s", 32)))
	shared := func(s evidence.Secret) string {
		i, err := signer.NewShared(evidence.RuntimeAttestationKind(), s, options())
		check.Must(t, err)
		token, _, err := i.Sign(t.Context(), attestation())
		check.Must(t, err)
		return token
	}
	token := shared(s)
	header, payload := parts(t, token)
	raw := []byte(strings.Repeat("s", 32))
	key, err := w.key.Current(t.Context())
	check.Must(t, err)
	publicText := secretOf(t, []byte(evidence.EncodePublicKey(key.Public())))
	names := func(secrets ...evidence.Secret) evidence.Expected {
		e := expect("runtime", "proof-key")
		e.Secrets = secrets
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
		"the policy wants a signature":           {token, "artifact_malformed", names()},
		"the policy holds a secret that is none": {token, "key_unknown", names(evidence.Secret{})},
		"alg EdDSA over the MAC": {
			forgeMAC(raw, strings.Replace(header, "HS256", "EdDSA", 1), payload), "artifact_malformed",
			names(s)},
		"alg none": {
			forgeMAC(raw, strings.Replace(header, "HS256", "none", 1), payload), "artifact_malformed",
			names(s)},
		"alg HS512": {
			forgeMAC(raw, strings.Replace(header, "HS256", "HS512", 1), payload), "artifact_malformed",
			names(s)},
		"the public key under its name": {forgeMAC(key.Public(), header, payload), "signature_invalid", names(s)},
		"the public key as secret": {
			forgeMAC(key.Public(), strings.Replace(header, s.KeyID(), key.KeyID(), 1), payload), "artifact_malformed",
			names()},
		"its text as the policy's secret": {shared(publicText), "config_malformed", names(publicText)},
		"a secret under a key's name": {
			forgeMAC(raw, strings.Replace(header, s.KeyID(), key.KeyID(), 1), payload), "key_unknown",
			names(s)},
		"another issuer": {token, "not_allowed", change(names(s), func(e *evidence.Expected) {
			e.Issuers = []string{"other"}
		})},
		"no age": {token, "not_allowed", change(names(s), func(e *evidence.Expected) {
			e.MaxAge = 0
		})},
		"altered": {
			forgeMAC(raw, header, payload)[:len(token)-4] + "AAAA", "signature_invalid", names(s)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.Open(w.verifier, evidence.RuntimeAttestationKind(), tt.token, tt.want)
			wantCode(t, err, tt.code)
		})
	}
}

func TestSharedSecretIsForAttestationsAlone(t *testing.T) {
	w := newWorld(t)
	s := secretOf(t, []byte(strings.Repeat("s", 32)))
	w.want.Secrets, w.want.KeyIDs = []evidence.Secret{s}, []string{s.KeyID()}
	wantCode(t, w.open(w.token), "artifact_malformed")

	i, err := signer.NewShared(evidence.RequestProofKind(), s, options())
	check.Must(t, err)
	_, _, err = i.Sign(t.Context(), aProof())
	wantCode(t, err, "artifact_malformed")

	shared, err := signer.NewShared(evidence.RuntimeAttestationKind(), evidence.Secret{}, options())
	check.Must(t, err)
	_, _, err = shared.Sign(t.Context(), attestation())
	wantCode(t, err, "config_malformed")
	claims := attestation()
	evidence.RuntimeAttestationKind().Stamp(&claims, evidence.NewRegistered("runtime", "api", noon, time.Minute),
		evidence.KeyClaims{KeyCustody: custody.HardwareBacked})
	_, err = evidence.SignMAC(s, evidence.RuntimeAttestationKind(), claims)
	wantCode(t, err, "key_custody")
	certify, err := signer.New(evidence.SignerCertificateKind(), w.key, options())
	check.Must(t, err)
	_, _, err = certify.Sign(t.Context(), evidence.SignerCertificate{
		KeyCustody: custody.ExternalMediator, Purposes: []string{evidence.PurposeRuntimeAttestation},
		SubjectIssuer: "runtime", SubjectKeyID: s.KeyID(),
		SubjectPublicKey: strings.Repeat("A", 43), SubjectPublicKeyHash: evidence.HashBytes(nil),
	})
	wantCode(t, err, "artifact_malformed")
	o := options()
	o.Second = newPostQuantum("k", 1)
	if _, err := signer.NewShared(evidence.RuntimeAttestationKind(), s, o); err == nil {
		t.Error("a secret has a second key")
	}
	if _, err := evidence.NewSecret(make([]byte, 31)); err == nil {
		t.Error("31 bytes are a secret")
	}
}

// TestTokensToOneself: what the golden vectors do not show.
func TestTokensToOneself(t *testing.T) {
	s := secretOf(t, []byte(strings.Repeat("s", 32)))
	claims := evidence.Capability{
		Registered: evidence.NewRegistered("api", "api", noon, time.Minute), ChallengeID: "c",
		Binding: evidence.Binding{Action: "a", ContentHash: evidence.HashBytes(nil), Nonce: "n", Resource: "r",
			Subject: "s"},
	}
	token, err := evidence.SignMAC(s, evidence.CapabilityKind(), claims)
	check.Must(t, err)
	header, _ := parts(t, token)
	mac := func(header, payload string) string {
		return forgeMAC([]byte(strings.Repeat("s", 32)), header, payload)
	}
	want := evidence.Expected{Issuers: []string{"api"}, Audiences: []string{"api"}, MaxAge: time.Minute}
	for name, tt := range map[string]struct {
		secret      evidence.Secret
		token, code string
		change      func(*evidence.Expected)
	}{
		"as it was written": {s, token, "", nil},
		"whatever is asked of keys": {s, token, "", func(e *evidence.Expected) {
			e.RequireNonExportable, e.Custody = true, []string{"hardware_backed"}
		}},
		"no secret":            {evidence.Secret{}, token, "config_malformed", nil},
		"claims that are none": {s, mac(header, "{}"), "artifact_malformed", nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := want
			if tt.change != nil {
				tt.change(&e)
			}
			c, err := evidence.OpenMAC(tt.secret, evidence.CapabilityKind(), tt.token, e, noon, 0)
			if tt.code != "" {
				wantCode(t, err, tt.code)
			} else if err != nil || c.ID != claims.ID {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
	want.MaxAge = 20 * time.Second
	for now, code := range map[time.Duration]string{ // with ten seconds of skew
		-10 * time.Second: "", -10*time.Second - 1: "clock_skew", 30 * time.Second: "", 30*time.Second + 1: "expired",
		70*time.Second - 1: "expired", 70 * time.Second: "expired",
	} {
		_, err = evidence.OpenMAC(s, evidence.CapabilityKind(), token, want, noon.Add(now), 10*time.Second)
		wantCode(t, err, code)
	}

	// A kind with a key is never opened with a secret, nor the other way round.
	w := newWorld(t)
	_, err = evidence.OpenMAC(s, evidence.RequestProofKind(), w.token, w.want, noon, 0)
	wantCode(t, err, "artifact_malformed")
	_, err = evidence.Open(w.verifier, evidence.CapabilityKind(), token, w.want)
	wantCode(t, err, "artifact_malformed")
	v, err := w.key.Current(t.Context())
	check.Must(t, err)
	_, err = evidence.Sign(t.Context(), v, evidence.CapabilityKind(), claims)
	wantCode(t, err, "artifact_malformed")
	claims.ChallengeID = ""
	_, err = evidence.SignMAC(s, evidence.CapabilityKind(), claims)
	wantCode(t, err, "artifact_malformed")

	// Nor is a request proof with a shared secret's header, MAC and claims.
	header, payload := parts(t, w.token)
	header = strings.NewReplacer("EdDSA", "HS256", "proof-key:v1", s.KeyID()).Replace(header)
	payload = strings.NewReplacer(`"external_mediator"`, `"shared_secret"`, `"keyExportable":false`,
		`"keyExportable":true`).Replace(payload)
	w.want.Secrets, w.want.KeyIDs = []evidence.Secret{s}, []string{s.KeyID()}
	wantCode(t, w.open(mac(header, payload)), "artifact_malformed")
}

func TestSharedSecretUnderTrust(t *testing.T) {
	d := newDesk(t)
	second := newPostQuantum("registry:v1", 1)
	sign := func(s evidence.Secret) (token, id string) {
		c := attestation()
		evidence.RuntimeAttestationKind().Stamp(&c, evidence.NewRegistered("runtime", "api", noon, time.Minute),
			evidence.SharedSecret)
		token, err := evidence.SignMAC(s, evidence.RuntimeAttestationKind(), c)
		check.Must(t, err)
		return token, c.ID
	}
	s := secretOf(t, []byte(strings.Repeat("s", 32)))
	token, id := sign(s)
	list := func(kind, id string) string {
		return d.list(t, d.options("registry", noon), evidence.Revocation{Kind: kind, ID: id})
	}
	open := func(s evidence.Secret, token string, root evidence.Root, b evidence.Bundle) error {
		trust, err := evidence.NewTrust([]evidence.Root{root}, b, d.policy)
		check.Must(t, err)
		want := expect("runtime", s.KeyID())
		want.Secrets = []evidence.Secret{s}
		_, err = evidence.Open(verifierAt(t, trust, noon), evidence.RuntimeAttestationKind(), token, want)
		return err
	}
	twice := d.root
	twice.PostQuantum = second.public
	check.Must(t, open(s, token, d.root,
		evidence.Bundle{Certificates: d.certificates, Revocations: list(evidence.RevokedArtifact, "another")}))
	check.Must(t, open(s, token, twice, evidence.Bundle{}))
	wantCode(t, open(s, token, d.root, evidence.Bundle{Revocations: list(evidence.RevokedArtifact, id)}), "revoked")
	wantCode(t, open(s, token, d.root, evidence.Bundle{Revocations: list(evidence.RevokedKey, s.KeyID())}), "revoked")
	for name, key := range map[string][]byte{
		"the registry's key": d.root.Public, "its text": []byte(evidence.EncodePublicKey(d.root.Public)),
		"the registry's second key": second.public.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			s := secretOf(t, key)
			token, _ := sign(s)
			wantCode(t, open(s, token, twice, evidence.Bundle{}), "config_malformed")
		})
	}
	header, payload := parts(t, token)
	empty := forgeMAC([]byte(strings.Repeat("s", 32)), header,
		strings.Replace(payload, `"mode":"autonomous"`, `"mode":""`, 1))
	wantCode(t, open(s, empty, d.root, evidence.Bundle{}), "artifact_malformed")
}

func TestKeyName(t *testing.T) {
	for kid, want := range map[string]string{
		"runtime-key:v1": "runtime-key", "runtime-key:v12": "runtime-key", "a:v1:v2": "a:v1",
		"runtime-key": "runtime-key", "runtime-key:v": "runtime-key:v",
		"mac:vabc": "mac:vabc", ":v1": ":v1", "": "", "a:v-1": "a:v-1", "a:v1 ": "a:v1 ",
	} {
		if got := evidence.KeyName(kid); got != want {
			t.Errorf("%q: %q, want %q", kid, got, want)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	const text = "a secret that nobody may ever see"
	s, err := evidence.NewSecret([]byte(text))
	check.Must(t, err)
	type holder struct {
		Shown  evidence.Secret
		hidden evidence.Secret
	}
	h := holder{s, s}
	for _, v := range []any{s, &s, h, &h, []holder{h}, map[string]holder{"": h}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
			got := fmt.Sprintf(verb, v)
			for _, told := range []string{"nobody", "97 32 115", "0x61, 0x20", "612073"} {
				if strings.Contains(got, told) {
					t.Errorf("%s of %T: %s", verb, v, got)
				}
			}
		}
		raw, err := json.Marshal(v)
		check.Must(t, err)
		if !strings.Contains(string(raw), "REDACTED") || strings.Contains(string(raw), "nobody") {
			t.Errorf("JSON of %T: %s", v, raw)
		}
	}
	if fmt.Sprint(s) != "REDACTED" {
		t.Errorf("it prints as %s", s)
	}
}
