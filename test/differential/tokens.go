package differential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

var b64 = base64.RawURLEncoding

// shared is the purpose of tokens under the gate's own secret.
const shared = ""

func (m *maker) sign(purpose, header, payload string) string {
	if purpose != shared {
		return gatetest.Forge(m.t, m.kit.Key(m.t, purpose), header, []byte(payload))
	}
	input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(gatetest.Secret))
	mac.Write([]byte(input))
	return input + "." + b64.EncodeToString(mac.Sum(nil))
}

// parts fails for a token that an earlier change has robbed of its header or its claims in JSON.
func parts(token string) (header, payload string, signature []byte, ok bool) {
	p := strings.Split(token, ".")
	if len(p) != 3 {
		return "", "", nil, false
	}
	head, err1 := b64.DecodeString(p[0])
	body, err2 := b64.DecodeString(p[1])
	signature, err3 := b64.DecodeString(p[2])
	ok = err1 == nil && err2 == nil && err3 == nil && len(signature) > 0 && isObject(head) && isObject(body)
	return string(head), string(body), signature, ok
}

func isObject(raw []byte) bool { return json.Valid(raw) && raw[0] == '{' }

// token changes a token of a purpose in one way.
func (m *maker) token(purpose, token string) string {
	header, payload, signature, ok := parts(token)
	if !ok {
		return token
	}
	body := strings.TrimSuffix(token, b64.EncodeToString(signature))
	switch m.rnd.IntN(20) {
	case 0:
		return m.spelling(token)
	case 1:
		return body + b64.EncodeToString(m.signature(signature))
	case 2:
		return m.sign(purpose, m.header(header), payload)
	case 3:
		m.fault += " signed by another key"
		return m.sign(one(m, append(gatetest.Roles, evidence.PurposeSignerCertificate, shared)...), header, payload)
	case 4:
		m.fault += " spelled otherwise"
		return m.sign(purpose, header, m.text(payload))
	case 5:
		m.fault += " by a stranger"
		return gatetest.Forge(m.t, gatetest.StrangerKey(m.t, evidence.KeyIDOf(token)), header, []byte(payload))
	}
	return m.sign(purpose, header, m.claims(payload))
}

// claims changes one member of a JSON object, at any depth, and writes the object in canonical form.
func (m *maker) claims(payload string) string {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	check.Must(m.t, d.Decode(&object))
	m.member(object)
	raw, err := strictjson.CanonicalOf(object)
	if err != nil {
		return payload
	}
	return string(raw)
}

func (m *maker) member(object map[string]any) {
	names := slices.Sorted(maps.Keys(object))
	if len(names) == 0 || m.rnd.IntN(40) == 0 {
		name := one(m, "x", "Kind", "", "jti ", "__proto__", "constructor", "toString")
		m.fault += " added " + name
		object[name] = m.value()
		return
	}
	name := one(m, names...)
	m.fault += " " + name
	switch v := object[name].(type) {
	case map[string]any:
		if m.rnd.IntN(8) > 0 {
			m.member(v)
			return
		}
	case []any:
		if m.rnd.IntN(8) > 0 {
			object[name] = m.list(v)
			return
		}
	}
	if m.rnd.IntN(12) == 0 {
		delete(object, name)
		return
	}
	object[name] = m.other(object[name], object[one(m, names...)])
}

func (m *maker) list(v []any) []any {
	if len(v) > 0 {
		i := m.rnd.IntN(len(v))
		switch o, nested := v[i].(map[string]any); {
		case nested && m.rnd.IntN(4) > 0:
			m.member(o)
			return v
		case m.rnd.IntN(3) == 0:
			v[i] = m.other(v[i], "other")
			return v
		case m.rnd.IntN(3) == 0:
			return slices.Delete(v, i, i+1)
		case m.rnd.IntN(2) == 0:
			return append(v, v[i])
		}
	}
	return append(v, m.value())
}

// other returns a value in place of v, most often of its type. beside is another one in the same object.
func (m *maker) other(v, beside any) any {
	if m.rnd.IntN(6) == 0 {
		return m.value()
	}
	switch v := v.(type) {
	case bool:
		return !v
	case json.Number:
		n, ok := new(big.Int).SetString(string(v), 10)
		if !ok {
			return 1
		}
		by := one(m, -1, 1, 2, -2, 3, 15, 16, 17, 18, -15, -18, 60, 600, 601, -600, 1000, 86400, -86400, 1<<53)
		return json.Number(n.Add(n, big.NewInt(int64(by))).String())
	case string:
		return m.textLike(v, beside)
	}
	return m.value()
}

