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

// SecretSource supplies a credential's secret, which may change. It is safe for concurrent use.
type SecretSource interface {
	// Secret returns the current secret. Its errors have the code custody_unavailable and never hold the secret.
	Secret(ctx context.Context) (string, error)
	// Refused reports that an upstream answered 401 to secret: it may have been replaced, and is read again before its
	// next use. No call is sent again.
	Refused(secret string)
}

// Credential is a secret that the mediator injects into calls and the agent never holds. It prints as REDACTED.
type Credential struct {
	header, prefix string
	half           echo.Half
	source         SecretSource
	last           atomic.Pointer[SecretHeader] // of the previous call
}

// NewCredential makes a credential that sets header to prefix and secret, if [CheckCredential] accepts both. half
// selects the half of a Basic credential that answers are searched for.
func NewCredential(header, prefix string, half echo.Half, source SecretSource) (*Credential, error) {
	if source == nil {
		return nil, errors.New("forward: a credential needs a source of its secret")
	}
	if err := CheckCredential(header, prefix); err != nil {
		return nil, err
	}
	return &Credential{header: http.CanonicalHeaderKey(header), prefix: prefix, half: half, source: source}, nil
}

// CheckCredential refuses a header or prefix that cannot carry a credential. It refuses headers that HTTP or the
// mediator reads, such as Host: net/http sends something else for them, or the upstream reads another call.
func CheckCredential(header, prefix string) error {
	name := http.CanonicalHeaderKey(header)
	switch {
	case header == "":
		return errors.New("forward: a credential needs a header")
	case !httpguts.ValidHeaderFieldName(header):
		return fmt.Errorf("%q is not the name of a header", header)
	case slices.Contains(contentHeaders, name) || slices.Contains(wire.HopByHop, name) ||
		slices.Contains(protocolHeaders, name) || overridden(wire.CGIName(name)) != "":
		return fmt.Errorf("the header %s has a meaning of its own, so it cannot carry a credential", name)
	case !httpguts.ValidHeaderFieldValue(prefix):
		return errors.New("the prefix has characters that no header can hold")
	}
	return nil
}

// In reports whether a header carries the credential.
func (c *Credential) In(name string) bool { return c != nil && c.header == name }

// Now reads the secret for one call. A nil credential injects nothing.
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
		return SecretHeader{},
			refusal.New("custody_unavailable",
				"the rule's credential has characters that no header can hold, such as a newline")
	}
	find, err := echo.New(c.prefix, secret, c.half)
	if err != nil {
		return SecretHeader{}, refusal.New("custody_unavailable", "the rule's credential is not used: %w", err)
	}
	s := SecretHeader{c, secret, find}
	c.last.Store(&s)
	return s, nil
}

// SecretHeader is a credential for one call: the request proof and the sent header use the same value. It prints as
// REDACTED.
type SecretHeader struct {
	*Credential
	secret string
	find   *echo.Secret
}

// Inject replaces the agent's own credentials in h by this one.
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

// Remove removes the credential's header from h, in every spelling that some server accepts, and headers that could
// hide the credential in the answer.
func (s SecretHeader) Remove(h http.Header) {
	for name := range h {
		if dashed := wire.CGIName(name); dashed == s.header || echo.Hides(dashed) {
			delete(h, name)
		}
	}
}

// agentCredentials are the headers with which an agent could bring its own credentials into a post. APIs with other
// such headers need an action that lists its headers.
var agentCredentials = []string{
	"Authorization", "Cookie", "Api-Key", "X-Api-Key", "X-Auth-Token", "X-Access-Token",
	"X-Goog-Api-Key", "X-Amz-Security-Token", "X-Shopify-Access-Token", "X-Vault-Token", // Google, AWS, Shopify, Vault
	"Private-Token", "Job-Token", "Deploy-Token", // GitLab
}

// Hash returns the request proof's access token hash: SHA-256 of the header's whole value, or of the empty text.
func (s SecretHeader) Hash() string {
	if s.Credential == nil {
		return evidence.HashBytes(nil)
	}
	return evidence.HashBytes([]byte(s.prefix + s.secret))
}

// Answered protects the answer to an injected credential: it removes cookies, which would be a credential in the
// agent's hands, and withholds the credential itself ([echo.Secret.Guard]). After a 401 the secret is read again.
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

func (*Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

func (*Credential) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }

func (SecretHeader) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }
