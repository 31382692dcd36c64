package intercept

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// The lines of HTTP/1, each in its only reading.

// requestLine takes a method in capitals, a target in visible ASCII, and HTTP/1.0 or HTTP/1.1, separated by one space.
func requestLine(line string) (head, error) {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	h := head{http10: version == "HTTP/1.0", connect: method == http.MethodConnect}
	if !wire.IsMethod(method) || !validTarget(target, h.connect) || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return head{}, refusal.New("request_malformed",
			"the request line is not HTTP/1.1: it needs a method in capitals, a URL in ASCII without "+
				"fragment, and HTTP/1.1")
	}
	return h, nil
}

// validTarget takes what net/http does, but only in visible ASCII and without a fragment.
func validTarget(target string, connect bool) bool {
	if target == "" || strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		return false
	}
	if connect && target[0] != '/' {
		target = "http://" + target // a bare authority
	}
	_, err := url.ParseRequestURI(target)
	return err == nil
}

// field splits a header line. The name has no white space around it, the value no control bytes but tabs.
func field(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return "", "", refusal.New("request_malformed",
			"the header is malformed: each line needs a name, a colon and a value without control bytes")
	}
	return http.CanonicalHeaderKey(name), strings.Trim(value, " \t"), nil
}

func decimal(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || len(s) > 18 || signed(s) || s[0] == '0' && s != "0" {
		return 0, refusal.New("request_malformed", "the Content-Length %.40q is not a plain decimal number", s)
	}
	return n, nil
}

// chunkSize reads the line before a chunk. It refuses extensions: they have no agreed meaning, and readers differ on
// them.
func chunkSize(line string) (int64, error) {
	n, err := strconv.ParseInt(line, 16, 64)
	if err != nil || len(line) > 15 || signed(line) {
		return 0, refusal.New("request_malformed",
			"the size of a chunk must be 1 to 15 hexadecimal digits, with no chunk extension after it")
	}
	return n, nil
}

// signed reports whether a number begins with a sign, which strconv takes. s is not empty.
func signed(s string) bool { return s[0] == '+' || s[0] == '-' }
