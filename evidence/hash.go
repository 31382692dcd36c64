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

// HashToken returns the hash of an artifact's header and payload as they travel. Artifacts name each other by this
// hash, so that both can be signed at once. Never detect replays by it: only by jti.
func HashToken(token string) string {
	if end := strings.LastIndexByte(token, '.'); end >= 0 {
		token = token[:end]
	}
	return HashBytes([]byte(token))
}

// HashJSON returns the hash of the canonical form of raw. It refuses what [strictjson.Canonical] refuses.
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
