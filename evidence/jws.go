package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// The algorithms on the wire. RFC 9864 renames EdDSA to Ed25519; the libraries in use today know only the old name, so it
// stands here, in one place, to be changed once they follow.
const (
	algEdDSA = "EdDSA"
	algHS256 = "HS256"
)

// Bounds on what is read before anything is believed, in bytes.
const (
	maxToken = 16 << 10
	maxList  = 256 << 10 // of a revocation list
	maxKeyID = 256
)

// header is the whole protected header. The fields are in canonical order.
type header struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	Typ string `json:"typ"`
}

// parsed is a token taken apart, with nothing believed yet.
type parsed struct {
	header    header
	payload   []byte
	signature []byte
	signed    string // header and payload as they were signed
	second    string // the second JWS of an artifact that is signed twice, not looked at yet; see parseRooted
}

func encodeHeader(h header) (raw []byte, err error) {
	if h.Kid == "" || len(h.Kid) > maxKeyID {
		return nil, Refuse("jws_malformed", "the key id is missing or longer than %d bytes", maxKeyID)
	}
	err = canonical(&h, func(head []byte) { raw = bytes.Clone(head) })
	return raw, err
}

// signingInput is what is signed of an artifact (RFC 7515 section 5.1). claims points to its claims.
func signingInput(h header, claims any) (input []byte, err error) {
	head, err := encodeHeader(h)
	if err != nil {
		return nil, err
	}
	err = canonical(claims, func(payload []byte) {
		input = make([]byte, 0, base64url.EncodedLen(len(head))+1+base64url.EncodedLen(len(payload)))
		input = append(base64url.AppendEncode(input, head), '.')
		input = base64url.AppendEncode(input, payload)
	})
	return input, err
}

// signed returns the compact JWS of what was signed and its signature.
func signed(input, signature []byte) string {
	return string(input) + "." + base64url.EncodeToString(signature)
}

// parse takes a compact JWS apart and demands that its header is exactly the one that this package writes for the given
// algorithm and typ, whatever its kid. It reads at most limit bytes.
func parse(token, alg, typ string, limit int) (parsed, error) {
	var p parsed
	if token == "" {
		return p, Refuse("artifact_missing", "the %s is missing", typ)
	}
	if len(token) > limit {
		return p, errTooLarge(token, typ, limit)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return p, Refuse("jws_malformed", "the %s is not a compact JWS: it has %d parts instead of 3", typ, len(parts))
	}
	var decoded [3][]byte
	for i, part := range parts {
		b, err := decodeStrict(part)
		if err != nil {
			return p, Refuse("jws_malformed", "part %d of the %s is not canonical base64url", i+1, typ)
		}
		decoded[i] = b
	}
	h, err := parseHeader(decoded[0], alg, typ)
	if err != nil {
		return p, err
	}
	return parsed{header: h, payload: decoded[1], signature: decoded[2], signed: token[:len(parts[0])+1+len(parts[1])]}, nil
}

func errTooLarge(token, typ string, limit int) error {
	return Refuse("artifact_too_large", "the %s has %d bytes; at most %d are read", typ, len(token), limit)
}

var (
	base64url       = base64.RawURLEncoding.Strict()
	errNotCanonical = errors.New("not canonical base64url")
)

// decodeStrict refuses padding, line breaks and stray bits in the last character, all of which would give one signature
// several spellings.
func decodeStrict(s string) ([]byte, error) {
	b, err := base64url.DecodeString(s)
	if err != nil || strings.Contains(s, "\r") || strings.Contains(s, "\n") { // which it skips
		return nil, errNotCanonical
	}
	return b, nil
}

func parseHeader(raw []byte, alg, typ string) (header, error) {
	if h, ok := plainHeader(string(raw), alg, typ); ok {
		return h, nil
	}
	var h header
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, Refuse("jws_malformed", "the header of the %s is not a JSON object of text members", typ)
	}
	if h.Alg != alg {
		return h, Refuse("jws_algorithm", "the %s names algorithm %.20q; only %s is accepted", typ, h.Alg, alg)
	}
	if h.Typ != typ {
		return h, Refuse("jws_type", "a token of type %.60q was given where a %s is needed", h.Typ, typ)
	}
	want, err := encodeHeader(h)
	if err != nil {
		return h, err
	}
	if string(want) != string(raw) {
		// crit, jwk, jku, x5c, b64, a duplicate member, another order: all of them are members or spellings that we never write.
		return h, Refuse("jws_header", "the header of the %s has something besides alg, kid and typ, or is not in canonical form", typ)
	}
	return h, nil
}

// plainHeader reads a header that is exactly the one wanted around a kid that JSON writes as it is. Of any other, parseHeader says what is
// wrong, if anything is.
func plainHeader(raw, alg, typ string) (header, bool) {
	rest, ok := strings.CutPrefix(raw, `{"alg":"`+alg+`","kid":"`)
	kid, okay := strings.CutSuffix(rest, `","typ":"`+typ+`"}`)
	if !ok || !okay || kid == "" || len(kid) > maxKeyID {
		return header{}, false
	}
	for _, c := range []byte(kid) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return header{}, false
		}
	}
	return header{Alg: alg, Kid: kid, Typ: typ}, true
}
