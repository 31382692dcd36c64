package vectors_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

func refused(name, code, token string) artifactVector {
	return artifactVector{Name: name, Token: token, Verdict: code}
}

func (a artifact) valid() []artifactVector {
	t := a.token()
	whole := a.expected
	whole.KeyIDs = []string{evidence.KeyIDOf(t)}
	return []artifactVector{
		{Name: "valid", Token: t, Verdict: "ok", Claims: json.RawMessage(a.payload)},
		{Name: "its whole key id named", Token: t, Expected: &whole, Verdict: "ok"},
	}
}

func (a artifact) formFaults() []artifactVector {
	t := a.token()
	parts := strings.Split(t, ".")
	last := strings.IndexByte(b64url, t[len(t)-1])
	return []artifactVector{
		refused("nothing", "artifact_missing", ""),
		refused("two parts", "artifact_malformed", parts[0]+"."+parts[1]),
		refused("four parts", "artifact_malformed", t+"."),
		refused("padded", "artifact_malformed", t+"=="),
		refused("a line break", "artifact_malformed", t[:len(t)-4]+"\n"+t[len(t)-4:]),
		refused("stray bits", "artifact_malformed", t[:len(t)-1]+string(b64url[last|1])),
		refused("the alphabet of plain base64", "artifact_malformed",
			parts[0]+"."+parts[1]+"."+strings.NewReplacer("-", "+", "_", "/").Replace(parts[2])+"/"),
		refused("no signature", "signature_invalid", parts[0]+"."+parts[1]+"."),
		refused("an altered signature", "signature_invalid", parts[0]+"."+parts[1]+"."+b64.EncodeToString(flip(parts[2]))),
		refused("another payload under the signature", "signature_invalid",
			parts[0]+"."+b64.EncodeToString([]byte(with(a.payload, map[string]any{"jti": "another"})))+"."+parts[2]),
	}
}

func flip(part string) []byte {
	raw := must(b64.DecodeString(part))
	raw[0] ^= 1
	return raw
}

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
		refused("alg none", "artifact_malformed", header(alg, `"alg":"none"`)),
		refused("alg none and no signature", "artifact_malformed",
			token{strings.Replace(a.header, alg, `"alg":"none"`, 1), a.payload, func(string) []byte {
				return nil
			}}.String()),
		refused("alg in another case", "artifact_malformed", header(alg, strings.ToLower(alg))),
		refused("no alg", "artifact_malformed", header(alg+",", "")),
		refused("another typ", "artifact_malformed", header(a.typ, "JWT")),
		refused("no typ", "artifact_malformed", header(`,"typ":"`+a.typ+`"`, "")),
		refused("an unknown crit", "artifact_malformed", header(alg, alg+`,"crit":["exp"]`)),
		refused("an empty crit", "artifact_malformed", header(alg, alg+`,"crit":[]`)),
		refused("an embedded jwk", "artifact_malformed",
			header(alg, alg+`,"jwk":{"crv":"Ed25519","kty":"OKP","x":"`+evidence.EncodePublicKey(newKey("stranger:v1").public())+
				`"}`)),
		refused("b64", "artifact_malformed", header(alg, alg+`,"b64":false`)),
		refused("alg twice", "artifact_malformed", header(alg, `"alg":"none",`+alg)),
		refused("alg twice, of which the last is none", "artifact_malformed", header(alg, alg+`,"alg":"none"`)),
		refused("alg in capitals", "artifact_malformed", header(`"alg"`, `"ALG"`)),
		refused("alg in capitals too", "artifact_malformed", header(alg, alg+`,"ALG":"none"`)),
		refused("alg is null", "artifact_malformed", header(alg, `"alg":null`)),
		refused("kid twice, which was no text at first", "artifact_malformed", header(`"kid"`, `"kid":1,"kid"`)),
		refused("half a surrogate pair in the kid", "artifact_malformed", header(kid, `\ud800`)),
		refused("typ as a media type", "artifact_malformed", header(a.typ, "application/"+a.typ)),
		refused("a member with a number beyond all bounds", "artifact_malformed", header(alg, alg+`,"b":1e999`)),
		refused("a header that is null", "artifact_malformed", token{"null", a.payload, a.sign}.String()),
		refused("two headers", "artifact_malformed", token{a.header + a.header, a.payload, a.sign}.String()),
		refused("a space in the header", "artifact_malformed", header(`","`, `", "`)),
		refused("another order in the header", "artifact_malformed",
			token{`{"typ":"` + a.typ + `",` + alg + `,"kid":"` + kid + `"}`, a.payload, a.sign}.String()),
		refused("a header that is no object", "artifact_malformed", token{`[]`, a.payload, a.sign}.String()),
		refused("a kid that is no text", "artifact_malformed", header(`"`+kid+`"`, "1")),
		refused("an empty kid", "artifact_malformed", header(kid, "")),
		refused("a kid of 257 bytes", "artifact_malformed", header(kid, long)),
	}
	if !a.own {
		public := a.role.key.public()
		out = append(out,
			refused("HS256 with the public key as secret", "artifact_malformed",
				token{strings.Replace(a.header, "EdDSA", "HS256", 1), a.payload, macSigner(public)}.String()),
			refused("alg Ed25519", "artifact_malformed", header(alg, `"alg":"Ed25519"`)))
	}
	return out
}

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
			refused("another gate's", "signature_invalid",
				token{strings.Replace(a.header, own, s.KeyID(), 1), a.payload, macSigner(other)}.String()),
			refused("another kid for the secret", "not_allowed",
				token{strings.Replace(a.header, own, "mac:other", 1), a.payload, a.sign}.String()),
		}
	}
	out := []artifactVector{
		refused("by an unknown key", "key_unknown", by("stranger:v1", newKey("stranger:v1"))),
		refused("by another version of the key", "key_unknown",
			by(strings.Replace(a.role.key.kid, ":v1", ":v2", 1), a.role.key)),
		refused("a kid that is a path", "key_unknown", by("../"+a.role.key.kid, a.role.key)),
		refused("by an unknown key under the kid", "signature_invalid", by(a.role.key.kid, newKey("stranger:v1"))),
	}
	for _, r := range []string{evidence.PurposeRuntimeAttestation, evidence.PurposeRequestProof,
		evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
		if r != a.purpose {
			out = append(out, refused("by the key for "+r, "key_purpose", by(d.roles[r].key.kid, d.roles[r].key)))
		}
	}
	return out
}

func (a artifact) claimFaults() []artifactVector {
	raw := func(payload string) string { return token{a.header, payload, a.sign}.String() }
	set := func(name string, value any) string { return raw(with(a.payload, map[string]any{name: value})) }
	text := `"iss":"` + a.role.issuer + `"`
	out := []artifactVector{
		refused("an unknown claim", "artifact_malformed", set("admin", true)),
		refused("a claim of another type", "artifact_malformed", set(a.text, 1)),
		refused("an integer as text", "artifact_malformed", set("iat", "1795176000")),
		refused("an empty text", "artifact_malformed", set(a.text, "")),
		refused("a text of 2049 bytes", "artifact_malformed", set(a.text, strings.Repeat("x", 2049))),
		refused("claims that are no object", "artifact_malformed", raw("[]")),
		refused("no issuer", "artifact_malformed", set("iss", "")),
		refused("a jti of 257 bytes", "artifact_malformed", set("jti", strings.Repeat("j", 257))),
		refused("a claim is missing", "artifact_malformed", set(a.text, nil)),
		refused("iat is missing", "artifact_malformed", set("iat", nil)),
		refused("a claim twice", "artifact_malformed", raw(strings.Replace(a.payload, text, text+","+text, 1))),
		refused("another order", "artifact_malformed",
			raw(strings.TrimSuffix(strings.Replace(a.payload, text+",", "", 1), "}")+","+text+"}")),
		refused("a space", "artifact_malformed", raw(a.payload+" ")),
		refused("an escape of equal value", "artifact_malformed",
			raw(strings.Replace(a.payload, text, `"iss":"\u00`+hexByte(a.role.issuer[0])+a.role.issuer[1:]+`"`, 1))),
		refused("not UTF-8", "artifact_malformed",
			raw(strings.Replace(a.payload, text, `"iss":"`+a.role.issuer+"\xff\"", 1))),
		refused("a claim that is null", "artifact_malformed", set(a.text, json.RawMessage("null"))),
		refused("a claim in another case", "artifact_malformed", raw(strings.Replace(a.payload, `"iss":`, `"Iss":`, 1))),
		refused("a claim in another case too", "artifact_malformed", set("ISS", a.role.issuer)),
		refused("an unknown claim of a name that JavaScript knows", "artifact_malformed", set("toString", "x")),
		refused("a claim twice, which was no text at first", "artifact_malformed",
			raw(strings.Replace(a.payload, text, `"iss":1,`+text, 1))),
		refused("a claim twice, which is no text at last", "artifact_malformed",
			raw(strings.Replace(a.payload, text, text+`,"iss":1`, 1))),
		refused("half a surrogate pair", "artifact_malformed", raw(strings.Replace(a.payload, text, `"iss":"\ud800"`, 1))),
		refused("a line separator, escaped", "artifact_malformed",
			raw(strings.Replace(a.payload, text, `"iss":"\u2028"`, 1))),
		refused("a line separator, as it is", "ok", set("jti", "\u2028")),
		refused("a fraction of nothing", "artifact_malformed",
			raw(strings.Replace(a.payload, `"iat":`+strconv.Itoa(at), `"iat":`+strconv.Itoa(at)+".0", 1))),
		refused("a fraction", "artifact_malformed",
			raw(strings.Replace(a.payload, `"iat":`+strconv.Itoa(at), `"iat":`+strconv.Itoa(at)+".5", 1))),
		refused("an exponent", "artifact_malformed",
			raw(strings.Replace(a.payload, `"iat":`+strconv.Itoa(at), `"iat":1.795176e9`, 1))),
		refused("exp is 2^53 - 1", "artifact_malformed", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740991`))),
		refused("exp is 2^53", "artifact_malformed", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740992`))),
		refused("exp is 2^53 + 1", "artifact_malformed", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740993`))),
		refused("expires when it is issued", "artifact_malformed", set("exp", at)),
		refused("issued at 0", "artifact_malformed", set("iat", 0)),
		refused("a lifetime over the bound", "artifact_malformed", set("exp", at+a.lifetime+1)),
	}
	if a.hash != "" {
		out = append(out, refused("a hash in capitals", "artifact_malformed", set(a.hash, strings.Repeat("A", 64))),
			refused("a hash of 63 characters", "artifact_malformed", set(a.hash, strings.Repeat("a", 63))))
	}
	return out
}

func (a artifact) ownFaults() []artifactVector {
	set := func(name string, value any) string {
		return token{a.header, with(a.payload, map[string]any{name: value}), a.sign}.String()
	}
	long := strings.Repeat("x", 2049)
	observed := []artifactVector{
		refused("nothing observed, and said so", "artifact_malformed", set("observed", []string{})),
		refused("an empty text observed", "artifact_malformed", set("observed", []string{"keyExportable", ""})),
		refused("a text of 2049 bytes observed", "artifact_malformed", set("observed", []string{long})),
		refused("observed, no list", "artifact_malformed", set("observed", "keyExportable")),
		refused("nothing observed", "ok", set("observed", nil)),
	}
	switch a.typ {
	case evidence.SessionReceiptKind().Typ:
		return observed
	case evidence.RuntimeAttestationKind().Typ:
		trigger := func(member string, value any) map[string]any {
			t := map[string]any{"id": "evt_1", "kind": "source_event", "source": "github"}
			if t[member] = value; value == nil {
				delete(t, member)
			}
			return t
		}
		return append(observed, refused("a trigger without an id", "artifact_malformed", set("trigger", trigger("id", nil))),
			refused("a trigger with an empty source", "artifact_malformed", set("trigger", trigger("source", ""))),
			refused("an unknown member of the trigger", "artifact_malformed", set("trigger", trigger("human", false))),
			refused("a trigger that is no object", "artifact_malformed", set("trigger", []string{"evt_1"})))
	case evidence.ActionGrantKind().Typ:
		return []artifactVector{
			refused("an empty scope", "artifact_malformed", set("actions", []string{})),
			refused("an empty text in a scope", "artifact_malformed", set("resources", []string{"POST /posts", ""})),
			refused("a text of 2049 bytes in a scope", "artifact_malformed", set("resources", []string{long})),
			refused("null in a scope", "artifact_malformed", set("actions", []any{nil})),
			refused("a text in place of a scope", "artifact_malformed", set("actions", "create_post")),
			refused("a scope of two", "ok", set("actions", []string{"create_post", "delete_post"})),
		}
	case evidence.SignerCertificateKind().Typ:
		return append(observed,
			refused("two purposes", "artifact_malformed", set("purposes", []string{"request_proof", "action_grant"})),
			refused("no purpose", "artifact_malformed", set("purposes", []string{})),
			refused("an empty purpose", "artifact_malformed", set("purposes", []string{""})),
			refused("for a shared secret", "artifact_malformed", set("subjectKeyId", "mac:abc")))
	case evidence.ChallengeTokenKind().Typ:
		b := func(member string, value any) map[string]any {
			b := map[string]any{"action": "a", "contentHash": evidence.HashBytes(nil), "nonce": "n", "resource": "r",
				"subject": "s"}
			if b[member] = value; value == nil {
				delete(b, member)
			}
			return b
		}
		unbound := with(a.payload, map[string]any{"binding": nil})
		return []artifactVector{
			refused("no task", "artifact_malformed", set("answers", []string{})),
			refused("another hash of its binding", "artifact_malformed", set("bindingHash", otherHash)),
			refused("no hash of its binding", "artifact_malformed", set("bindingHash", nil)),
			refused("a hash of no binding", "artifact_malformed", token{a.header, unbound, a.sign}.String()),
			refused("a binding without a nonce", "artifact_malformed", set("binding", b("nonce", nil))),
			refused("a binding with an empty nonce", "artifact_malformed", set("binding", b("nonce", ""))),
			refused("a binding without a subject", "artifact_malformed", set("binding", b("subject", nil))),
			refused("a binding with an empty subject", "artifact_malformed", set("binding", b("subject", ""))),
		}
	case evidence.CapabilityKind().Typ:
		part := func(name, member string, value any) map[string]any {
			var claims map[string]map[string]any
			_ = json.Unmarshal([]byte(a.payload), &claims)
			claims[name][member] = value
			return claims[name]
		}
		return []artifactVector{
			refused("a binding without a nonce", "artifact_malformed",
				set("binding",
					map[string]string{"action": "a", "contentHash": evidence.HashBytes(nil), "resource": "r", "subject": "s"})),
			refused("an empty runtime id", "artifact_malformed", set("runtime", part("runtime", "runtimeId", ""))),
			refused("a policy hash that is none", "artifact_malformed", set("runtime", part("runtime", "policyHash", ""))),
			refused("an empty receipt id", "artifact_malformed", set("session", part("session", "receiptId", ""))),
			refused("a runtime that is null", "artifact_malformed", set("runtime", json.RawMessage("null"))),
			refused("a runtime without members", "artifact_malformed", set("runtime", map[string]any{})),
			refused("an empty grant id", "artifact_malformed", set("grantId", "")),
			refused("a grant id of 2049 bytes", "artifact_malformed", set("grantId", long)),
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

func (a artifact) expectationFaults() []artifactVector {
	t := a.token()
	asked := func(name, code string, change func(*expectedJSON)) artifactVector {
		e := a.expected
		change(&e)
		return artifactVector{Name: name, Token: t, Expected: &e, Verdict: code}
	}
	other, nobody := []string{"other"}, []string{}
	out := []artifactVector{
		asked("no issuer is demanded", "not_allowed", func(e *expectedJSON) { e.Issuers = nobody }),
		asked("no audience is demanded", "not_allowed", func(e *expectedJSON) { e.Audiences = nobody }),
		asked("no age is demanded", "not_allowed", func(e *expectedJSON) { e.MaxAge = 0 }),
		asked("another issuer is demanded", "not_allowed", func(e *expectedJSON) { e.Issuers = other }),
		asked("another audience is demanded", "not_allowed", func(e *expectedJSON) { e.Audiences = other }),
	}
	if a.own {
		return out
	}
	name := strings.TrimSuffix(a.role.key.kid, ":v1")
	out = append(out,
		asked("no key is demanded", "not_allowed", func(e *expectedJSON) { e.KeyIDs = nobody }),
		asked("another key is demanded", "not_allowed", func(e *expectedJSON) { e.KeyIDs = other }),
		asked("another version is demanded", "not_allowed", func(e *expectedJSON) { e.KeyIDs = []string{name + ":v2"} }),
		asked("a part of the key's name is demanded", "not_allowed", func(e *expectedJSON) {
			e.KeyIDs = []string{name[:len(name)-1]}
		}),
	)
	set := func(member string, value any) string {
		return token{a.header, with(a.payload, map[string]any{member: value}), a.sign}.String()
	}
	if a.root() {
		return append(out, refused("by another issuer", "not_allowed", set("iss", "other")),
			asked("a second signature is demanded, and no key is pinned for it", "roots_not_pinned", func(e *expectedJSON) {
				e.RequirePostQuantum = true
			}))
	}
	out = append(out, refused("by another issuer than its key's", "key_purpose", set("iss", "other")),
		asked("a second signature is demanded", "roots_not_pinned", func(e *expectedJSON) { e.RequirePostQuantum = true }),
		asked("another custody is demanded", "key_custody", func(e *expectedJSON) {
			e.Custody = []string{evidence.CustodyHardwareBacked}
		}))
	if a.saysCustody() {
		out = append(out,
			refused("says another custody than the certificate", "key_custody",
				set("keyCustody", evidence.CustodyHardwareBacked)),
			refused("says exportable, and the certificate does not", "key_custody", set("keyExportable", true)))
	}
	return out
}

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
		when("3 s before it is issued", "clock_skew", times.Iat-3, nil),
		when("2 s over the age", "ok", times.Iat+min(a.expected.MaxAge, times.Exp-times.Iat-1)+2, func(e *expectedJSON) {
			e.MaxAge = min(e.MaxAge, times.Exp-times.Iat-1)
		}),
		when("3 s over the age", "expired", times.Iat+8, func(e *expectedJSON) { e.MaxAge = 5 }),
	}
	return append(out, when("1 s after its end", "ok", times.Exp+1, patient),
		when("2 s after its end", "expired", times.Exp+2, patient))
}
