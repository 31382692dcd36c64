package match

import (
	"cmp"
	"encoding/hex"
	"iter"
	"net/url"
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
	for text := range decodings(strings.ToLower(segment)) {
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			part = before(part, ";?#")
			if part == "." || part == ".." {
				return true
			}
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

// decodings yields a lower-case path decoded not at all, once, and so on, as for servers that decode it on several
// layers. Only what separates segments or ends the path is decoded. [checkEscapes] bounds the layers.
func decodings(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for yield(path) {
			next := separators.Replace(path)
			if next == path {
				return
			}
			path = next
		}
	}
}

var separators = strings.NewReplacer("%2f", "/", "%5c", `\`, "%21", "!", "%3b", ";", "%2e", ".", "%3f", "?", "%23", "#",
	"%25", "%")

// readings yields a path, or a pattern, in lower case as lenient servers read it: without empty segments or a slash at
// the end. To some a semicolon or the beginning of a query ends what counts (CVE-2024-38474), or a backslash is a
// slash; to others they are part of a name. The last reading is the shortest.
func readings(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		path := strings.ToLower(path)
		for text := range decodings(path) {
			for _, marks := range []string{"", `\`, ";", `\;`, "?", `\?`, ";?", `\;?`} {
				if !yield(reading(text, marks)) || !strings.ContainsAny(path, "%;") {
					return
				}
			}
		}
	}
}

func reading(text, marks string) string {
	if strings.Contains(marks, "?") {
		text = before(text, "?#")
	}
	if strings.Contains(marks, `\`) {
		text = strings.ReplaceAll(text, `\`, "/")
	}
	var b strings.Builder
	for s := range strings.SplitSeq(text, "/") {
		if strings.Contains(marks, ";") {
			s = before(s, ";")
		}
		if s != "" {
			b.WriteByte('/')
			b.WriteString(s)
		}
	}
	return cmp.Or(b.String(), "/")
}

// shortest returns the last of the readings.
func shortest(path string) (last string) {
	for last = range readings(path) {
	}
	return last
}

func checkEscapes(path string) error {
	if strings.Contains(path, "%252525") {
		return ambiguousPath(path, "escapes a character more than three times")
	}
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
