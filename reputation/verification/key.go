package verification

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"

	stded25519 "crypto/ed25519"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

const (
	maxPEM     = 1024 // bytes; an Ed25519 key has 113
	maxPayload = 8 << 10
	typePEM    = "PUBLIC KEY" // RFC 7468 section 13
	didPrefix  = "did:groover:"
	didBytes   = 8
)

// Key is the Ed25519 public key of an agent.
type Key struct {
	public ed25519.PublicKey
}

// ParseKey reads one Ed25519 key as PEM (SubjectPublicKeyInfo, RFC 8410). It refuses weak keys.
func ParseKey(text string) (Key, error) {
	if len(text) > maxPEM {
		return Key{}, refusal.New("query_malformed", "the public key has %d bytes; at most %d are allowed", len(text), maxPEM)
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != typePEM || len(block.Headers) > 0 || strings.TrimSpace(string(rest)) != "" {
		return Key{}, refusal.New("query_malformed", "the public key must be a single PEM block %q", typePEM)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, refusal.New("query_malformed", "the public key is not a SubjectPublicKeyInfo")
	}
	raw, ok := parsed.(stded25519.PublicKey)
	if !ok {
		return Key{}, refusal.New("query_malformed", "the public key is not an Ed25519 key")
	}
	public, err := evidence.NewPublicKey(raw)
	if err != nil {
		return Key{}, refusal.New("query_malformed", "%w", err)
	}
	return Key{public}, nil
}

// String returns the key in hex, the node's only name for it.
func (k Key) String() string { return hex.EncodeToString(k.public) }

// DID returns did:groover: and the first 16 hex digits of the SHA-256 of the PEM text that Node.js exports.
func (k Key) DID() string {
	der, err := x509.MarshalPKIXPublicKey(stded25519.PublicKey(k.public))
	if err != nil {
		panic(err) // only for other key types
	}
	return didPrefix + evidence.HashBytes(pem.EncodeToMemory(&pem.Block{Type: typePEM, Bytes: der}))[:2*didBytes]
}

// DIDKey returns the key as did:key.
func (k Key) DIDKey() string { return evidence.DIDKey(k.public) }

// Possesses verifies a hex signature over the nonce, which is hex, a bar and the payload.
func (k Key) Possesses(nonce, payload, signature string) error {
	if len(payload) > maxPayload {
		return refusal.New("content_too_large", "the payload has %d bytes; at most %d are allowed", len(payload), maxPayload)
	}
	raw, err := hex.DecodeString(signature)
	if err != nil || len(raw) != ed25519.SignatureSize || !ed25519.Verify(k.public, []byte(nonce+"|"+payload), raw) {
		return refusal.New("verification_possession", "the signature does not match the key, nonce and payload")
	}
	return nil
}
