package credential

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/echo"
)

type query string

// Query is the form of a secret in a query parameter. The binding's resource and the record never hold it.
func Query(name string) (Form, error) {
	if name == "" || url.QueryEscape(name) != name ||
		wire.QueryOverride(http.MethodGet, name+"="+http.MethodPost) != "" {
		return nil, fmt.Errorf("%q cannot carry a credential: use letters, digits and -._~, and no "+
			"name that some servers take the method from", name)
	}
	return query(name), nil
}

func (query) Find(v Value) (*echo.Secret, error) { return echo.New("", v.Secret, echo.Auto) }

func (q query) Bound(v Value) string { return public("query "+string(q), v) }

func (query) Takes(string) bool { return false }

// Apply removes the agent's parameters of that name, in every spelling that some server accepts. It leaves the rest as
// the proof binds it: servers differ on whether a semicolon separates parameters.
func (q query) Apply(r *http.Request, v Value, _ []byte) error {
	own := wire.FoldParameter(string(q))
	var kept strings.Builder
	for rest, separator := r.URL.RawQuery, ""; rest != ""; {
		param, after := rest, ""
		if i := strings.IndexAny(rest, "&;"); i >= 0 {
			param, after = rest[:i], rest[i:i+1]
		}
		rest = rest[len(param)+len(after):]
		if !q.isOwn(param, own) {
			kept.WriteString(separator + param)
			separator = after
		}
	}
	if kept.Len() > 0 {
		kept.WriteByte('&')
	}
	r.URL.RawQuery = kept.String() + string(q) + "=" + url.QueryEscape(v.Secret)
	return nil
}

func (query) isOwn(param, own string) bool {
	for name := range wire.Parameters(param) {
		return wire.FoldParameter(name) == own
	}
	return false
}
