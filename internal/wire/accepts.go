package wire

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// acceptsHeader names the key versions with which the answer to a request between the mediator's processes may be
// signed: those that each process accepts that verifies it.
const acceptsHeader = "Mediator-Accepts"

// sendAccepted writes into h what the caller's verifiers accept.
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

// Context returns the context of a request of another process of the mediator, with what that process's verifiers
// accept, if it says so.
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
