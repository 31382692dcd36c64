package body

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/wire"
)

// methodOverride returns a field of a body that makes some servers, such as those with Laravel or Rails, use another
// method: in a form, also one without a type, or in a JSON object.
func methodOverride(method string, h http.Header, body []byte) string {
	kind := strings.ToLower(strings.Join(h["Content-Type"], ", "))
	switch {
	case strings.Contains(kind, "multipart"):
		return partOverride(body)
	case kind == "" || strings.Contains(kind, "form"):
		return formOverride(method, body)
	case strings.Contains(kind, "json"):
		return memberOverride(body)
	}
	return ""
}

// maxField bounds what is read of a form's field in bytes: no longer one changes a method.
const maxField = 256

func formOverride(method string, body []byte) string {
	for field := range bytes.FieldsFuncSeq(body, func(r rune) bool { return r == '&' || r == ';' }) {
		if name := wire.QueryOverride(method, string(field[:min(len(field), maxField)])); name != "" {
			return name
		}
	}
	return ""
}

func memberOverride(body []byte) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil || dec.StackDepth() == 0 || body[dec.InputOffset()-1] != '{' {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken() // an error is also that of the value
		if text := name.String(); wire.IsOverride(text) {
			return text
		}
		if dec.SkipValue() != nil {
			break
		}
	}
	return ""
}

var partName = regexp.MustCompile(`(?i)\bname\s*=\s*("[^"]*"|'[^']*'|[^;\s]*)`)

// partOverride reads the headers of all parts, with any boundary: they stand between a line that begins with
// two hyphens and an empty one.
func partOverride(body []byte) string {
	begin, end := 0, 0 // of a header
	for line := range bytes.Lines(body) {
		switch end += len(line); {
		case bytes.HasPrefix(line, []byte("--")):
			begin = end
		case len(bytes.TrimSpace(line)) == 0 && begin > 0:
			for head := body[begin:end]; ; {
				at := partName.FindSubmatchIndex(head)
				if at == nil {
					break
				}
				name := string(bytes.Trim(head[at[2]:min(at[3], at[2]+maxField)], `"'`))
				if wire.IsOverride(name) {
					return name
				}
				head = head[at[1]:]
			}
			begin = 0
		}
	}
	return ""
}