func (m *maker) textLike(v string, beside any) any {
	switch m.rnd.IntN(9) {
	case 0:
		return beside
	case 1:
		return strings.ToUpper(v)
	case 2:
		return v + one(m, "x", " ", "/*", ":v1", ":v2", "/1", "\u2028", "é", "\U0001F600", "\x7f", "\t")
	case 3:
		return strings.Repeat(v+"é", 1+m.rnd.IntN(2600)/(len(v)+2))
	case 4:
		if evidence.IsHash(v) {
			return evidence.HashBytes([]byte(v))
		}
		return one(m, evidence.TriggerScheduled, evidence.TriggerHumanRequest, evidence.TriggerUnknown,
			evidence.MethodManual, evidence.MethodExternalAttestation, evidence.EnforcedPod, evidence.CustodyHardwareBacked,
			"shared_secret", "deny", "interactive", evidence.InputHumanPrompt)
	case 5:
		return one(m, "github", "hooks", "worker-1", "worker-2", "posting-api", "mediator-trigger", "gate", "allow")
	case 6:
		return ""
	case 7:
		if v == "" {
			return "x"
		}
		i := m.rnd.IntN(len(v))
		return strings.ToValidUTF8(v[:i]+one(m, "0", "a", "Z", "_", "")+v[i+1:], "?")
	}
	return "other"
}

func (m *maker) value() any {
	return one[any](m, nil, true, false, 0, 1, -1, 1.5, json.Number("9007199254740991"), json.Number("1e21"), "", "x",
		strings.Repeat("0", 64), strings.Repeat("x", 2049), []any{}, []any{"x"}, []any{nil}, []any{1}, map[string]any{},
		map[string]any{"x": "y"})
}

