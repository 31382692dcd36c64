package vectors_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/cloudflare/circl/sign/ed25519"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

// at is the default time: 2026-11-20T12:00:00Z.
const at = 1795176000

const b64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var b64 = base64.RawURLEncoding

// seed makes the private key or secret of a name (docs/vectors.md).
func seed(name string) [32]byte { return sha256.Sum256([]byte("actionproof vectors " + name)) }

type key struct {
	kid     string
	private ed25519.PrivateKey
}

func newKey(kid string) key {
	s := seed(kid)
	return key{kid, ed25519.NewKeyFromSeed(s[:])}
}

func (k key) KeyID() string             { return k.kid }
func (k key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }
func (k key) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(k.private, message), nil
}

type second struct {
	kid     string
	public  *mldsa65.PublicKey
	private *mldsa65.PrivateKey
}

func newSecond(kid string) second {
	s := seed("ML-DSA-65 " + kid)
	public, private := mldsa65.NewKeyFromSeed(&s)
	return second{kid, public, private}
}

func (k second) KeyID() string { return k.kid }
func (k second) Sign(_ context.Context, message []byte) ([]byte, error) {
	signature := make([]byte, mldsa65.SignatureSize)
	return signature, mldsa65.SignTo(k.private, message, nil, false, signature)
}

func secretOf(name string) []byte {
	s := seed(name)
	return s[:]
}

func mac(secret []byte, input string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(input))
	return m.Sum(nil)
}

type token struct {
	header, payload string
	sign            func(input string) []byte
}

func (t token) String() string {
	input := b64.EncodeToString([]byte(t.header)) + "." + b64.EncodeToString([]byte(t.payload))
	return input + "." + b64.EncodeToString(t.sign(input))
}

// token makes a token with a plain header.
func (k key) token(typ, payload string) string {
	return token{`{"alg":"EdDSA","kid":"` + k.kid + `","typ":"` + typ + `"}`, payload, k.signer()}.String()
}

func (k key) signer() func(string) []byte {
	return func(input string) []byte { return ed25519.Sign(k.private, []byte(input)) }
}

func macSigner(secret []byte) func(string) []byte {
	return func(input string) []byte { return mac(secret, input) }
}

// with changes members of claims; nil removes one.
func with(payload string, changes map[string]any) string {
	var claims map[string]any
	mustDo(json.Unmarshal([]byte(payload), &claims))
	for name, value := range changes {
		if value == nil {
			delete(claims, name)
			continue
		}
		claims[name] = value
	}
	return canonicalOf(claims)
}

func must[T any](v T, err error) T {
	mustDo(err)
	return v
}

func mustDo(err error) {
	if err != nil {
		panic(err)
	}
}
