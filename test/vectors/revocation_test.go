package vectors_test

import (
	"strconv"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

func revokes(kind, id string) evidence.Revocation {
	return evidence.Revocation{Expires: at + 3600, ID: id, Kind: kind, Reason: "lost"}
}

func revokedKey(id string) evidence.Revocation      { return revokes(evidence.RevokedKey, id) }
func revokedArtifact(id string) evidence.Revocation { return revokes(evidence.RevokedArtifact, id) }

func (d deployment) listClaims(entries ...evidence.Revocation) string {
	return claimsOf(d, evidence.RevocationListKind(),
		evidence.RevocationList{Revoked: append([]evidence.Revocation{}, entries...)}, 30*24*3600)
}

func (d deployment) list(change map[string]any, entries ...evidence.Revocation) string {
	typ := evidence.RevocationListKind().Typ
	return d.signed(evidence.PurposeSignerCertificate, typ, d.listClaims(entries...), changes{typ: change})
}

func (d deployment) revocationVectors() []artifactVector {
	proof := d.roles[evidence.PurposeRequestProof]
	typ := evidence.RequestProofKind().Typ
	t := d.signed(proof.purpose, typ, d.proofClaims(), nil)
	under := func(name, code string, change func(*trustJSON)) artifactVector {
		trust := d.trust()
		trust.Certificates = []string{d.certificate(proof, nil)}
		change(&trust)
		return artifactVector{Name: "revocation, " + name, Typ: typ, Token: t, Trust: &trust, Verdict: code}
	}
	listed := func(name, code, list string) artifactVector {
		return under(name, code, func(t *trustJSON) { t.Revocations = list })
	}
	listedToken := func(name, code, token, list string) artifactVector {
		v := listed(name, code, list)
		v.Token = token
		return v
	}
	demanded := func(name, code, list string) artifactVector {
		return under(name, code, func(t *trustJSON) { t.Revocations, t.Signers.MaxRevocationAge = list, 60 })
	}
	by := func(k key) string { return k.token(evidence.RevocationListKind().Typ, d.listClaims()) }
	retired := func(name, code string, versions ...string) artifactVector {
		return under("the key's certificates, "+name, code, func(t *trustJSON) {
			t.Certificates = []string{}
			for _, v := range versions {
				k := newKey("request-proof-key" + v)
				t.Certificates = append(t.Certificates, d.certificate(proof, map[string]any{"subjectKeyId": k.kid,
					"subjectPublicKey": evidence.EncodePublicKey(k.public()), "subjectPublicKeyHash": evidence.HashBytes(k.public())}))
			}
		})
	}
	oneKey := func(id string) string { return d.list(nil, revokedKey(id)) }
	oneArtifact := func(id string) string { return d.list(nil, revokedArtifact(id)) }
	registry, auditor := d.roles[evidence.PurposeSignerCertificate], d.roles[evidence.PurposeDeploymentCertificate]
	stranger := newKey("stranger:v1")
	forged := stranger.token(typ, d.proofClaims())
	altered := func(claim string, value any) string {
		return d.signed(proof.purpose, typ, d.proofClaims(), changes{typ: {claim: value}})
	}
	second := newSecond(registry.key.kid)
	var others []evidence.Revocation
	for i := range 299 {
		others = append(others, revokedArtifact("other-"+strconv.Itoa(i)))
	}
	return append([]artifactVector{
		listed("nothing is revoked", "ok", d.list(nil)),
		listed("others are revoked", "ok",
			d.list(nil, revokedKey("request-proof-key:v2"), revokedKey("request-proof"),
				revokedKey("request-proof-1"), revokedArtifact("request-proof-key:v1"),
				revokedArtifact("other"))),
		listed("the key's version", "revoked", oneKey(proof.key.kid)),
		listed("every version of the key", "revoked", oneKey("request-proof-key")),
		listed("the last of 300 entries, in a list longer than other tokens", "revoked",
			d.list(nil, append(others, revokedArtifact("request-proof-1"))...)),
		listed("the key and the artifact", "revoked",
			d.list(nil, revokedArtifact("request-proof-1"), revokedKey(proof.key.kid))),
		listed("the registry's key", "revoked", oneKey("registry")),
		listed("the artifact", "revoked", oneArtifact("request-proof-1")),
		listed("the second of two entries", "revoked",
			d.list(nil, revokedArtifact("other"), revokedArtifact("request-proof-1"))),
		listed("an entry past its own end", "revoked",
			d.list(nil, evidence.Revocation{Expires: at - 1, ID: "request-proof-1", Kind: evidence.RevokedArtifact,
				Reason: "lost"})),
		listed("the key's certificate", "revoked", oneArtifact("signer-custody-certificate-1")),
		listedToken("an unknown key, and revoked", "revoked", forged, oneKey("stranger")),
		listedToken("the artifact, which another issuer made", "revoked", altered("iss", "other"),
			oneArtifact("request-proof-1")),
		listedToken("the artifact, whose claims are not right", "artifact_malformed", altered("action", ""),
			oneArtifact("request-proof-1")),
		listedToken("the artifact, whose signature is wrong", "signature_invalid", t[:len(t)-10]+"AAAAAAAAAA",
			oneArtifact("request-proof-1")),

		listed("a list that is over", "revocations_stale", d.list(map[string]any{"iat": at - 1000, "exp": at - 2})),
		listed("a list that was over 1 s ago", "ok", d.list(map[string]any{"iat": at - 1000, "exp": at - 1})),
		listed("a list from the future", "revocations_stale", d.list(map[string]any{"iat": at + 3})),
		listed("a list by another issuer", "revocations_stale", d.list(map[string]any{"iss": "other"})),
		listed("a list for another audience", "revocations_stale", d.list(map[string]any{"aud": "other"})),
		listed("a list that is over and revokes the artifact", "revocations_stale",
			d.list(map[string]any{"iat": at - 1000, "exp": at - 2}, revokedArtifact("request-proof-1"))),
		listedToken("a list that is over, and an unknown key", "revocations_stale", forged,
			d.list(map[string]any{"iat": at - 1000, "exp": at - 2})),
		demanded("demanded, and there is no list", "revocations_stale", ""),
		demanded("demanded, and fresh", "ok", d.list(map[string]any{"iat": at - 62})),
		demanded("demanded, and too old", "revocations_stale", d.list(map[string]any{"iat": at - 63})),

		listed("a list by an unknown key", "key_unknown", by(stranger)),
		listed("a list by an unknown key under the registry's kid", "signature_invalid",
			by(key{registry.key.kid, stranger.private})),
		listed("a list by the auditor", "key_purpose", by(auditor.key)),
		listed("a list by a certified key", "key_purpose", by(proof.key)),
		listed("a certificate in place of the list", "artifact_malformed", d.certificate(proof, nil)),
		listed("null in place of the list", "artifact_malformed",
			registry.key.token(evidence.RevocationListKind().Typ, strings.Replace(d.listClaims(), "[]", "null", 1))),
		listed("no list in the list", "artifact_malformed", d.list(map[string]any{"revoked": nil})),
		listed("an entry of another kind", "artifact_malformed", d.list(nil, revokes("grant", "x"))),
		listed("an entry without an id", "artifact_malformed", d.list(nil, revokedKey(""))),
		listed("an entry without an end", "artifact_malformed",
			d.list(nil, evidence.Revocation{ID: "x", Kind: evidence.RevokedKey, Reason: "lost"})),
		listed("an entry without a reason", "artifact_malformed",
			d.list(nil, evidence.Revocation{Expires: at, ID: "x", Kind: evidence.RevokedKey})),
		listed("an entry with an id of 257 bytes", "artifact_malformed", oneKey(strings.Repeat("x", 257))),
		listed("an unknown member in an entry", "artifact_malformed",
			d.list(map[string]any{
				"revoked": []map[string]any{{"exp": at, "id": "x", "kind": "key", "reason": "lost", "by": "me"}}})),
		under("a second signature is pinned, and the list is signed once", "signature_invalid", func(t *trustJSON) {
			t.Certificates, t.Revocations = []string{}, d.list(nil)
			t.Roots[0].PostQuantum = b64.EncodeToString(second.public.Bytes())
		}),
		under("a second signature is demanded", "roots_not_pinned", func(t *trustJSON) {
			t.Certificates, t.Revocations, t.Signers.RequirePostQuantum = []string{}, d.list(nil), true
		}),
	},
		retired("of a later version", "key_retired", ":v2"), retired("of two later versions", "key_retired", ":v2", ":v10"),
		retired("of an earlier version", "key_unknown", ":v0"),
		retired("of a version that is no number", "key_unknown", ":vx"), retired("of another key", "key_unknown", "s:v2"),
		retired("of the key without a version", "key_unknown", ""),
	)
}

func (d deployment) revokedChains() (out []chainVector) {
	revoked := func(name, code, list string) chainVector {
		return chainVector{Name: name, Revoked: list, Verdict: code}
	}
	for _, id := range []string{"deployment-certificate-1", "trigger-origin-proof-1", "trigger-receipt-1",
		"policy-decision-1", "action-grant-1", "runtime-attestation-1", "agent-session-receipt-1"} {
		out = append(out, revoked("revoked: "+id, "revoked", d.list(nil, revokedArtifact(id))))
	}
	for _, name := range []string{"auditor", "registry", "origin-proof-key", "trigger-receipt-key:v1",
		"policy-decision-key", "action-grant-key", "runtime-key:v1", "session-key"} {
		out = append(out, revoked("revoked: every artifact by "+name, "revoked", d.list(nil, revokedKey(name))))
	}
	return append(out,
		revoked("revoked: what it does not rest on", "ok",
			d.list(nil, revokedKey("request-proof-key"), revokedArtifact("challenge-1"))),
		revoked("what is revoked is not known", "revocations_stale", d.list(map[string]any{"iat": at - 1000, "exp": at - 2})))
}

func (d deployment) revokedPosts() (out []postVector) {
	revoked := func(name, code, list string) postVector { return postVector{Name: name, Revoked: list, Verdict: code} }
	for _, id := range []string{"capability-1", "policy-decision-1", "action-grant-1", "runtime-attestation-1",
		"agent-session-receipt-1", "request-proof-1"} {
		out = append(out, revoked("revoked: "+id, "revoked", d.list(nil, revokedArtifact(id))))
	}
	for _, name := range []string{"runtime-key:v1", "request-proof-key", "registry:v1"} {
		out = append(out, revoked("revoked: "+name, "revoked", d.list(nil, revokedKey(name))))
	}
	return append(out,
		revoked("revoked: what it does not rest on", "ok",
			d.list(nil, revokedKey("action-grant-key"), revokedArtifact("trigger-receipt-1"))),
		revoked("what is revoked is not known", "revocations_stale", d.list(map[string]any{"iat": at + 3})))
}
