package intercept

import (
	"net/http"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// parseRequestTarget reads the absolute-form target of a request to a proxy (RFC 9112 section 3.2.2). https is taken as well as
// http: some clients send it instead of a CONNECT, and it ends at the same choke point. The Host header is not compared: for this
// form the RFC has a proxy ignore it, and net/http has already replaced it by the target's. Every refusal is target_invalid.
func parseRequest(r *http.Request) (upstream.Target, error) {
	if r.URL == nil || r.URL.Opaque != "" || r.URL.User != nil || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return upstream.Target{}, refusal.New("target_invalid", "the request target is no plain http or https URL")
	}
	return upstream.ParseOrigin(r.URL.Scheme, r.URL.Host)
}

// agree checks that a request inside a tunnel is for the host that the tunnel was opened to: the Host header or :authority, and
// the URL where it is absolute, must name pinned. What does not agree, or names nothing, is target_mismatch.
func agree(r *http.Request, pinned upstream.Target) error {
	if r.URL == nil || r.URL.Opaque != "" || r.URL.User != nil {
		return refusal.New("target_mismatch", "the request target is not one inside a tunnel to %s", pinned)
	}
	if r.URL.Scheme != "" || r.URL.Host != "" {
		if t, err := upstream.ParseOrigin(r.URL.Scheme, r.URL.Host); err != nil || t != pinned {
			return refusal.New("target_mismatch", "the request target names another origin than the tunnel's, %s", pinned)
		}
	}
	// Beside :authority net/http leaves a Host header of HTTP/2 where it was: a second name that somebody might read.
	for _, name := range append([]string{r.Host}, r.Header["Host"]...) {
		if t, err := upstream.ParseOrigin(pinned.Scheme, name); err != nil || t != pinned {
			return refusal.New("target_mismatch", "the Host or :authority of the request is not that of the tunnel, %s", pinned)
		}
	}
	return nil
}
