package evidence

import (
	"reflect"

	"github.com/actionproof/mediator/evidence/internal/codec"
	"github.com/actionproof/mediator/internal/refusal"
)

// Binding ties a post's artifacts to one operation (seed: "Action-bound verification").
type Binding struct {
	Action      string `json:"action"`
	ContentHash string `json:"contentHash"`
	Nonce       string `json:"nonce,omitempty"`
	// such as "POST /posts"
	Resource string `json:"resource"`
	// the user, account or agent for whom the call is made
	Subject string `json:"subject"`
}

// Bounds in bytes.
const (
	maxName     = 256
	maxResource = codec.MaxText
)

// Hash returns the hash of b's canonical JSON, nonce included.
func (b Binding) Hash() string {
	raw, err := bindingCodec.Encode(&b, 256)
	if err != nil {
		return "" // equals no hash, so every comparison refuses
	}
	return HashBytes(raw)
}

var bindingCodec = codec.New(reflect.TypeFor[Binding]())

// Check refuses an incomplete or malformed binding. [Binding.CheckNonce] also demands the nonce.
func (b Binding) Check() error {
	switch {
	case b.Subject == "" || len(b.Subject) > maxName:
		return refusal.New("artifact_malformed", "the binding's subject is missing or longer than %d bytes", maxName)
	case b.Action == "" || len(b.Action) > maxName:
		return refusal.New("artifact_malformed", "the binding's action is missing or longer than %d bytes", maxName)
	case b.Resource == "" || len(b.Resource) > maxResource:
		return refusal.New("artifact_malformed", "the binding's resource is missing or longer than %d bytes",
			maxResource)
	case !IsHash(b.ContentHash):
		return refusal.New("artifact_malformed", "the binding's contentHash is not a lowercase hex SHA-256")
	}
	return nil
}

// CheckNonce is Check, and requires a nonce: the challenge's.
func (b Binding) CheckNonce() error {
	if err := b.Check(); err != nil {
		return err
	}
	if b.Nonce == "" || len(b.Nonce) > maxName {
		return refusal.New("artifact_malformed", "the binding's nonce is missing or longer than %d bytes", maxName)
	}
	return nil
}

// SameAction reports whether b and o differ at most in their nonces.
func (b Binding) SameAction(o Binding) bool {
	b.Nonce, o.Nonce = "", ""
	return b == o
}

// IsHash reports whether s is a lowercase hex SHA-256.
func IsHash(s string) bool { return codec.IsHash(s) }
