package credential

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/proxy/echo"
)

type basic struct {
	user string
	half echo.Half
}

// Basic is the form of a user and a password (RFC 7617). The user is user, or else the value's ID, or else part of the
// secret: user:password.
func Basic(user string, half echo.Half) (Form, error) {
	if strings.ContainsFunc(user, func(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }) {
		return nil, errors.New("a user must not have a colon or a control character (RFC 7617)")
	}
	return basic{user, half}, nil
}

func (b basic) encoded(v Value) string {
	pair := v.Secret
	if user := b.userOf(v); user != "" {
		pair = user + ":" + v.Secret
	}
	return base64.StdEncoding.EncodeToString([]byte(pair))
}

func (b basic) userOf(v Value) string {
	if b.user != "" {
		return b.user
	}
	return v.ID
}

func (b basic) Find(v Value) (*echo.Secret, error) {
	if b.userOf(v) == "" && !strings.Contains(v.Secret, ":") {
		return nil, errors.New("it has no user: set basic.user, or write user:password")
	}
	return echo.New("Basic ", b.encoded(v), b.half)
}

func (b basic) Bound(v Value) string {
	v.ID = b.userOf(v)
	return public("basic", v)
}

func (basic) Takes(string) bool { return false } // no agent's Authorization passes

func (b basic) Apply(r *http.Request, v Value, _ []byte) error {
	r.Header.Set("Authorization", "Basic "+b.encoded(v))
	return nil
}
