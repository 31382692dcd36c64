package wire

import (
	"mime"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// CheckJSON refuses headers that could make the receiver read another text than the hashed one.
func CheckJSON(h http.Header) error {
	if e := h.Values("Content-Encoding"); len(e) > 0 && !(len(e) == 1 && strings.EqualFold(e[0], "identity")) {
		return refusal.New("content_malformed",
			"the body is sent with Content-Encoding %.40q; this action takes plain JSON", strings.Join(e, ", "))
	}
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return refusal.New("content_malformed",
			"the request has %d Content-Type headers; this action takes exactly one, with a JSON type", len(types))
	}
	t, params, err := mime.ParseMediaType(types[0])
	// A charset of another spelling (RFC 2231) can hide here, and count where the body is read.
	if err != nil || strings.Contains(types[0], "*") || t != "application/json" && !strings.HasSuffix(t, "+json") {
		return refusal.New("content_malformed",
			"the Content-Type %.80q is not a JSON type; if the action should take other types, set its content to raw",
			types[0])
	}
	if cs, ok := params["charset"]; ok && !strings.EqualFold(cs, "utf-8") {
		return refusal.New("content_malformed", "the charset %.40q is not UTF-8", cs)
	}
	return nil
}
