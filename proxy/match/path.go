package match

import (
	"cmp"
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/internal/refusal"
)

func ambiguousPath(path, why string) error {
	return refusal.New("request_malformed", "the path %.200q %s; write it in its normal form", path, why)
}

// CheckSpelling refuses a target whose spelling would change on the way, and a query with a character that ends it for
// some readers.
func CheckSpelling(u *url.URL) error {
	if u.RawPath != "" && u.EscapedPath() != u.RawPath {
		return ambiguousPath(u.RawPath, "has a character that must be escaped")
	}
	if strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		return ambiguousPath(u.EscapedPath(), "has a query with a character that must be escaped")
	}
	return nil
}

// checkPath refuses a path that two servers could read differently: dot segments, empty segments, backslashes, and
// needless escapes (RFC 3986 sections 2.3 and 6.2.2). "/%70osts" or "//posts" must not get around a rule for "/posts".
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return ambiguousPath(path, "does not begin with /")
	}
	if err := checkEscapes(path); err != nil {
		return err
	}
	if strings.Contains(path, "//") {
		return ambiguousPath(path, "has an empty segment")
	}
	for s := range strings.SplitSeq(path[1:], "/") {
		if hasDots(s) {
			return ambiguousPath(path, "has a dot segment")
		}
	}
	return nil
}

// hasDots finds "." and ".." as any server may see them: decoded once or more often, with an encoded slash as a slash,
// or cut at a semicolon or the beginning of a query.
func hasDots(segment string) bool {
	for part := range strings.SplitSeq(decoded(segment), "/") {
		part = before(part, ";?#")
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// before returns a text up to the first of some characters.
func before(text, any string) string {
	if i := strings.IndexAny(text, any); i >= 0 {
		return text[:i]
	}
	return text
}

// decoded decodes the characters that separate segments or end the path, however often they were encoded.
func decoded(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	return separators.Replace(encodedTwice.ReplaceAllLiteralString(path, "%"))
}

var (
	encodedTwice = regexp.MustCompile("%(25)+")
	separators   = strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%3b", ";", "%3B", ";", "%2e", ".",
		"%2E", ".", "%3f", "?", "%3F", "?", "%23", "#")
)

// reading returns a path, or a pattern, as the most lenient server reads it: separators decoded, nothing after
// semicolons, no query, no empty segments, no slash at the end, in lower case. Some decode the path before they cut off
// the query (CVE-2024-38474).
func reading(path string) string {
	var b strings.Builder
	for s := range strings.SplitSeq(strings.ToLower(before(decoded(path), "?#")), "/") {
		if s = before(s, ";"); s != "" {
			b.WriteByte('/')
			b.WriteString(s)
		}
	}
	return cmp.Or(b.String(), "/")
}

func checkEscapes(path string) error {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' || c <= ' ' || c == 0x7f || c >= 0x80:
			return ambiguousPath(path, "has a character that must be escaped")
		case c == '%':
			v, err := hex.DecodeString(path[i+1 : min(i+3, len(path))])
			if err != nil || len(v) != 1 {
				return ambiguousPath(path, "has a broken escape")
			}
			d := v[0]
			if isUnreserved(d) || d == '\\' || d < ' ' || d == 0x7f {
				return ambiguousPath(path, "escapes a character that needs no escape or has no place in a path")
			}
			if d == '%' && i+4 < len(path) && strings.EqualFold(path[i+3:i+5], "2e") {
				return ambiguousPath(path, "escapes a dot twice")
			}
		}
	}
	// Overlong UTF-8 hides dots and slashes from readers that do not decode it.
	if decoded, err := url.PathUnescape(path); err != nil || !utf8.ValidString(decoded) {
		return ambiguousPath(path, "escapes bytes that are no UTF-8")
	}
	return nil
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
