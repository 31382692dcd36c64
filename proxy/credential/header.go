package credential

import (
	"errors"
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/proxy/forward"
)

type header struct {
	name, prefix string
	half         echo.Half
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
	return header{http.CanonicalHeaderKey(name), prefix, half}, nil
}

var errNotInHeader = errors.New("it has a character that no header can carry, such as a line end")

func (h header) Find(v Value) (*echo.Secret, error) {
	if !httpguts.ValidHeaderFieldValue(v.Secret) {
		return nil, errNotInHeader
	}
	return echo.New(h.prefix, v.Secret, h.half)
}

// Bound returns the header's whole value: an API that takes part compares it with what it got.
func (h header) Bound(v Value) string { return h.prefix + v.Secret }

func (h header) Takes(name string) bool { return name == h.name }

func (h header) Apply(r *http.Request, v Value, _ []byte) error {
	r.Header.Set(h.name, h.prefix+v.Secret)
	return nil
}
