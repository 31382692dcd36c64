package wire

import (
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// IsMethod reports whether a text is a method that a call may have: capitals and hyphens. HTTP lets it be more.
func IsMethod(s string) bool { return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" }

// MethodOverride returns the name of a header of h with which a server may be told to act on another method than the one that a
// request shows, and that everything is bound to; empty where there is none.
func MethodOverride(h http.Header) string {
	for name := range h {
		if OverridesMethod(Dashed(name)) {
			return name
		}
	}
	return ""
}

// OverridesMethod reports whether a header is such a one. dashed is its name as [Dashed] returns it.
func OverridesMethod(dashed string) bool { return slices.Contains(headers, dashed) }

var headers = []string{"X-Http-Method", "X-Http-Method-Override", "X-Method-Override"}

// Dashed returns a header's name, in canonical form, as the servers know it that hand it on as CGI does (RFC 3875 section 4.1.18): to some
// of them, such as lighttpd, all that is neither letter nor digit is the same.
func Dashed(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name))
}

// QueryOverride returns the name of a parameter of a request's query with which a server may be told to act on another method than the
// request's own, which is method; empty where there is none.
func QueryOverride(method, query string) string {
	for param := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(param, "=")
		name, value = unescape(name), strings.TrimSpace(unescape(value))
		switch folded := foldParameter(name); {
		case slices.Contains(parameters, folded), folded == "method" && !strings.EqualFold(value, method) && slices.ContainsFunc(writes, func(w string) bool { return strings.EqualFold(value, w) }):
			return name
		}
	}
	return ""
}

// unescape decodes a part of a query as servers do that leave what is no escape as it is.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	return escape.ReplaceAllStringFunc(strings.ReplaceAll(s, "+", " "), func(e string) string {
		decoded, _ := hex.DecodeString(e[1:])
		return string(decoded)
	})
}

var escape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

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
