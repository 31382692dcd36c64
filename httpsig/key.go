package httpsig

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// Keys are public keys by their [KeyID].
type Keys map[string]ed25519.PublicKey

// maxKeys bounds the keys of one file.
const maxKeys = 16

// ParseKeys reads the Ed25519 public keys of a PEM file, as openssl pkey -pubout writes them: at least one.
func ParseKeys(raw []byte) (Keys, error) {
	keys := make(Keys)
	for len(keys) < maxKeys {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			break
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("httpsig: public key: %w", err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, errors.New("httpsig: a public key is not an Ed25519 key")
		}
		keys[KeyID(key)] = key
	}
	if block, _ := pem.Decode(raw); len(keys) == 0 || block != nil {
		return nil, fmt.Errorf("httpsig: a file has 1 to %d public keys in PEM", maxKeys)
	}
	return keys, nil
}

// KeyID returns a key's JWK thumbprint (RFC 7638, RFC 8037).
func KeyID(key ed25519.PublicKey) string {
	x := base64.RawURLEncoding.EncodeToString(key)
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
