package vectors_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// refused is a vector of a token.
func refused(name, code, token string) artifactVector {
	return artifactVector{Name: name, Token: token, Verdict: code}
}

// valid are the ways in which the artifact is accepted.
func (a artifact) valid() []artifactVector {
	t := a.token()
	whole := a.expected
	whole.KeyIDs = []string{evidence.KeyIDOf(t)}
	return []artifactVector{
		{Name: "valid", Token: t, Verdict: "ok", Claims: json.RawMessage(a.payload)},
		{Name: "its whole key id named", Token: t, Expected: &whole, Verdict: "ok"},
	}
}

// formFaults are tokens that are no compact JWS, or a JWS in a second spelling.
func (a artifact) formFaults() []artifactVector {
	t := a.token()
	parts := strings.Split(t, ".")
	last := strings.IndexByte(b64url, t[len(t)-1]) // its lowest bits belong to no byte
	return []artifactVector{
		refused("nothing", "artifact_missing", ""),
		refused("two parts", "jws_malformed", parts[0]+"."+parts[1]),
		refused("four parts", "jws_malformed", t+"."),
		refused("padded", "jws_malformed", t+"=="),
		refused("a line break", "jws_malformed", t[:len(t)-4]+"\n"+t[len(t)-4:]),
		refused("stray bits", "jws_malformed", t[:len(t)-1]+string(b64url[last|1])),
		refused("the alphabet of plain base64", "jws_malformed", parts[0]+"."+parts[1]+"."+strings.NewReplacer("-", "+", "_", "/").Replace(parts[2])+"/"),
		refused("no signature", "signature_invalid", parts[0]+"."+parts[1]+"."),
		refused("an altered signature", "signature_invalid", parts[0]+"."+parts[1]+"."+b64.EncodeToString(flip(parts[2]))),
		refused("another payload under the signature", "signature_invalid", parts[0]+"."+b64.EncodeToString([]byte(with(a.payload, map[string]any{"jti": "another"})))+"."+parts[2]),
	}
}

func flip(part string) []byte {
	raw := must(b64.DecodeString(part))
	raw[0] ^= 1
	return raw
}

// headerFaults are tokens with a right signature over a header that is not the one.
func (a artifact) headerFaults() []artifactVector {
	alg, kid := `"alg":"EdDSA"`, evidence.KeyIDOf(a.token())
	if a.own {
		alg = `"alg":"HS256"`
	}
	header := func(old, by string) string {
		if !strings.Contains(a.header, old) {
			panic(old + " is not in " + a.header)
		}
		return token{strings.Replace(a.header, old, by, 1), a.payload, a.sign}.String()
	}
	long := strings.Repeat("k", 257)
	out := []artifactVector{
		refused("alg none", "jws_algorithm", header(alg, `"alg":"none"`)),
		refused("alg none and no signature", "jws_algorithm", token{strings.Replace(a.header, alg, `"alg":"none"`, 1), a.payload, func(string) []byte { return nil }}.String()),
		refused("alg in another case", "jws_algorithm", header(alg, strings.ToLower(alg))),
		refused("no alg", "jws_algorithm", header(alg+",", "")),
		refused("another typ", "jws_type", header(a.typ, "JWT")),
		refused("no typ", "jws_type", header(`,"typ":"`+a.typ+`"`, "")),
		refused("an unknown crit", "jws_header", header(alg, alg+`,"crit":["exp"]`)),
		refused("an empty crit", "jws_header", header(alg, alg+`,"crit":[]`)),
		refused("an embedded jwk", "jws_header", header(alg, alg+`,"jwk":{"crv":"Ed25519","kty":"OKP","x":"`+evidence.EncodePublicKey(newKey("stranger:v1").public())+`"}`)),
		refused("b64", "jws_header", header(alg, alg+`,"b64":false`)),
		refused("alg twice", "jws_header", header(alg, `"alg":"none",`+alg)),
		refused("alg twice, of which the last is none", "jws_algorithm", header(alg, alg+`,"alg":"none"`)),
		refused("alg in capitals", "jws_algorithm", header(`"alg"`, `"ALG"`)),
		refused("alg in capitals too", "jws_header", header(alg, alg+`,"ALG":"none"`)),
		refused("alg is null", "jws_malformed", header(alg, `"alg":null`)),
		refused("kid twice, which was no text at first", "jws_header", header(`"kid"`, `"kid":1,"kid"`)),
		refused("half a surrogate pair in the kid", "jws_header", header(kid, `\ud800`)),
		refused("typ as a media type", "jws_type", header(a.typ, "application/"+a.typ)),
		refused("a member with a number beyond all bounds", "jws_header", header(alg, alg+`,"b":1e999`)),
		refused("a header that is null", "jws_malformed", token{"null", a.payload, a.sign}.String()),
		refused("two headers", "jws_malformed", token{a.header + a.header, a.payload, a.sign}.String()),
		refused("a space in the header", "jws_header", header(`","`, `", "`)),
		refused("another order in the header", "jws_header", token{`{"typ":"` + a.typ + `",` + alg + `,"kid":"` + kid + `"}`, a.payload, a.sign}.String()),
		refused("a header that is no object", "jws_malformed", token{`[]`, a.payload, a.sign}.String()),
		refused("a kid that is no text", "jws_malformed", header(`"`+kid+`"`, "1")),
		refused("an empty kid", "jws_malformed", header(kid, "")),
		refused("a kid of 257 bytes", "jws_malformed", header(kid, long)),
	}
	if !a.own {
		public := a.role.key.public()
		out = append(out, refused("HS256 with the public key as secret", "jws_algorithm", token{strings.Replace(a.header, "EdDSA", "HS256", 1), a.payload, macSigner(public)}.String()),
			refused("alg Ed25519", "jws_algorithm", header(alg, `"alg":"Ed25519"`)))
	}
	return out
}

