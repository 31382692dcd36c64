package problem

import (
	"net/http"
	"strings"
)

// AnswerByProxy is Answer for the connection layer of the proxy. A client that asked for a tunnel shows at most the
// status line: if w has a method SetReason(string), it gets the reason phrase.
func (d Details) AnswerByProxy(w http.ResponseWriter, r *http.Request) {
	if line, ok := w.(interface{ SetReason(string) }); ok {
		line.SetReason(d.reason())
	}
	d.Answer(w, r)
}

const maxReason = 300

// reason returns code and sentence as a reason phrase in printable ASCII.
func (d Details) reason() string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, d.Code+": "+d.Detail)
	if len(text) > maxReason {
		text = text[:maxReason-3] + "..."
	}
	return text
}