// text changes the spelling of a JSON text, and sometimes its meaning.
func (m *maker) text(s string) string {
	at := m.rnd.IntN(len(s) + 1)
	insert := func(what string) string { return s[:at] + what + s[at:] }
	replace := func(old, with string) string { return strings.Replace(s, old, with, 1) }
	switch m.rnd.IntN(14) {
	case 0:
		return insert(one(m, " ", "\n", "\t", "\r", "\v", "\u00a0", "\ufeff", "\x00", ",", "\"", "\\", "}", "0", "\xff",
			"\xed\xa0\x80", "/**/"))
	case 1:
		return replace(`":`, one(m, `" :`, `": `, `":null,"x":`, `":[]`, `":0`, `":-0,"y":`, `":1e400,"z":`))
	case 2:
		return replace("e", one(m, `\u0065`, `\u00e9`, `\ud800`, `\ud83d\ude00`, `\udc00\ud800`, `\u0000`, `\e`,
			`\u12`, `\U0065`))
	case 3:
		return replace(`{"`, one(m, `{"action":"x","`, `{"iss":"x","`, `{"":1,"`, `{"subject":"x","subject":"y","`, `{,"`))
	case 4:
		return s + one(m, " ", "\n", "{}", "x", ",", "\x00")
	case 5:
		return one(m, "\ufeff", " ", "[", "{", "//\n") + s
	case 6:
		return s[:at]
	case 7:
		return replace("}", one(m, `,}`, `,"x":1}`, `,"x":01}`, `,"x":1.}`, `,"x":+1}`, `,"x":.5}`, `,"x":NaN}`,
			`,"x":1E+2}`, `,"x":1e2}`, `,"x":-0}`, `,"x":-0.0}`, `,"x":100000000000000000000000000000001}`,
			`,"x":"\ud83d"}`, `,"x":"\ude00\ud83d"}`, `,"\u0078":1,"x":2}`, `,"x":1e308}`, `,"x":5e-324}`, `,"x":2e-324}`,
			`,"x":9007199254740992}`, `,"x":-9007199254740991}`, `,"x":1e21}`, `,"x":true true}`, `,"x":"\/"}`,
			`,"x":"\u2028\u007f"}`, `,"X":1}`,
			`,"x":9007199254740993}`, `,"x":1e23}`, `,"x":0.1e-400}`, `,"x":0e-999}`, `,"x":tru}`))
	case 8:
		depth := one(m, 98, 99, 100, 101, 200)
		return replace("}", `,"x":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+"}")
	case 9:
		return strings.ToUpper(s[:at]) + s[at:]
	case 10:
		return replace(one(m, "true", "false", "1"), one(m, "null", "0", `"1"`, "1.0", "10e-1", "True", "01", "1e0", "-1",
			"1 ", "1e-0", "[1]"))
	case 11:
		return one(m, "", "null", "[]", "{}", "0", `""`, "true", strings.Repeat("[", 5000), strings.Repeat(`{"":`, 101))
	case 12:
		if at < len(s) {
			return s[:at] + string(rune(s[at]^byte(1<<m.rnd.IntN(7)))) + s[at+1:]
		}
	}
	return replace(`,"`, one(m, `,,"`, ` , "`, `;"`, `,'`, ``))
}

// spelling changes the text of a token.
func (m *maker) spelling(s string) string {
	m.fault += " spelling"
	at := m.rnd.IntN(len(s))
	switch m.rnd.IntN(9) {
	case 0:
		return s[:at] + s[at+1:]
	case 1:
		return s[:at] + one(m, "=", "\n", "+", "/", "A", ".", "~", " ", "é") + s[at:]
	case 2:
		return s + one(m, "=", "==", ".", "\n", "A", "~", "~x", "~"+s)
	case 3:
		return s[:at]
	case 4:
		return strings.ToLower(s)
	case 5:
		return strings.Replace(s, ".", "", 1)
	case 6: // bits that no byte holds
		parts := strings.Split(s, ".")
		i := m.rnd.IntN(len(parts))
		if p := parts[i]; p != "" {
			const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
			last := max(0, strings.IndexByte(digits, p[len(p)-1])) ^ (1 + m.rnd.IntN(15))
			parts[i] = p[:len(p)-1] + digits[last:last+1]
		}
		return strings.Join(parts, ".")
	case 7:
		return strings.Repeat("A", 16<<10-m.rnd.IntN(3)+1) + s[len(s)-1:]
	}
	return s[:at] + one(m, "A", "b", "9", "-", "_") + s[at+1:]
}

func (m *maker) header(h string) string {
	m.fault += " header"
	kid := func() string {
		of := append(gatetest.Roles, evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate)
		id := m.kit.Key(m.t, one(m, of...)).KeyID()
		return one(m, id, id, evidence.KeyName(id), evidence.KeyName(id)+":v0", evidence.KeyName(id)+":v2",
			evidence.KeyName(id)+":v01", evidence.KeyName(id)+":v99999999999", m.kit.Secret.KeyID(), "",
			strings.Repeat("k", 257))
	}
	var old struct{ Kid any } // an earlier change may have made it no text
	check.Must(m.t, json.Unmarshal([]byte(h), &old))
	switch m.rnd.IntN(4) {
	case 0:
		return m.text(h)
	case 1:
		return m.claims(h)
	case 2:
		return strings.Replace(h, "EdDSA", one(m, "none", "HS256", "Ed25519", "eddsa", "RS256", "ML-DSA-65"), 1)
	}
	return strings.Replace(h, fmt.Sprintf(`"kid":"%v"`, old.Kid), `"kid":"`+kid()+`"`, 1)
}

// signature changes a signature. Adding the group's order to S leaves it valid for careless verifiers.
func (m *maker) signature(s []byte) []byte {
	m.fault += " signature"
	s = slices.Clone(s)
	switch m.rnd.IntN(4) {
	case 0:
		if len(s) == 64 {
			const l = "7237005577332262213973186563042994240857116359379907606001950938285454250989"
			order, _ := new(big.Int).SetString(l, 10)
			half := slices.Clone(s[32:])
			slices.Reverse(half)
			if order.Add(order, new(big.Int).SetBytes(half)); order.BitLen() <= 256 {
				sum := order.FillBytes(make([]byte, 32))
				slices.Reverse(sum)
				return append(s[:32], sum...)
			}
		}
	case 1:
		return s[:m.rnd.IntN(len(s))]
	case 2:
		return append(s, 0)
	}
	s[m.rnd.IntN(len(s))] ^= 1 << m.rnd.IntN(8)
	return s
}
