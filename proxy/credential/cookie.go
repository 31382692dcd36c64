package credential

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/proxy/echo"
)

type cookie string

// Cookie is the form of a secret in a cookie (RFC 6265), in place of all cookies of the agent.
func Cookie(name string) (Form, error) {
	if !httpguts.ValidHeaderFieldName(name) {
		return nil, fmt.Errorf("%q is not the name of a cookie: letters, digits and !#$%%&'*+-.^_`|~", name)
	}
	return cookie(name), nil
}

func (cookie) Find(v Value) (*echo.Secret, error) {
	// RFC 6265 section 4.1.1
	bad := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`",;\`, r) }
	if strings.ContainsFunc(v.Secret, bad) {
		return nil, errors.New("it has a character that no cookie can carry, such as a space or a semicolon")
	}
	return echo.New("", v.Secret, echo.Auto)
}

func (c cookie) Bound(v Value) string { return public("cookie "+string(c), v) }

func (cookie) Takes(string) bool { return false } // no agent's Cookie passes

func (c cookie) Apply(r *http.Request, v Value, _ []byte) error {
	r.Header.Set("Cookie", string(c)+"="+v.Secret)
	return nil
}
