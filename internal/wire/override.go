package wire

import (
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// HTTP allows more methods.
func IsMethod(s string) bool { return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" }

// MethodOverride returns a header that makes some servers use another method than the request's, to which the evidence
// is bound.
func MethodOverride(h http.Header) string {
	for name := range h {
		if IsOverride(name) {
			return name
		}
	}
	return ""
}

// CGIName returns a header's canonical name for servers that pass headers on as CGI does (RFC 3875 section 4.1.18).
// Some, such as lighttpd, do not distinguish characters other than letters and digits.
func CGIName(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name))
}

// QueryOverride returns a query parameter that makes some servers use another method, or headers from its value.
func QueryOverride(method, query string) string {
	for name, value := range Parameters(query) {
		value = strings.TrimSpace(value)
		isWrite := func(w string) bool { return strings.EqualFold(value, w) }
		folded := FoldParameter(name)
		if IsOverride(name) || folded == googleHeaders || folded == "method" && !strings.EqualFold(value, method) &&
			slices.ContainsFunc(writes, isWrite) {
			return name
		}
	}
	return ""
}

// googleHeaders is Google's $httpHeaders, folded: clients of gRPC-Web put headers there to avoid a preflight. The
// value could be another method, or the agent's own credential in place of the rule's.
const googleHeaders = "_httpheaders"

// IsOverride reports whether a header or parameter of this name makes some servers use another method with any value.
// Rack ignores brackets around a name.
func IsOverride(name string) bool {
	folded := strings.TrimRight(FoldParameter(name), "_")
	return strings.Contains(folded, "method") && override.FindString(folded) == folded
}

// OverrideBefore returns the name of [IsOverride] with which a text begins.
func OverrideBefore(text string) string {
	text = strings.TrimLeft(text, " ")
	if n := len(override.FindString(FoldParameter(text))); n > 0 { // a byte for each rune
		return string([]rune(text)[:n])
	}
	return ""
}

// Parameters yields the names and values of a query as lenient servers read it.
func Parameters(query string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for param := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
			name, value, _ := strings.Cut(param, "=")
			if !yield(unescape(name), unescape(value)) {
				return
			}
		}
	}
}

// unescape decodes a part of a query. Like many servers, it keeps a malformed escape.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '+' {
			c = ' '
		} else if c == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c = byte(b)
				i += 2
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// override matches a folded name: _method in WordPress, Laravel, Symfony, Rails and others, __METHOD_OVERRIDE__ in
// middleware for Flask, _HttpMethod in Salesforce, $httpMethod at Google, and the names of headers, x-tunneled-method in
// Plack among them.
var override = regexp.MustCompile(`^(?:_+(?:http_?)?method(?:_?override)?|_*(?:x_)?(?:http_?)?method_?override|` +
	`_*x_(?:http|tunneled)_method)`)

// writes are the values with which a parameter called method, as at Facebook, counts.
var writes = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// FoldParameter returns a parameter's name in lower case, with _ for everything but letters and digits: PHP reads
// .method as _method.
func FoldParameter(name string) string {
	name, _, _ = strings.Cut(strings.TrimLeft(name, " "), "\x00")
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}
