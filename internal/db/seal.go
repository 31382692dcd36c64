package db

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Seal returns a text as it is stored where others may write: after an HMAC of about and text. Without a secret, as for
// a file, it is the text alone.
func Seal(secret, about, text string) string {
	if secret == "" {
		return text
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(about + text))
	return hex.EncodeToString(mac.Sum(nil)) + text
}

// Unseal undoes [Seal]. It reports false for what this secret has not sealed.
func Unseal(secret, about, stored string) (text string, ok bool) {
	if secret == "" {
		return stored, true
	}
	text = stored[min(len(stored), 2*sha256.Size):]
	return text, hmac.Equal([]byte(Seal(secret, about, text)), []byte(stored))
}
