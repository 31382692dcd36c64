package wire

import (
	"io"
	"net/http"
)

// Stay makes a client follow no redirects, by which the other side could send a request, with its body, to any address
// that this process reaches.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Bearer returns next if the token is empty.
func Bearer(token string, next http.RoundTripper) http.RoundTripper {
	if token == "" {
		return next
	}
	return Header("Authorization", "Bearer "+token, next)
}

// transport is a function as an [http.RoundTripper].
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Header returns a transport that adds a header field.
func Header(name, value string, next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set(name, value)
		return next.RoundTrip(r)
	})
}

// Bounded reads at most most bytes of an answer's body, as if it ended there.
func Bounded(most int64, next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(resp.Body, most), resp.Body}
		}
		return resp, err
	})
}
