package wire

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// acceptsHeader lists the key versions that may sign the answer: those that all processes that verify it accept.
const acceptsHeader = "Mediator-Accepts"

func sendAccepted(ctx context.Context, h http.Header) {
	kids, known := evidence.Accepted(ctx)
	if !known {
		return
	}
	escaped := make([]string, len(kids)) // a key id may hold any character
	for i, kid := range kids {
		escaped[i] = url.QueryEscape(kid)
	}
	h.Set(acceptsHeader, strings.Join(escaped, ","))
}

// Context returns a request's context, with the accepted key versions.
func Context(r *http.Request) context.Context {
	said, ok := r.Header[acceptsHeader]
	if !ok {
		return r.Context()
	}
	kids := []string{}
	for _, escaped := range strings.Split(strings.Join(said, ","), ",") {
		if kid, err := url.QueryUnescape(escaped); err == nil {
			kids = append(kids, kid)
		}
	}
	return evidence.WithAccepted(r.Context(), kids)
}