// keyFaults are tokens by a key that may not sign them.
func (d deployment) keyFaults(a artifact) []artifactVector {
	by := func(kid string, k key) string {
		return token{strings.Replace(a.header, evidence.KeyIDOf(a.token()), kid, 1), a.payload, k.signer()}.String()
	}
	if a.own {
		other := secretOf("another gate")
		own := evidence.KeyIDOf(a.token())
		s := must(evidence.NewSecret(other))
		return []artifactVector{
			refused("another secret under the kid", "signature_invalid", token{a.header, a.payload, macSigner(other)}.String()),
			refused("another gate's", "signature_invalid", token{strings.Replace(a.header, own, s.KeyID(), 1), a.payload, macSigner(other)}.String()),
			refused("another kid for the secret", "key_not_allowed", token{strings.Replace(a.header, own, "mac:other", 1), a.payload, a.sign}.String()),
		}
	}
	out := []artifactVector{
		refused("by an unknown key", "key_unknown", by("stranger:v1", newKey("stranger:v1"))),
		refused("by another version of the key", "key_unknown", by(strings.Replace(a.role.key.kid, ":v1", ":v2", 1), a.role.key)),
		refused("a kid that is a path", "key_unknown", by("../"+a.role.key.kid, a.role.key)),
		refused("by an unknown key under the kid", "signature_invalid", by(a.role.key.kid, newKey("stranger:v1"))),
	}
	for _, r := range []string{evidence.PurposeRuntimeAttestation, evidence.PurposeRequestProof, evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
		if r != a.purpose {
			out = append(out, refused("by the key for "+r, "key_purpose", by(d.roles[r].key.kid, d.roles[r].key)))
		}
	}
	return out
}

