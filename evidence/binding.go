package evidence

import (
	"reflect"

	"github.com/actionproof/mediator/internal/refusal"
)

// Binding ties every artifact of a post to exactly one operation (seed: "Action-bound verification").
type Binding struct {
	// Action is the operation, such as create_post.
	Action string `json:"action"`
	// ContentHash is the lowercase hex SHA-256 of the normalised content.
	ContentHash string `json:"contentHash"`
	// Nonce is chosen by the issuer of the challenge.
	Nonce string `json:"nonce,omitempty"`
	// Resource is the endpoint or destination, such as "POST /posts".
	Resource string `json:"resource"`
	// Subject is the user, account or agent identity on whose behalf the call is made.
	Subject string `json:"subject"`
}

// maxName bounds every identifier of a binding, in bytes; maxResource bounds the resource, which holds a path.
const (
	maxName     = 256
	maxResource = 2048
)

// Hash returns the lowercase hex SHA-256 of the canonical JSON of b, the nonce included (seed: hashChallengeBinding).
func (b Binding) Hash() string {
	raw, err := bindingCodec.encode(&b, 256)
	if err != nil {
		return "" // which equals no well-formed hash, so that every comparison with it refuses
	}
	return HashBytes(raw)
}

var bindingCodec = newCodec(reflect.TypeFor[Binding]())

// Check refuses a binding that leaves a part open or is not well-formed. It asks for no nonce, which only the issuer of the challenge
// gives: see [Binding.CheckNonce].
func (b Binding) Check() error {
	switch {
	case b.Subject == "" || len(b.Subject) > maxName:
		return refusal.New("artifact_malformed", "the binding's subject is missing or longer than %d bytes", maxName)
	case b.Action == "" || len(b.Action) > maxName:
		return refusal.New("artifact_malformed", "the binding's action is missing or longer than %d bytes", maxName)
	case b.Resource == "" || len(b.Resource) > maxResource:
		return refusal.New("artifact_malformed", "the binding's resource is missing or longer than %d bytes", maxResource)
	case !IsHash(b.ContentHash):
		return refusal.New("artifact_malformed", "the binding's contentHash is not a lowercase hex SHA-256")
	}
	return nil
}

// CheckNonce is [Binding.Check] and also demands the nonce.
func (b Binding) CheckNonce() error {
	if err := b.Check(); err != nil {
		return err
	}
	if b.Nonce == "" || len(b.Nonce) > maxName {
		return refusal.New("artifact_malformed", "the binding's nonce is missing or longer than %d bytes", maxName)
	}
	return nil
}

// SameAction reports whether b and o name the same subject, action, resource and content, whatever their nonces.
func (b Binding) SameAction(o Binding) bool {
	b.Nonce, o.Nonce = "", ""
	return b == o
}

// IsHash reports whether s is a lowercase hex SHA-256.
func IsHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
