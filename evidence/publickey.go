package evidence

import (
	"bytes"
	stded25519 "crypto/ed25519"
	"encoding/base64"
	"encoding/json"

	"github.com/cloudflare/circl/sign/ed25519"
	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/internal/refusal"
)

// smallOrder holds the canonical y coordinates (sign bit cleared) of the points of order 1, 2, 4 and 8. With such a
// key, one signature fits every message.
var smallOrder = [][]byte{
	{0}, // y = 0, order 4
	{1}, // y = 1, the identity
	append(append([]byte{0xec}, bytes.Repeat([]byte{0xff}, 30)...), 0x7f), // y = -1, order 2
	{0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53,
		0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
	{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac,
		0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
}

// NewPublicKey copies an Ed25519 public key. It refuses points of small order, and unreduced y coordinates, on which
// implementations disagree.
func NewPublicKey(b []byte) (ed25519.PublicKey, error) {
	if len(b) != ed25519.PublicKeySize {
		return nil, refusal.New("trust_malformed", "an Ed25519 public key must have %d bytes, but this one has %d",
			ed25519.PublicKeySize, len(b))
	}
	y := bytes.Clone(b)
	y[31] &= 0x7f
	if !reduced(y) {
		return nil, refusal.New("trust_malformed", "the Ed25519 public key is not in its canonical encoding")
	}
	for _, s := range smallOrder {
		if bytes.Equal(y, append(bytes.Clone(s), make([]byte, 32-len(s))...)) {
			return nil, refusal.New("trust_malformed", "the Ed25519 public key is a point of small order")
		}
	}
	return ed25519.PublicKey(bytes.Clone(b)), nil
}

// reduced reports whether the little-endian y is below 2^255-19.
func reduced(y []byte) bool {
	if y[31] != 0x7f {
		return true
	}
	for _, c := range y[1:31] {
		if c != 0xff {
			return true
		}
	}
	return y[0] < 0xed
}

// EncodePublicKey returns unpadded base64url of the 32 bytes.
func EncodePublicKey(k ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(k) }

// maxJWK is in bytes. An ML-DSA-65 key has 2.6 KiB.
const maxJWK = 64 << 10

func checkJWKSize(raw []byte) error {
	if len(raw) > maxJWK {
		return refusal.New("trust_malformed", "the file has %d bytes; a JWK, or a set of two, has at most %d", len(raw),
			maxJWK)
	}
	return nil
}

// ParseJWK reads one public Ed25519 JWK (RFC 8037). It refuses a private key: no verifier should have one.
func ParseJWK(raw []byte) (kid string, key ed25519.PublicKey, err error) {
	if err := checkJWKSize(raw); err != nil {
		return "", nil, err
	}
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(raw, &jwk); err != nil {
		return "", nil, refusal.New("trust_malformed", "the file is not a JWK: %v", err)
	}
	std, ok := jwk.Key.(stded25519.PublicKey) // go-jose has the standard library's type, with circl's bytes
	if !ok || jwk.KeyID == "" || len(jwk.KeyID) > maxKeyID {
		return "", nil, refusal.New("trust_malformed", "the JWK must be a public Ed25519 key with a kid")
	}
	key, err = NewPublicKey(std)
	return jwk.KeyID, key, err
}

func verify(public ed25519.PublicKey, p parsed) bool {
	return len(p.signature) == ed25519.SignatureSize && ed25519.Verify(public, []byte(p.signed), p.signature)
}
