package proxy

import (
	"fmt"
	"net/http"

	"github.com/actionproof/mediator/evidence"
)

// Credential is a secret that the mediator puts into a call and the agent never holds. It prints as REDACTED.
type Credential struct {
	header string
	value  string
}

// NewCredential makes a credential that sets header to prefix followed by secret.
func NewCredential(header, prefix, secret string) (*Credential, error) {
	if header == "" || secret == "" {
		return nil, fmt.Errorf("proxy: a credential needs a header and a secret that is not empty")
	}
	return &Credential{header: http.CanonicalHeaderKey(header), value: prefix + secret}, nil
}

// Format prints REDACTED whatever the verb.
func (*Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

// MarshalJSON writes "REDACTED".
func (*Credential) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }

// inject replaces the agent's own credentials in h by this one. A nil credential only removes.
func (c *Credential) inject(h http.Header) {
	for _, name := range agentCredentials {
		h.Del(name)
	}
	if c != nil {
		h.Set(c.header, c.value)
	}
}

// agentCredentials are the headers by which an agent could bring credentials of its own into a post.
var agentCredentials = []string{"Authorization", "Cookie", "X-Api-Key", "Private-Token", "X-Auth-Token"}

// hash returns the access token hash of the request proof: SHA-256 of the header's whole value, or of the empty text.
func (c *Credential) hash() string {
	if c == nil {
		return evidence.HashBytes(nil)
	}
	return evidence.HashBytes([]byte(c.value))
}
