package evidence

import (
	"encoding/base64"
	"errors"
	"reflect"
	"strings"

	"github.com/actionproof/mediator/evidence/internal/codec"
	"github.com/actionproof/mediator/internal/refusal"
)

// The algorithms on the wire. RFC 9864 renames EdDSA to Ed25519; follow it once libraries do.
const (
	algEdDSA = "EdDSA"
	algHS256 = "HS256"
)

// Bounds on unverified input, in bytes.
const (
	maxToken = 16 << 10
	maxKeyID = 256
)

type header struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	Typ string `json:"typ"`
}

var headerCodec = codec.New(reflect.TypeFor[header]())

// parsed holds the parts of a token. Nothing in it is verified.
type parsed struct {
	header    header
	payload   []byte
	signature []byte
	signed    string // header and payload as signed
	second    string // of an artifact with two: see parseRooted
}

func encodeHeader(h header) ([]byte, error) {
	if err := checkKeyID(h.Kid); err != nil {
		return nil, err
	}
	return headerCodec.Encode(&h, 128)
}

func checkKeyID(kid string) error {
	if kid == "" || len(kid) > maxKeyID {
		return refusal.New("artifact_malformed", "the key id is missing or longer than %d bytes", maxKeyID)
	}
	return nil
}

// signingInput follows RFC 7515 section 5.1.
func signingInput(head, payload []byte) []byte {
	b := make([]byte, 0, base64url.EncodedLen(len(head))+1+base64url.EncodedLen(len(payload)))
	b = append(base64url.AppendEncode(b, head), '.')
	return base64url.AppendEncode(b, payload)
}

func signed(input, signature []byte) string {
	var room [128]byte // more than an Ed25519 signature needs
	return string(input) + "." + string(base64url.AppendEncode(room[:0], signature))
}

// parse splits a compact JWS of at most limit bytes. Its header must be exactly as this package writes it for alg and
// typ.
func parse(token, alg, typ string, limit int) (parsed, error) {
	var p parsed
	if token == "" {
		return p, refusal.New("artifact_missing", "the %s is missing", typ)
	}
	if len(token) > limit {
		return p, errTooLarge(token, typ, limit)
	}
	if dots := strings.Count(token, "."); dots != 2 {
		return p, refusal.New("artifact_malformed", "the %s is not a compact JWS: it has %d parts instead of 3", typ,
			dots+1)
	}
	first, rest, _ := strings.Cut(token, ".")
	second, third, _ := strings.Cut(rest, ".")
	head, err1 := decodeStrict(first)
	payload, err2 := decodeStrict(second)
	signature, err3 := decodeStrict(third)
	for i, err := range [...]error{err1, err2, err3} {
		if err != nil {
			return p, refusal.New("artifact_malformed", "part %d of the %s is not canonical base64url", i+1, typ)
		}
	}
	h, err := parseHeader(head, alg, typ)
	if err != nil {
		return p, err
	}
	return parsed{header: h, payload: payload, signature: signature, signed: token[:len(first)+1+len(second)]}, nil
}

func errTooLarge(token, typ string, limit int) error {
	return refusal.New("artifact_malformed", "the %s has %d bytes; at most %d are read", typ, len(token), limit)
}

var (
	base64url       = base64.RawURLEncoding.Strict()
	errNotCanonical = errors.New("not canonical base64url")
)

// decodeStrict refuses padding, line breaks and stray bits, which would give one signature several spellings.
func decodeStrict(s string) ([]byte, error) {
	b, err := base64url.DecodeString(s)
	if err != nil || strings.Contains(s, "\r") || strings.Contains(s, "\n") { // DecodeString skips them
		return nil, errNotCanonical
	}
	return b, nil
}

func parseHeader(raw []byte, alg, typ string) (header, error) {
	var h header
	if headerCodec.Decode(raw, &h) != nil {
		// crit, jwk, jku, x5c, b64, a duplicate member, another order: members or spellings that we never write.
		return h, refusal.New("artifact_malformed",
			"the header of the %s must be canonical JSON with alg, kid and typ only", typ)
	}
	if h.Alg != alg {
		return h, refusal.New("artifact_malformed", "the %s names algorithm %.20q; only %s is accepted", typ, h.Alg,
			alg)
	}
	if h.Typ != typ {
		return h, refusal.New("artifact_malformed", "a token of type %.60q was given where a %s is needed", h.Typ, typ)
	}
	return h, checkKeyID(h.Kid)
}
