package interaction

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// Salt hides a committed value. It is random or derived from a secret, and in no receipt.
type Salt [16]byte

// Commit returns the hex SHA-256 of the canonical JSON of {"salt": ..., "value": ...}, with the salt as unpadded
// base64url.
func Commit(salt Salt, value any) (string, error) {
	return evidence.HashValue(struct {
		Salt  string `json:"salt"`
		Value any    `json:"value"`
	}{base64.RawURLEncoding.EncodeToString(salt[:]), value})
}

// Owner returns the RFC 7638 thumbprint of a key registry's public key, which names a sidecar's owner in receipts.
func Owner(registry ed25519.PublicKey) string {
	jwk := `{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(registry) + `"}`
	sum := sha256.Sum256([]byte(jwk))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
