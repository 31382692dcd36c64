package evidence

import (
	"math/big"
	"slices"
	"strings"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/internal/refusal"
)

const didKey = "did:key:z"

// codecEd25519 is the multicodec ed25519-pub as a varint.
var codecEd25519 = []byte{0xed, 0x01}

const didKeyChars = len(didKey) + 47

const base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// DIDKey returns did:key:z and the key in base58btc.
func DIDKey(public ed25519.PublicKey) string {
	n, digit, text := new(big.Int).SetBytes(append(slices.Clone(codecEd25519), public...)), new(big.Int), []byte(nil)
	for n.Sign() > 0 {
		n.DivMod(n, big.NewInt(int64(len(base58Alphabet))), digit)
		text = append(text, base58Alphabet[digit.Int64()])
	}
	slices.Reverse(text)
	return didKey + string(text)
}

// ParseDIDKey refuses other key types, other spellings, and keys that [NewPublicKey] refuses.
func ParseDIDKey(text string) (ed25519.PublicKey, error) {
	malformed := refusal.New("trust_malformed", "%.80q is not the did:key of an Ed25519 key", text)
	digits, ok := strings.CutPrefix(text, didKey)
	if !ok || len(text) != didKeyChars {
		return nil, malformed
	}
	n, base := new(big.Int), big.NewInt(int64(len(base58Alphabet)))
	for i := range len(digits) {
		at := strings.IndexByte(base58Alphabet, digits[i])
		if at < 0 {
			return nil, malformed
		}
		n.Add(n.Mul(n, base), big.NewInt(int64(at)))
	}
	raw := n.Bytes()
	if len(raw) != len(codecEd25519)+ed25519.PublicKeySize || !slices.Equal(raw[:len(codecEd25519)], codecEd25519) {
		return nil, malformed
	}
	return NewPublicKey(raw[len(codecEd25519):])
}
