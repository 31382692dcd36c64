package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/actionproof/mediator/internal/strictjson"
)

// HashBytes returns the lowercase hex SHA-256 of b.
func HashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// HashToken returns the lowercase hex SHA-256 of what is signed of an artifact: its header and payload as they travel, the JWS signing
// input (RFC 7515 section 5.1). It names an artifact that another one rests on, whose signature is verified by itself; so both can be
// signed at the same time. It is never a replay key (that is the jti).
func HashToken(token string) string {
	if end := strings.LastIndexByte(token, '.'); end >= 0 {
		token = token[:end]
	}
	return HashBytes([]byte(token))
}

// HashJSON returns the lowercase hex SHA-256 of the RFC 8785 canonical form of raw.
// It refuses what [strictjson.Canonical] refuses.
func HashJSON(raw []byte) (string, error) {
	return hashOf(strictjson.Canonical(raw))
}

// HashValue is [HashJSON] of v as encoding/json writes it.
func HashValue(v any) (string, error) {
	return hashOf(strictjson.CanonicalOf(v))
}

func hashOf(canonical []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return HashBytes(canonical), nil
}
