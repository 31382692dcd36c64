package wire

import (
	"net/url"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/pattern"
)

// MaxQueryNames bounds what [QueryNames] returns.
const MaxQueryNames = 32

// parameterName is the form of a name that is no secret: a query may be a token without a name.
var parameterName = pattern.New(`^[A-Za-z_$][A-Za-z0-9_.$\[\]-]{0,39}$`)

// QueryNames returns the names of a query's parameters, without their values.
func QueryNames(query string) (names []string) {
	for param := range strings.SplitSeq(query, "&") {
		name, _, valued := strings.Cut(param, "=")
		name, err := url.QueryUnescape(name)
		if len(names) == MaxQueryNames {
			break
		}
		if valued && err == nil && parameterName.MatchString(name) && !slices.Contains(names, name) {
			names = append(names, strings.Clone(name)) // kept longer than the query
		}
	}
	slices.Sort(names)
	return names
}
