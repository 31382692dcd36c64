package credential

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/proxy/forward"
)

// inHeader is the form of a secret in one header, whose value write returns. The other functions are those of [Form].
type inHeader struct {
	name  string // canonical
	takes bool   // otherwise the agent's never passes
	find  func(v Value) (*echo.Secret, error)
	bound func(v Value) string
	write func(v Value) string
}

func (h inHeader) Find(v Value) (*echo.Secret, error) { return h.find(v) }
func (h inHeader) Bound(v Value) string               { return h.bound(v) }
func (h inHeader) Takes(name string) bool             { return h.takes && name == h.name }

func (h inHeader) Apply(r *http.Request, v Value, _ []byte) error {
	r.Header.Set(h.name, h.write(v))
	return nil
}

// Header is the form of a secret in a header, after a prefix such as "Bearer ". half selects the half of a Basic
// credential that answers are searched for.
func Header(name, prefix string, half echo.Half) (Form, error) {
	if err := forward.CheckCredentialHeader(name); err != nil {
		return nil, err
	}
	if !httpguts.ValidHeaderFieldValue(prefix) {
		return nil, errors.New("the prefix has characters that no header can hold")
	}
	whole := func(v Value) string { return prefix + v.Secret }
	return inHeader{
		name: http.CanonicalHeaderKey(name), takes: true,
		find: func(v Value) (*echo.Secret, error) {
			if !httpguts.ValidHeaderFieldValue(v.Secret) {
				return nil, errors.New("it has a character that no header can carry, such as a line end")
			}
			return echo.New(prefix, v.Secret, half)
		},
		bound: whole, // an API that takes part compares it with the request's
		write: whole,
	}, nil
}

// Basic is the form of a user and a password (RFC 7617). The user is user, or else the value's ID, or else part of the
// secret: user:password.
func Basic(user string, half echo.Half) (Form, error) {
	if strings.ContainsFunc(user, func(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }) {
		return nil, errors.New("a user must not have a colon or a control character (RFC 7617)")
	}
	named := func(v Value) Value {
		if user != "" {
			v.ID = user
		}
		return v
	}
	encoded := func(v Value) string {
		if v = named(v); v.ID != "" {
			v.Secret = v.ID + ":" + v.Secret
		}
		return base64.StdEncoding.EncodeToString([]byte(v.Secret))
	}
	return inHeader{
		name: "Authorization",
		find: func(v Value) (*echo.Secret, error) {
			if named(v).ID == "" && !strings.Contains(v.Secret, ":") {
				return nil, errors.New("it has no user: set basic.user, or write user:password")
			}
			return echo.New("Basic ", encoded(v), half)
		},
		bound: func(v Value) string { return public("basic", named(v)) },
		write: func(v Value) string { return "Basic " + encoded(v) },
	}, nil
}

// Cookie is the form of a secret in a cookie (RFC 6265), in place of all cookies of the agent.
func Cookie(name string) (Form, error) {
	if !httpguts.ValidHeaderFieldName(name) {
		return nil, fmt.Errorf("%q is not the name of a cookie: letters, digits and !#$%%&'*+-.^_`|~", name)
	}
	return inHeader{
		name: "Cookie",
		find: func(v Value) (*echo.Secret, error) {
			// RFC 6265 section 4.1.1
			bad := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`",;\`, r) }
			if strings.ContainsFunc(v.Secret, bad) {
				return nil, errors.New("it has a character that no cookie can carry, such as a space or a semicolon")
			}
			return echo.New("", v.Secret, echo.Auto)
		},
		bound: func(v Value) string { return public("cookie "+name, v) },
		write: func(v Value) string { return name + "=" + v.Secret },
	}, nil
}
