// Package credential puts the APIs' credentials into calls. A [Source] gives a credential, a [Form] applies it.
//
//	credential.go  a rule's credential, and its use in one call
//	forms.go, query.go, aws.go  the forms
//	file.go, vault.go, oauth.go, google.go, github.go  the sources
//	certificate.go a rule's client certificate, and its sources
//	renewed.go, jwt.go  what the sources of temporary tokens share
package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/proxy/forward"
)

// redacted keeps what embeds it out of logs and errors.
type redacted struct{}

func (redacted) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

func (redacted) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }

// Value is what a source gives at one time. It prints as REDACTED.
type Value struct {
	redacted
	// ID and Version are public: a user name or a key's id, and the secret's version. Either may be empty.
	ID, Version string
	Secret      string
	Session     string    // the session token of a temporary key; empty for others
	Certificate string    // of a key, then those that lead to an authority, in PEM; empty for others
	Read        time.Time // when the source got it
	End         time.Time // when the secret ends; zero if unknown
}

// Source gives a credential, which may change. It is safe for concurrent use.
type Source interface {
	// Current returns the credential for one call, from memory while it is fresh. Its errors have the code
	// custody_unavailable and hold no secret.
	Current(ctx context.Context) (Value, error)
	// Refused reports that an upstream answered 401 to v, or that no call can carry it: it may have been replaced, and
	// is read again before its next use. No call is sent again.
	Refused(v Value)
}

// Form applies a credential to an outgoing request.
type Form interface {
	// Find returns the search for what no answer may repeat. It refuses a value that the form cannot carry.
	Find(v Value) (*echo.Secret, error)
	// Bound returns the text that the request proof names by its hash. It lets no reader confirm a guessed secret,
	// except in a header, whose value the API must be able to compare.
	Bound(v Value) string
	// Takes reports whether the form replaces this header of the agent. name is canonical.
	Takes(name string) bool
	// Apply puts v into r and replaces the agent's own value. After it, only package botauth changes r, to add its
	// signature. body is the whole body.
	Apply(r *http.Request, v Value, body []byte) error
}

// Credential is what the mediator injects into the calls of a rule and the agent never holds. A nil Credential injects
// nothing.
type Credential struct {
	redacted
	source Source
	form   Form
	last   atomic.Pointer[Use] // of the previous call
	failed atomic.Int64
}

// New makes a credential.
func New(source Source, form Form) (*Credential, error) {
	if source == nil || form == nil {
		return nil, errors.New("credential: a credential needs a source and a form")
	}
	return &Credential{source: source, form: form}, nil
}

// Takes reports whether the credential replaces this header of the agent.
func (c *Credential) Takes(name string) bool { return c != nil && c.form.Takes(name) }

// CoversBody reports whether the credential signs the body, which must then be held.
func (c *Credential) CoversBody() bool {
	if c == nil {
		return false
	}
	_, signs := c.form.(aws)
	return signs
}

// Use is a credential for one call: the request proof and the sent request use the same value.
type Use struct {
	redacted
	*Credential
	value Value
	find  *echo.Secret
}

// Resolve gets the credential for one call with these headers of the agent.
func (c *Credential) Resolve(ctx context.Context, of http.Header) (u Use, err error) {
	if c == nil {
		return Use{}, nil
	}
	if a, signs := c.form.(aws); signs {
		if err := a.check(of); err != nil {
			return Use{}, err
		}
	}
	defer func() {
		if err != nil {
			c.failed.Add(1)
		}
	}()
	v, err := c.source.Current(ctx)
	if err != nil {
		return Use{}, err
	}
	if last := c.last.Load(); last != nil && last.value == v {
		return *last, nil
	}
	find, err := c.form.Find(v)
	if err != nil {
		c.source.Refused(v)
		return Use{}, refusal.New("custody_unavailable", "the rule's credential is not used: %w", err)
	}
	u = Use{Credential: c, value: v, find: find}
	c.last.Store(&u)
	return u, nil
}

// Stats are a credential's figures.
type Stats struct {
	End      time.Time // of the value that was last used; zero if unknown
	Read     time.Time // when its source got it; zero before the first use
	Failures int64     // calls that could not have the credential
}

// Stats returns the figures so far.
func (c *Credential) Stats() Stats {
	s := Stats{Failures: c.failed.Load()}
	if last := c.last.Load(); last != nil {
		s.End, s.Read = last.value.End, last.value.Read
	}
	return s
}

// With returns the figures of a rule that also has what o is about: the earlier times, and all failures.
func (s Stats) With(o Stats) Stats {
	if s.End.IsZero() || !o.End.IsZero() && o.End.Before(s.End) {
		s.End = o.End
	}
	if s.Read.IsZero() || !o.Read.IsZero() && o.Read.Before(s.Read) {
		s.Read = o.Read
	}
	s.Failures += o.Failures
	return s
}

// Apply replaces the agent's own credentials in r by this one. It also removes headers that could hide the credential
// in the answer. Only a signature (package botauth) may follow.
func (u Use) Apply(r *http.Request, body []byte) error {
	forward.DropCredentials(r.Header)
	if u.Credential == nil {
		return nil
	}
	u.remove(r.Header)
	u.remove(r.Trailer)
	r.Header.Set("Accept-Encoding", "identity")
	return u.form.Apply(r, u.value, body)
}

// remove removes the form's headers from h, in every spelling that some server accepts.
func (u Use) remove(h http.Header) {
	for name := range h {
		if dashed := wire.CGIName(name); u.form.Takes(dashed) || echo.Hides(dashed) {
			delete(h, name)
		}
	}
}

// Hash returns the request proof's accessTokenHash: the SHA-256 of [Form.Bound], or of the empty text.
func (u Use) Hash() string {
	if u.Credential == nil {
		return evidence.HashBytes(nil)
	}
	return evidence.HashBytes([]byte(u.form.Bound(u.value)))
}

// public is the Bound of a form whose secret may be guessable: its kind, and the public parts of its value.
func public(kind string, v Value) string {
	text, _ := strictjson.CanonicalOf(map[string]string{"kind": kind, "id": v.ID, "version": v.Version})
	return string(text)
}

// Answered protects the answer to a sent request with an injected credential: it removes cookies, which would be a
// credential in the agent's hands, and withholds the credential itself ([echo.Secret.Guard]). After a 401 the secret is
// read again.
func (u Use) Answered(sent *http.Request, resp *http.Response) (err error) {
	if u.Credential == nil {
		return nil
	}
	resp.Header.Del("Set-Cookie")
	refused, find := resp.StatusCode == http.StatusUnauthorized, u.find
	if a, signs := u.form.(aws); signs {
		refused = refused || a.refused(u.value, resp.StatusCode)
		if find, err = a.findSent(sent, u.value); err != nil {
			return err
		}
	}
	if refused {
		u.source.Refused(u.value)
	}
	return find.Guard(resp)
}

// leastSkew is the least difference of two clocks that is worth mentioning. Signatures bear five minutes, tokens one.
const leastSkew = time.Minute

// Skew returns how far the API's clock is ahead of ours if it has refused the call with the credential, and the
// difference may be the reason; otherwise 0.
func (u Use) Skew(resp *http.Response, now time.Time) time.Duration {
	if u.Credential == nil {
		return 0
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return Skew(resp, now)
	}
	return 0
}

// Skew returns how far the clock of an answer's server is ahead of ours; 0 if less than a minute or unknown.
func Skew(resp *http.Response, now time.Time) time.Duration {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if skew := date.Sub(now); err == nil && skew.Abs() >= leastSkew {
		return skew.Round(time.Second)
	}
	return 0
}
