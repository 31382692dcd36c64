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

func malformed(name, token string) artifactVector { return refused(name, "artifact_malformed", token) }

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
		malformed("two parts", parts[0]+"."+parts[1]),
		malformed("four parts", t+"."),
		malformed("padded", t+"=="),
		malformed("a line break", t[:len(t)-4]+"\n"+t[len(t)-4:]),
		malformed("stray bits", t[:len(t)-1]+string(b64url[last|1])),
		malformed("the alphabet of plain base64",
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
		malformed("alg none", header(alg, `"alg":"none"`)),
		malformed("alg none and no signature",
			token{strings.Replace(a.header, alg, `"alg":"none"`, 1), a.payload, func(string) []byte {
				return nil
			}}.String()),
		malformed("alg in another case", header(alg, strings.ToLower(alg))),
		malformed("no alg", header(alg+",", "")),
		malformed("another typ", header(a.typ, "JWT")),
		malformed("no typ", header(`,"typ":"`+a.typ+`"`, "")),
		malformed("an unknown crit", header(alg, alg+`,"crit":["exp"]`)),
		malformed("an empty crit", header(alg, alg+`,"crit":[]`)),
		malformed("an embedded jwk",
			header(alg, alg+`,"jwk":{"crv":"Ed25519","kty":"OKP","x":"`+evidence.EncodePublicKey(newKey("stranger:v1").public())+
				`"}`)),
		malformed("b64", header(alg, alg+`,"b64":false`)),
		malformed("alg twice", header(alg, `"alg":"none",`+alg)),
		malformed("alg twice, of which the last is none", header(alg, alg+`,"alg":"none"`)),
		malformed("alg in capitals", header(`"alg"`, `"ALG"`)),
		malformed("alg in capitals too", header(alg, alg+`,"ALG":"none"`)),
		malformed("alg is null", header(alg, `"alg":null`)),
		malformed("kid twice, which was no text at first", header(`"kid"`, `"kid":1,"kid"`)),
		malformed("half a surrogate pair in the kid", header(kid, `\ud800`)),
		malformed("typ as a media type", header(a.typ, "application/"+a.typ)),
		malformed("a member with a number beyond all bounds", header(alg, alg+`,"b":1e999`)),
		malformed("a header that is null", token{"null", a.payload, a.sign}.String()),
		malformed("two headers", token{a.header + a.header, a.payload, a.sign}.String()),
		malformed("a space in the header", header(`","`, `", "`)),
		malformed("another order in the header",
			token{`{"typ":"` + a.typ + `",` + alg + `,"kid":"` + kid + `"}`, a.payload, a.sign}.String()),
		malformed("a header that is no object", token{`[]`, a.payload, a.sign}.String()),
		malformed("a kid that is no text", header(`"`+kid+`"`, "1")),
		malformed("an empty kid", header(kid, "")),
		malformed("a kid of 257 bytes", header(kid, long)),
	}
	if !a.own {
		public := a.role.key.public()
		out = append(out,
			malformed("HS256 with the public key as secret",
				token{strings.Replace(a.header, "EdDSA", "HS256", 1), a.payload, macSigner(public)}.String()),
			malformed("alg Ed25519", header(alg, `"alg":"Ed25519"`)))
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
	written := func(old, new string) string { return raw(strings.Replace(a.payload, old, new, 1)) }
	text, issued := `"iss":"`+a.role.issuer+`"`, `"iat":`+strconv.Itoa(at)
	out := []artifactVector{
		malformed("an unknown claim", set("admin", true)),
		malformed("a claim of another type", set(a.text, 1)),
		malformed("an integer as text", set("iat", "1795176000")),
		malformed("an empty text", set(a.text, "")),
		malformed("a text of 2049 bytes", set(a.text, strings.Repeat("x", 2049))),
		malformed("claims that are no object", raw("[]")),
		malformed("no issuer", set("iss", "")),
		malformed("a jti of 257 bytes", set("jti", strings.Repeat("j", 257))),
		malformed("a claim is missing", set(a.text, nil)),
		malformed("iat is missing", set("iat", nil)),
		malformed("a claim twice", written(text, text+","+text)),
		malformed("another order", raw(strings.TrimSuffix(strings.Replace(a.payload, text+",", "", 1), "}")+","+text+"}")),
		malformed("a space", raw(a.payload+" ")),
		malformed("an escape of equal value", written(text, `"iss":"\u00`+hexByte(a.role.issuer[0])+a.role.issuer[1:]+`"`)),
		malformed("not UTF-8", written(text, `"iss":"`+a.role.issuer+"\xff\"")),
		malformed("a claim that is null", set(a.text, json.RawMessage("null"))),
		malformed("a claim in another case", written(`"iss":`, `"Iss":`)),
		malformed("a claim in another case too", set("ISS", a.role.issuer)),
		malformed("an unknown claim of a name that JavaScript knows", set("toString", "x")),
		malformed("a claim twice, which was no text at first", written(text, `"iss":1,`+text)),
		malformed("a claim twice, which is no text at last", written(text, text+`,"iss":1`)),
		malformed("half a surrogate pair", written(text, `"iss":"\ud800"`)),
		malformed("a line separator, escaped", written(text, `"iss":"\u2028"`)),
		refused("a line separator, as it is", "ok", set("jti", "\u2028")),
		malformed("a fraction of nothing", written(issued, issued+".0")),
		malformed("a fraction", written(issued, issued+".5")),
		malformed("an exponent", written(issued, `"iat":1.795176e9`)),
		malformed("exp is 2^53 - 1", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740991`))),
		malformed("exp is 2^53", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740992`))),
		malformed("exp is 2^53 + 1", raw(exp.ReplaceAllString(a.payload, `"exp":9007199254740993`))),
		malformed("expires when it is issued", set("exp", at)),
		malformed("issued at 0", set("iat", 0)),
		malformed("a lifetime over the bound", set("exp", at+a.lifetime+1)),
	}
	if a.hash != "" {
		out = append(out, malformed("a hash in capitals", set(a.hash, strings.Repeat("A", 64))),
			malformed("a hash of 63 characters", set(a.hash, strings.Repeat("a", 63))))
	}
	return out
}

func (a artifact) ownFaults() []artifactVector {
	set := func(name string, value any) string {
		return token{a.header, with(a.payload, map[string]any{name: value}), a.sign}.String()
	}
	long := strings.Repeat("x", 2049)
	observed := []artifactVector{
		malformed("nothing observed, and said so", set("observed", []string{})),
		malformed("an empty text observed", set("observed", []string{"keyExportable", ""})),
		malformed("a text of 2049 bytes observed", set("observed", []string{long})),
		malformed("observed, no list", set("observed", "keyExportable")),
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
		return append(observed, malformed("a trigger without an id", set("trigger", trigger("id", nil))),
			malformed("a trigger with an empty source", set("trigger", trigger("source", ""))),
			malformed("an unknown member of the trigger", set("trigger", trigger("human", false))),
			malformed("a trigger that is no object", set("trigger", []string{"evt_1"})))
	case evidence.ActionGrantKind().Typ:
		return []artifactVector{
			malformed("an empty scope", set("actions", []string{})),
			malformed("an empty text in a scope", set("resources", []string{"POST /posts", ""})),
			malformed("a text of 2049 bytes in a scope", set("resources", []string{long})),
			malformed("null in a scope", set("actions", []any{nil})),
			malformed("a text in place of a scope", set("actions", "create_post")),
			refused("a scope of two", "ok", set("actions", []string{"create_post", "delete_post"})),
		}
	case evidence.SignerCertificateKind().Typ:
		return append(observed,
			malformed("two purposes", set("purposes", []string{"request_proof", "action_grant"})),
			malformed("no purpose", set("purposes", []string{})),
			malformed("an empty purpose", set("purposes", []string{""})),
			malformed("for a shared secret", set("subjectKeyId", "mac:abc")))
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
			malformed("no task", set("answers", []string{})),
			malformed("another hash of its binding", set("bindingHash", otherHash)),
			malformed("no hash of its binding", set("bindingHash", nil)),
			malformed("a hash of no binding", token{a.header, unbound, a.sign}.String()),
			malformed("a binding without a nonce", set("binding", b("nonce", nil))),
			malformed("a binding with an empty nonce", set("binding", b("nonce", ""))),
			malformed("a binding without a subject", set("binding", b("subject", nil))),
			malformed("a binding with an empty subject", set("binding", b("subject", ""))),
		}
	case evidence.CapabilityKind().Typ:
		part := func(name, member string, value any) map[string]any {
			var claims map[string]map[string]any
			_ = json.Unmarshal([]byte(a.payload), &claims)
			claims[name][member] = value
			return claims[name]
		}
		return []artifactVector{
			malformed("a binding without a nonce", set("binding",
				map[string]string{"action": "a", "contentHash": evidence.HashBytes(nil), "resource": "r", "subject": "s"})),
			malformed("an empty runtime id", set("runtime", part("runtime", "runtimeId", ""))),
			malformed("a policy hash that is none", set("runtime", part("runtime", "policyHash", ""))),
			malformed("an empty receipt id", set("session", part("session", "receiptId", ""))),
			malformed("a runtime that is null", set("runtime", json.RawMessage("null"))),
			malformed("a runtime without members", set("runtime", map[string]any{})),
			malformed("an empty grant id", set("grantId", "")),
			malformed("a grant id of 2049 bytes", set("grantId", long)),
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
