package wire

import (
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// IsMethod reports whether a call may have the method s: only capitals and hyphens. HTTP allows more.
func IsMethod(s string) bool { return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" }

// MethodOverride returns the name of a header in h by which a server may act on another method than the request shows.
// The evidence is bound to the method that the request shows. The result is empty if there is no such header.
func MethodOverride(h http.Header) string {
	for name := range h {
		if OverridesMethod(CGIName(name)) {
			return name
		}
	}
	return ""
}

// OverridesMethod reports whether a header is a method override. dashed is the header's name as [Dashed] returns it.
func OverridesMethod(dashed string) bool { return slices.Contains(headers, dashed) }

var headers = []string{"X-Http-Method", "X-Http-Method-Override", "X-Method-Override"}

// CGIName returns a header's name in canonical form, as servers know it that pass headers on as CGI does (RFC 3875
// section 4.1.18). To some of them, such as lighttpd, all characters that are neither letters nor digits are the same.
func CGIName(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name))
}

// QueryOverride returns the name of a query parameter by which a server may act on another method than method, which is
// the request's own. The result is empty if there is no such parameter.
func QueryOverride(method, query string) string {
	for param := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(param, "=")
		name, value = unescape(name), strings.TrimSpace(unescape(value))
		switch folded := foldParameter(name); {
		case slices.Contains(parameters, folded),
			folded == "method" && !strings.EqualFold(value, method) && slices.ContainsFunc(writes, func(w string) bool {
				return strings.EqualFold(value, w)
			}):
			return name
		}
	}
	return ""
}

// unescape decodes a part of a query. Like many servers, it leaves a malformed escape as it is.
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

// parameters are the names of method parameters: _method of WordPress, Laravel, Symfony, Rails and others, _HttpMethod
// of Salesforce, $httpMethod of Google; some servers take the headers' names. A parameter called method, as Facebook
// has it, counts only if its value is one of writes.
var (
	parameters = []string{"_method", "_httpmethod", "x_http_method", "x_http_method_override", "x_method_override"}
	writes     = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
)

// foldParameter returns a parameter's name in lower case, with _ for each character that is neither letter nor digit:
// PHP takes .method for _method.
func foldParameter(name string) string {
	name, _, _ = strings.Cut(strings.TrimLeft(name, " "), "\x00")
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}
