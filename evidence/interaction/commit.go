package interaction

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// Salt hides what a commitment is of. It is random, or made of a secret, and never stands in a receipt.
type Salt [16]byte

// Commit returns the commitment to a value, which encoding/json can write: the lowercase hex SHA-256 of the RFC 8785 canonical JSON of
// {"salt": ..., "value": ...}, with the salt as base64url without padding. It refuses what [evidence.Canonical] refuses.
func Commit(salt Salt, value any) (string, error) {
	return evidence.HashValue(struct {
		Salt  string `json:"salt"`
		Value any    `json:"value"`
	}{base64.RawURLEncoding.EncodeToString(salt[:]), value})
}

// Owner returns how receipts name the owner of a sidecar whose keys are certified by a key registry with this public key: by the RFC 7638
// thumbprint of the key as a JWK.
func Owner(registry ed25519.PublicKey) string {
	jwk := `{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(registry) + `"}`
	sum := sha256.Sum256([]byte(jwk))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
