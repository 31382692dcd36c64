package forward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/echo"
)

// SecretSource knows the secret of a credential, which may change. It is safe for concurrent use.
type SecretSource interface {
	// Secret returns the secret as it is now. Its errors have the code custody_unavailable and do not hold it.
	Secret(ctx context.Context) (string, error)
	// Refused tells that an upstream answered 401 to secret: it may have been replaced, and is to be read again before its next use. No
	// call is sent again for that.
	Refused(secret string)
}

// Credential is a secret that the mediator puts into a call and the agent never holds. It prints as REDACTED.
type Credential struct {
	header, prefix string
	half           echo.Half
	source         SecretSource
	last           atomic.Pointer[SecretHeader] // as it was for the call before
}

// NewCredential makes a credential that sets header to prefix followed by the secret, if [CheckCredential] takes both.
// Answers are searched for the half of it if it is one of Basic.
func NewCredential(header, prefix string, half echo.Half, source SecretSource) (*Credential, error) {
	if source == nil {
		return nil, errors.New("forward: a credential needs a source of its secret")
	}
	if err := CheckCredential(header, prefix); err != nil {
		return nil, err
	}
	return &Credential{header: http.CanonicalHeaderKey(header), prefix: prefix, half: half, source: source}, nil
}

// CheckCredential refuses a header or a prefix that can carry no credential. A header that HTTP or the mediator reads, such as Host, is
// refused: net/http would send something else, or the upstream would read another call.
func CheckCredential(header, prefix string) error {
	name := http.CanonicalHeaderKey(header)
	switch {
	case header == "":
		return errors.New("forward: a credential needs a header")
	case !httpguts.ValidHeaderFieldName(header):
		return fmt.Errorf("%q is not the name of a header", header)
	case slices.Contains(contentHeaders, name) || slices.Contains(wire.HopByHop, name) || slices.Contains(protocolHeaders, name) || overridden(wire.CGIName(name)) != "":
		return fmt.Errorf("the header %s has a meaning of its own, and carries no credential", name)
	case !httpguts.ValidHeaderFieldValue(prefix):
		return errors.New("the prefix holds what no header can")
	}
	return nil
}

// In reports whether a header is the one that carries the credential.
func (c *Credential) In(name string) bool { return c != nil && c.header == name }

// Now reads the secret for one call. Of a nil credential it returns one that injects nothing.
func (c *Credential) Now(ctx context.Context) (SecretHeader, error) {
	if c == nil {
		return SecretHeader{}, nil
	}
	secret, err := c.source.Secret(ctx)
	if err != nil {
		return SecretHeader{}, err
	}
	if last := c.last.Load(); last != nil && last.secret == secret {
		return *last, nil
	}
	if !httpguts.ValidHeaderFieldValue(secret) {
		return SecretHeader{}, refusal.New("custody_unavailable", "the credential that the rule injects holds what no header can, such as the end of a line")
	}
	find, err := echo.New(c.prefix, secret, c.half)
	if err != nil {
		return SecretHeader{}, refusal.New("custody_unavailable", "the rule's credential is not used: %w", err)
	}
	s := SecretHeader{c, secret, find}
	c.last.Store(&s)
	return s, nil
}

// SecretHeader is a credential as it is for one call: it is bound into the request proof and sent with the same value. Like the
// credential it prints as REDACTED.
type SecretHeader struct {
	*Credential
	secret string
	find   *echo.Secret
}

// Inject takes the agent's own credentials out of h and puts this one in, if there is one.
func (s SecretHeader) Inject(h http.Header) {
	for _, name := range agentCredentials {
		h.Del(name)
	}
	if s.Credential == nil {
		return
	}
	s.Remove(h)
	h.Set("Accept-Encoding", "identity")
	h.Set(s.header, s.prefix+s.secret)
}

// Remove takes the credential's header out of h, also in the spelling that some servers read in its place, and what could hide it
// in the answer.
func (s SecretHeader) Remove(h http.Header) {
	for name := range h {
		if dashed := wire.CGIName(name); dashed == s.header || echo.Hides(dashed) {
			delete(h, name)
		}
	}
}

// agentCredentials are the headers by which an agent could bring credentials of its own into a post. An API that takes others in headers of
// its own needs an action that names its headers.
var agentCredentials = []string{
	"Authorization", "Cookie", "Api-Key", "X-Api-Key", "X-Auth-Token", "X-Access-Token",
	"X-Goog-Api-Key", "X-Amz-Security-Token", "X-Shopify-Access-Token", "X-Vault-Token", // Google, AWS, Shopify, Vault
	"Private-Token", "Job-Token", "Deploy-Token", // GitLab
}

// Hash returns the access token hash of the request proof: SHA-256 of the header's whole value, or of the empty text.
func (s SecretHeader) Hash() string {
	if s.Credential == nil {
		return evidence.HashBytes(nil)
	}
	return evidence.HashBytes([]byte(s.prefix + s.secret))
}

// Answered takes the cookies out of an answer to an injected credential: in the agent's hands they would be a credential too. It keeps the
// credential itself from the agent, see [echo.Secret.Guard]. After a 401 the secret is read again before its next use.
func (s SecretHeader) Answered(resp *http.Response) error {
	if s.Credential == nil {
		return nil
	}
	resp.Header.Del("Set-Cookie")
	if resp.StatusCode == http.StatusUnauthorized {
		s.source.Refused(s.secret)
	}
	return s.find.Guard(resp)
}

// Format prints REDACTED whatever the verb.
func (*Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

// MarshalJSON writes "REDACTED".
func (*Credential) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }

// Format prints REDACTED whatever the verb.
func (SecretHeader) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }
