package vectors_test

import (
	"bytes"
	"context"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

func (d deployment) certificateFaults() []artifactVector {
	proof := d.roles[evidence.PurposeRequestProof]
	t := d.signed(proof.purpose, evidence.RequestProofKind().Typ, d.proofClaims(), nil)
	under := func(name, code string, change func(*trustJSON)) artifactVector {
		trust := d.trust()
		trust.Certificates = []string{d.certificate(proof, nil)}
		change(&trust)
		return artifactVector{Name: "its key's certificate, " + name, Typ: evidence.RequestProofKind().Typ, Token: t,
			Trust: &trust, Verdict: code}
	}
	certified := func(name, code string, change map[string]any) artifactVector {
		return under(name, code, func(t *trustJSON) { t.Certificates = []string{d.certificate(proof, change)} })
	}
	beside := func(name, code, certificate string) artifactVector {
		return under(name, code, func(t *trustJSON) { t.Certificates = append(t.Certificates, certificate) })
	}
	demanded := func(name, code string, change func(*signersJSON)) artifactVector {
		return under(name, code, func(t *trustJSON) { change(&t.Signers) })
	}
	other := newKey("other:v1")
	registry, auditor := d.roles[evidence.PurposeSignerCertificate], d.roles[evidence.PurposeDeploymentCertificate]
	by := func(name, code string, k key) artifactVector {
		return under("by "+name, code, func(t *trustJSON) {
			t.Certificates = []string{k.token(evidence.SignerCertificateKind().Typ, d.certificateClaims(proof))}
		})
	}
	otherKey := map[string]any{"subjectPublicKey": evidence.EncodePublicKey(other.public()),
		"subjectPublicKeyHash": evidence.HashBytes(other.public())}
	return []artifactVector{
		under("valid", "ok", func(*trustJSON) {}),
		under("none", "key_unknown", func(t *trustJSON) { t.Certificates = []string{} }),
		certified("expired", "expired", map[string]any{"iat": at - 1000, "exp": at - 2}),
		certified("expired 1 s ago", "ok", map[string]any{"iat": at - 1000, "exp": at - 1}),
		certified("not yet valid", "clock_skew", map[string]any{"iat": at + 3}),
		under("too old", "expired", func(t *trustJSON) {
			t.Certificates, t.Signers.MaxAge = []string{d.certificate(proof, map[string]any{"iat": at - 63})}, 60
		}),
		certified("for another purpose", "key_purpose", map[string]any{"purposes": []string{evidence.PurposeActionGrant}}),
		certified("of a key in another custody", "key_custody", map[string]any{"keyCustody": "memory"}),
		certified("of a key that can be exported", "key_custody", map[string]any{"keyExportable": true}),
		certified("of a key that the agent reaches", "key_custody", map[string]any{"accessibleToAgent": true}),
		certified("of a key that users reach", "key_custody", map[string]any{"accessibleToUsers": true}),
		certified("by another issuer", "not_allowed", map[string]any{"iss": "other"}),
		certified("for another audience", "not_allowed", map[string]any{"aud": "other"}),
		certified("for another issuer's key", "key_purpose", map[string]any{"subjectIssuer": "other"}),
		certified("of another key", "signature_invalid", otherKey),
		demanded("by a registry key that is not demanded", "not_allowed", func(s *signersJSON) {
			s.KeyIDs = []string{"other"}
		}),
		demanded("nothing is demanded", "not_allowed", func(s *signersJSON) { s.Issuers = []string{} }),
		demanded("a second signature is demanded", "roots_not_pinned", func(s *signersJSON) { s.RequirePostQuantum = true }),
		certified("another hash than its key's", "key_unknown",
			map[string]any{"subjectPublicKeyHash": evidence.HashBytes(other.public())}),
		certified("a public key that is no base64url", "key_unknown", map[string]any{"subjectPublicKey": "!"}),
		certified("a public key of small order", "trust_malformed",
			map[string]any{"subjectPublicKey": strings.Repeat("A", 43)}),
		certified("a public key that is not reduced", "trust_malformed",
			map[string]any{"subjectPublicKey": "8P_______________________________________38"}),
		certified("a root as subject", "key_unknown", map[string]any{"subjectKeyId": auditor.key.kid}),
		certified("a root's purpose", "key_unknown", map[string]any{"purposes": []string{evidence.PurposeSignerCertificate}}),
		by("the auditor", "key_unknown", auditor.key), by("a role's key", "key_unknown", proof.key),
		by("an unknown key", "key_unknown", other),
		by("an unknown key under the registry's kid", "signature_invalid", key{registry.key.kid, other.private}),
		beside("one bad one among good ones", "artifact_missing", ""),
		beside("two keys under one kid", "key_unknown", d.certificate(proof, otherKey)),
		under("two of one key, of which the later counts", "key_custody", func(t *trustJSON) {
			t.Certificates = []string{d.certificate(proof, map[string]any{"accessibleToUsers": true, "jti": "2"}),
				d.certificate(proof, map[string]any{"iat": at - 60})}
		}),
		under("a root that is pinned twice", "trust_malformed", func(t *trustJSON) { t.Roots = append(t.Roots, t.Roots[0]) }),
		under("a root's public key that is pinned twice", "trust_malformed", func(t *trustJSON) {
			again := t.Roots[0]
			again.KeyID = "registry:v2"
			t.Roots = append(t.Roots, again)
		}),
		certified("a root's public key", "key_unknown", map[string]any{
			"subjectPublicKey":     evidence.EncodePublicKey(auditor.key.public()),
			"subjectPublicKeyHash": evidence.HashBytes(auditor.key.public())}),
		beside("one key for two purposes", "key_purpose",
			d.certificate(proof, map[string]any{"subjectKeyId": "other:v1", "purposes": []string{evidence.PurposeActionGrant}})),
		beside("one key under two kids, for one purpose", "ok",
			d.certificate(proof, map[string]any{"subjectKeyId": "other:v1"})),
		under("1025 of them", "trust_malformed", func(t *trustJSON) { t.Certificates = make([]string, 1025) }),
		under("a root with a key for second signatures of another size", "trust_malformed", func(t *trustJSON) {
			t.Roots[0].PostQuantum = "AAAA"
		}),
		under("a root with a key for second signatures that is a seed alone", "trust_malformed", func(t *trustJSON) {
			t.Roots[0].PostQuantum = b64.EncodeToString(append(bytes.Repeat([]byte{1}, 32), make([]byte, 1920)...))
		}),
		under("a root for a signer's purpose", "trust_malformed", func(t *trustJSON) {
			t.Roots[1].Purpose = evidence.PurposeRequestProof
		}),
		under("a root of small order", "trust_malformed", func(t *trustJSON) { t.Roots[0].Public = strings.Repeat("A", 43) }),
	}
}

func (d deployment) sharedVectors() []artifactVector {
	secret := secretOf("runtime")
	s := must(evidence.NewSecret(secret))
	r := d.roles[evidence.PurposeRuntimeAttestation]
	typ := evidence.RuntimeAttestationKind().Typ
	claims := with(d.attestationClaims(d.envelope(nil).TriggerReceipt),
		map[string]any{"keyCustody": "shared_secret", "keyExportable": true})
	header := `{"alg":"HS256","kid":"` + s.KeyID() + `","typ":"` + typ + `"}`
	valid := token{header, claims, macSigner(secret)}.String()
	expected := expectedJSON{Issuers: []string{r.issuer}, Audiences: []string{r.audience}, KeyIDs: []string{s.KeyID()},
		MaxAge: 15, Secrets: []string{b64.EncodeToString(secret)}}
	vector := func(name, code, token string, change func(*expectedJSON)) artifactVector {
		e := expected
		if change != nil {
			change(&e)
		}
		return artifactVector{Name: "shared secret, " + name, Typ: typ, Token: token, Expected: &e, Verdict: code}
	}
	public := r.key.public()
	p := must(evidence.NewSecret(public))
	return []artifactVector{
		vector("valid", "ok", valid, nil),
		vector("one of two", "ok", valid, func(e *expectedJSON) {
			e.Secrets = []string{b64.EncodeToString(secretOf("other")), e.Secrets[0]}
		}),
		vector("the verifier holds another", "key_unknown", valid, func(e *expectedJSON) {
			e.Secrets = []string{b64.EncodeToString(secretOf("other"))}
		}),
		vector("the verifier holds none", "artifact_malformed", valid, func(e *expectedJSON) { e.Secrets = nil }),
		vector("not among the keys that are demanded", "not_allowed", valid, func(e *expectedJSON) {
			e.KeyIDs = []string{"runtime-key"}
		}),
		vector("a signature where a secret is demanded", "artifact_malformed", d.envelope(nil).Attestation, nil),
		vector("another secret under the kid", "signature_invalid",
			token{header, claims, macSigner(secretOf("other"))}.String(), nil),
		vector("custody is demanded", "key_custody", valid, func(e *expectedJSON) {
			e.Custody = []string{evidence.CustodyExternalMediator}
		}),
		vector("a key that cannot be exported is demanded", "key_custody", valid, func(e *expectedJSON) {
			e.RequireNonExportable = true
		}),
		vector("claims that are not true of a secret", "key_custody",
			token{header, with(claims, map[string]any{"keyExportable": false}), macSigner(secret)}.String(), nil),
		vector("a public key as the secret", "config_malformed",
			token{strings.Replace(header, s.KeyID(), p.KeyID(), 1), claims, macSigner(public)}.String(), func(e *expectedJSON) {
				e.Secrets, e.KeyIDs = []string{b64.EncodeToString(public)}, []string{p.KeyID()}
			}),
		{Name: "shared secret, for another artifact", Typ: evidence.RequestProofKind().Typ, Token: valid, Expected: &expected,
			Verdict: "artifact_malformed"},
	}
}

func (d deployment) secondVectors() []artifactVector {
	auditor := d.roles[evidence.PurposeDeploymentCertificate]
	typ, claims := evidence.DeploymentCertificateKind().Typ, d.deploymentClaims()
	first := d.signed(auditor.purpose, typ, claims, nil)
	again := func(k second, kid, claims string) string {
		sign := func(input string) []byte { return must(k.Sign(context.Background(), []byte(input))) }
		return token{`{"alg":"ML-DSA-65","kid":"` + kid + `","typ":"` + typ + `"}`, claims, sign}.String()
	}
	k := newSecond(auditor.key.kid)
	valid := first + "~" + again(k, auditor.key.kid, claims)
	pinned := d.trust()
	pinned.Certificates = []string{}
	pinned.Roots[1].PostQuantum = b64.EncodeToString(k.public.Bytes())
	unpinned := d.trust()
	unpinned.Certificates = []string{}
	vector := func(name, code, token string, trust trustJSON) artifactVector {
		return artifactVector{Name: "second signature, " + name, Typ: typ, Token: token, Trust: &trust, Verdict: code}
	}
	demanded := vector("demanded, and no key is pinned for it", "roots_not_pinned", valid, unpinned)
	e := expectedJSON{Issuers: []string{auditor.issuer}, Audiences: []string{auditor.audience},
		KeyIDs: []string{"auditor"}, MaxAge: 24 * 3600, RequirePostQuantum: true}
	demanded.Expected = &e
	return []artifactVector{
		vector("valid", "ok", valid, pinned),
		vector("of which only the form is judged", "ok", first+"~"+again(newSecond("other:v1"), auditor.key.kid, claims),
			unpinned),
		vector("missing", "signature_invalid", first, pinned),
		demanded,
		vector("announced, and none", "artifact_malformed", first+"~", unpinned),
		vector("by another key", "signature_invalid", first+"~"+again(newSecond("other:v1"), auditor.key.kid, claims),
			pinned),
		vector("under another kid", "signature_invalid", first+"~"+again(k, "other:v1", claims), pinned),
		vector("over other claims", "artifact_malformed",
			first+"~"+again(k, auditor.key.kid, with(claims, map[string]any{"jti": "other"})), pinned),
		vector("by Ed25519 again", "artifact_malformed", first+"~"+first, pinned),
		vector("a wrong first", "signature_invalid", first[:len(first)-10]+"AAAAAAAAAA~"+again(k, auditor.key.kid, claims),
			pinned),
	}
}
