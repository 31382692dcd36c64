package wire

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// MethodOverride returns the name of a header of h with which a server may be told to act on another method than the one that a
// request shows, and that everything is bound to; empty where there is none.
func MethodOverride(h http.Header) string {
	for name := range h {
		if OverridesMethod(name) {
			return name
		}
	}
	return ""
}

// OverridesMethod reports whether a header of this name is such a one. Some servers read _ as -.
func OverridesMethod(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	return slices.ContainsFunc(headers, func(header string) bool { return strings.EqualFold(name, header) })
}

var headers = []string{"x-http-method", "x-http-method-override", "x-method-override"}

// QueryOverride returns the name of a parameter of a request's query with which a server may be told to act on another method than the
// request's own, which is method; empty where there is none.
func QueryOverride(method, query string) string {
	for param := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(param, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		switch folded := foldParameter(name); {
		case slices.Contains(parameters, folded), folded == "method" && !strings.EqualFold(value, method) && slices.ContainsFunc(writes, func(w string) bool { return strings.EqualFold(value, w) }):
			return name
		}
	}
	return ""
}

// parameters are for WordPress, Laravel, Symfony, Rails and others _method, for Salesforce _HttpMethod, for Google $httpMethod; some take the
// headers' names. A parameter called method is a method only if its value is one, as for Facebook.
var (
	parameters = []string{"_method", "_httpmethod", "x_http_method", "x_http_method_override", "x_method_override"}
	writes     = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
)

// foldParameter returns a parameter's name in small letters and with _ for all that is neither letter nor digit: PHP takes .method for _method.
func foldParameter(name string) string {
	name, _, _ = strings.Cut(strings.TrimLeft(name, " "), "\x00")
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}
