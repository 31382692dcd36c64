package credential

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/echo"
)

type query string

// Query is the form of a secret in a query parameter. The binding's resource and the record never hold it.
func Query(name string) (Form, error) {
	if name == "" || url.QueryEscape(name) != name || wire.QueryOverride(http.MethodGet, name+"="+http.MethodPost) != "" {
		return nil, fmt.Errorf("%q cannot carry a credential: use letters, digits and -._~, and no name that some servers "+
			"take the method from", name)
	}
	return query(name), nil
}

func (query) Find(v Value) (*echo.Secret, error) { return echo.New("", v.Secret, echo.Auto) }

func (q query) Bound(v Value) string { return public("query "+string(q), v) }

func (query) Takes(string) bool { return false }

// Apply removes the agent's parameter of that name, in every spelling that some server accepts.
func (q query) Apply(r *http.Request, v Value, _ []byte) error {
	own := wire.FoldParameter(string(q))
	params := strings.FieldsFunc(r.URL.RawQuery, func(c rune) bool { return c == '&' || c == ';' })
	params = slices.DeleteFunc(params, func(param string) bool {
		for name := range wire.Parameters(param) {
			return wire.FoldParameter(name) == own
		}
		return false
	})
	r.URL.RawQuery = strings.Join(append(params, string(q)+"="+url.QueryEscape(v.Secret)), "&")
	return nil
}