// claimFaults are tokens with a right signature over claims that are not right.
func (a artifact) claimFaults() []artifactVector {
	raw := func(payload string) string { return token{a.header, payload, a.sign}.String() }
	set := func(name string, value any) string { return raw(with(a.payload, map[string]any{name: value})) }
	text := `"iss":"` + a.role.issuer + `"`
	out := []artifactVector{
		refused("an unknown claim", "claims_malformed", set("admin", true)),
		refused("a claim of another type", "claims_malformed", set(a.text, 1)),
		refused("an integer as text", "claims_malformed", set("iat", "1795176000")),
		refused("an empty text", "claims_malformed", set(a.text, "")),
		refused("a text of 2049 bytes", "claims_malformed", set(a.text, strings.Repeat("x", 2049))),
		refused("claims that are no object", "claims_malformed", raw("[]")),
		refused("no issuer", "claims_malformed", set("iss", "")),
		refused("a jti of 257 bytes", "claims_malformed", set("jti", strings.Repeat("j", 257))),
		refused("a claim is missing", "claims_not_canonical", set(a.text, nil)),
		refused("iat is missing", "claims_not_canonical", set("iat", nil)),
		refused("a claim twice", "claims_not_canonical", raw(strings.Replace(a.payload, text, text+","+text, 1))),
		refused("another order", "claims_not_canonical", raw(strings.TrimSuffix(strings.Replace(a.payload, text+",", "", 1), "}")+","+text+"}")),
		refused("a space", "claims_not_canonical", raw(a.payload+" ")),
		refused("an escape of equal value", "claims_not_canonical", raw(strings.Replace(a.payload, text, `"iss":"\u00`+hexByte(a.role.issuer[0])+a.role.issuer[1:]+`"`, 1))),
		refused("not UTF-8", "claims_not_canonical", raw(strings.Replace(a.payload, text, `"iss":"`+a.role.issuer+"\xff\"", 1))),
		refused("a claim that is null", "claims_malformed", set(a.text, json.RawMessage("null"))),
		refused("a claim in another case", "claims_malformed", raw(strings.Replace(a.payload, `"iss":`, `"Iss":`, 1))),
		refused("a claim in another case too", "claims_malformed", set("ISS", a.role.issuer)),
		refused("an unknown claim of a name that JavaScript knows", "claims_malformed", set("toString", "x")),
		refused("a claim twice, which was no text at first", "claims_not_canonical", raw(strings.Replace(a.payload, text, `"iss":1,`+text, 1))),
		refused("a claim twice, which is no text at last", "claims_malformed", raw(strings.Replace(a.payload, text, text+`,"iss":1`, 1))),
		refused("half a surrogate pair", "claims_not_canonical", raw(strings.Replace(a.payload, text, `"iss":"\ud800"`, 1))),
		refused("a line separator, escaped", "claims_not_canonical", raw(strings.Replace(a.payload, text, `"iss":"\u2028"`, 1))),
		refused("a line separator, as it is", "ok", set("jti", "\u2028")),
		refused("a fraction of nothing", "claims_not_canonical", raw(strings.Replace(a.payload, `"iat":`+strconv.Itoa(at), `"iat":`+strconv.Itoa(at)+".0", 1))),
		refused("a fraction", "claims_malformed", raw(strings.Replace(a.payload, `"iat":`+strconv.Itoa(at), `"iat":`+strconv.Itoa(at)+".5", 1))),
		refused("an exponent", "claims_not_canonical", raw(strings.Replace(a.payload, `"iat":`+strconv.Itoa(at), `"iat":1.795176e9`, 1))),
		refused("exp is 2^53 - 1", "lifetime_too_long", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740991`))),
		refused("exp is 2^53", "claims_malformed", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740992`))),
		refused("exp is 2^53 + 1", "claims_malformed", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740993`))),
		refused("expires when it is issued", "lifetime_invalid", set("exp", at)),
		refused("issued at 0", "lifetime_invalid", set("iat", 0)),
		refused("a lifetime over the bound", "lifetime_too_long", set("exp", at+a.lifetime+1)),
	}
	if a.hash != "" {
		out = append(out, refused("a hash in capitals", "claims_malformed", set(a.hash, strings.Repeat("A", 64))),
			refused("a hash of 63 characters", "claims_malformed", set(a.hash, strings.Repeat("a", 63))))
	}
	return out
}

// ownFaults are faults in claims that this kind alone has.
func (a artifact) ownFaults() []artifactVector {
	set := func(name string, value any) string {
		return token{a.header, with(a.payload, map[string]any{name: value}), a.sign}.String()
	}
	long := strings.Repeat("x", 2049)
	observed := []artifactVector{
		refused("nothing observed, and said so", "claims_not_canonical", set("observed", []string{})),
		refused("an empty text observed", "claims_malformed", set("observed", []string{"keyExportable", ""})),
		refused("a text of 2049 bytes observed", "claims_malformed", set("observed", []string{long})),
		refused("observed, no list", "claims_malformed", set("observed", "keyExportable")),
		refused("nothing observed", "ok", set("observed", nil)),
	}
	switch a.typ {
	case evidence.SessionReceiptKind.Typ:
		return observed
	case evidence.RuntimeAttestationKind.Typ:
		trigger := func(member string, value any) map[string]any {
			t := map[string]any{"id": "evt_1", "kind": "source_event", "source": "github"}
			if t[member] = value; value == nil {
				delete(t, member)
			}
			return t
		}
		return append(observed, refused("a trigger without an id", "claims_not_canonical", set("trigger", trigger("id", nil))),
			refused("a trigger with an empty source", "claims_malformed", set("trigger", trigger("source", ""))),
			refused("an unknown member of the trigger", "claims_malformed", set("trigger", trigger("human", false))),
			refused("a trigger that is no object", "claims_malformed", set("trigger", []string{"evt_1"})))
	case evidence.ActionGrantKind.Typ:
		return []artifactVector{
			refused("an empty scope", "claims_malformed", set("actions", []string{})), refused("an empty text in a scope", "claims_malformed", set("resources", []string{"POST /posts", ""})),
			refused("a text of 2049 bytes in a scope", "claims_malformed", set("resources", []string{long})), refused("null in a scope", "claims_malformed", set("actions", []any{nil})),
			refused("a text in place of a scope", "claims_malformed", set("actions", "create_post")), refused("a scope of two", "ok", set("actions", []string{"create_post", "delete_post"})),
		}
	case evidence.SignerCertificateKind.Typ:
		return append(observed, refused("two purposes", "claims_malformed", set("purposes", []string{"request_proof", "action_grant"})),
			refused("no purpose", "claims_malformed", set("purposes", []string{})), refused("an empty purpose", "claims_malformed", set("purposes", []string{""})),
			refused("for a shared secret", "claims_malformed", set("subjectKeyId", "mac:abc")))
	case evidence.ChallengeTokenKind.Typ:
		b := func(member string, value any) map[string]any {
			b := map[string]any{"action": "a", "contentHash": evidence.HashBytes(nil), "nonce": "n", "resource": "r", "subject": "s"}
			if b[member] = value; value == nil {
				delete(b, member)
			}
			return b
		}
		unbound := with(a.payload, map[string]any{"binding": nil})
		return []artifactVector{
			refused("no task", "claims_malformed", set("answers", []string{})), refused("another hash of its binding", "claims_malformed", set("bindingHash", otherHash)),
			refused("no hash of its binding", "claims_malformed", set("bindingHash", nil)), refused("a hash of no binding", "claims_malformed", token{a.header, unbound, a.sign}.String()),
			refused("a binding without a nonce", "binding_malformed", set("binding", b("nonce", nil))), refused("a binding with an empty nonce", "claims_not_canonical", set("binding", b("nonce", ""))),
			refused("a binding without a subject", "claims_not_canonical", set("binding", b("subject", nil))), refused("a binding with an empty subject", "binding_malformed", set("binding", b("subject", ""))),
		}
	case evidence.CapabilityKind.Typ:
		part := func(name, member string, value any) map[string]any {
			var claims map[string]map[string]any
			_ = json.Unmarshal([]byte(a.payload), &claims) // the other members are no objects
			claims[name][member] = value
			return claims[name]
		}
		return []artifactVector{
			refused("a binding without a nonce", "binding_malformed", set("binding", map[string]string{"action": "a", "contentHash": evidence.HashBytes(nil), "resource": "r", "subject": "s"})),
			refused("an empty runtime id", "claims_malformed", set("runtime", part("runtime", "runtimeId", ""))),
			refused("a policy hash that is none", "claims_malformed", set("runtime", part("runtime", "policyHash", ""))),
			refused("an empty receipt id", "claims_malformed", set("session", part("session", "receiptId", ""))),
			refused("a runtime that is null", "claims_malformed", set("runtime", json.RawMessage("null"))),
			refused("a runtime without members", "claims_not_canonical", set("runtime", map[string]any{})),
			refused("an empty grant id", "claims_not_canonical", set("grantId", "")), refused("a grant id of 2049 bytes", "claims_malformed", set("grantId", long)),
			refused("no grant id", "ok", set("grantId", nil)),
		}
	}
	return nil
}

var exp = regexp.MustCompile(`"exp":[0-9]+`)

func hexByte(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// expectationFaults are valid tokens of which something else is demanded.
func (a artifact) expectationFaults() []artifactVector {
	t := a.token()
	asked := func(name, code string, change func(*expectedJSON)) artifactVector {
		e := a.expected
		change(&e)
		return artifactVector{Name: name, Token: t, Expected: &e, Verdict: code}
	}
	other, nobody := []string{"other"}, []string{}
	out := []artifactVector{
		asked("no issuer is demanded", "expectation_missing", func(e *expectedJSON) { e.Issuers = nobody }),
		asked("no audience is demanded", "expectation_missing", func(e *expectedJSON) { e.Audiences = nobody }),
		asked("no age is demanded", "expectation_missing", func(e *expectedJSON) { e.MaxAge = 0 }),
		asked("another issuer is demanded", "issuer_not_allowed", func(e *expectedJSON) { e.Issuers = other }),
		asked("another audience is demanded", "audience_not_allowed", func(e *expectedJSON) { e.Audiences = other }),
	}
	if a.own {
		return out
	}
	name := strings.TrimSuffix(a.role.key.kid, ":v1")
	out = append(out,
		asked("no key is demanded", "expectation_missing", func(e *expectedJSON) { e.KeyIDs = nobody }),
		asked("another key is demanded", "key_not_allowed", func(e *expectedJSON) { e.KeyIDs = other }),
		asked("another version is demanded", "key_not_allowed", func(e *expectedJSON) { e.KeyIDs = []string{name + ":v2"} }),
		asked("a part of the key's name is demanded", "key_not_allowed", func(e *expectedJSON) { e.KeyIDs = []string{name[:len(name)-1]} }),
	)
	set := func(member string, value any) string {
		return token{a.header, with(a.payload, map[string]any{member: value}), a.sign}.String()
	}
	if a.root() {
		return append(out, refused("by another issuer", "issuer_not_allowed", set("iss", "other")),
			asked("a second signature is demanded, and no key is pinned for it", "second_signature_not_pinned", func(e *expectedJSON) { e.RequirePostQuantum = true }))
	}
	out = append(out, refused("by another issuer than its key's", "issuer_mismatch", set("iss", "other")),
		asked("a second signature is demanded", "second_signature_not_pinned", func(e *expectedJSON) { e.RequirePostQuantum = true }),
		asked("another custody is demanded", "key_custody", func(e *expectedJSON) { e.Custody = []string{evidence.CustodyHardwareBacked} }))
	if a.saysCustody() {
		out = append(out, refused("says another custody than the certificate", "key_custody", set("keyCustody", evidence.CustodyHardwareBacked)),
			refused("says exportable, and the certificate does not", "key_custody", set("keyExportable", true)))
	}
	return out
}

// timeFaults are valid tokens at other times, and where those begin and end.
func (a artifact) timeFaults() []artifactVector {
	t := a.token()
	when := func(name, code string, now int64, change func(*expectedJSON)) artifactVector {
		v := artifactVector{Name: name, Token: t, At: now, Verdict: code}
		if change != nil {
			e := a.expected
			change(&e)
			v.Expected = &e
		}
		return v
	}
	var times struct{ Iat, Exp int64 }
	mustDo(json.Unmarshal([]byte(a.payload), &times))
	patient := func(e *expectedJSON) { e.MaxAge = 1_000_000_000 }
	out := []artifactVector{
		when("2 s before it is issued", "ok", times.Iat-2, nil),
		when("3 s before it is issued", "not_yet_valid", times.Iat-3, nil),
		when("2 s over the age", "ok", times.Iat+min(a.expected.MaxAge, times.Exp-times.Iat-1)+2, func(e *expectedJSON) { e.MaxAge = min(e.MaxAge, times.Exp-times.Iat-1) }),
		when("3 s over the age", "too_old", times.Iat+8, func(e *expectedJSON) { e.MaxAge = 5 }),
	}
	return append(out, when("1 s after its end", "ok", times.Exp+1, patient), when("2 s after its end", "expired", times.Exp+2, patient))
}
