package forward

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Request returns r as sent to target, with body in place of its own (nil for none) and r's length; set ContentLength
// if body has another (0 for empty, -1 for unknown). Hop-by-hop headers go, and with them those that Connection names,
// so set credentials after this. Headers of the mediator's own protocol go too. Announced trailers follow the body.
// Nothing is added: no Via, X-Forwarded-For or User-Agent. Expect goes, because reading r's body sends the "100
// Continue" here.
//
// GetBody is never set: with it net/http would send a POST again on its own (see Transport).
func Request(ctx context.Context, r *http.Request, target upstream.Target, body io.Reader) *http.Request {
	h := r.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	takesTrailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers")
	wire.RemoveHopByHop(h)
	for _, name := range protocolHeaders {
		delete(h, name)
	}
	h.Del("Expect")
	h.Del("Host")
	if takesTrailers {
		h.Set("Te", "trailers")
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // keeps net/http from naming itself
	}
	authority := target.Authority()
	out := (&http.Request{
		Method: r.Method,
		URL: &url.URL{Scheme: target.Scheme, Host: authority, Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Host:          authority,
		Header:        h,
		ContentLength: r.ContentLength,
		Body:          http.NoBody,
	}).WithContext(ctx)
	if body == nil || body == http.NoBody {
		out.ContentLength = 0
		return out
	}
	closer, ok := body.(io.ReadCloser)
	if !ok {
		closer = io.NopCloser(body)
	}
	out.Body = closer
	if trailer := announced(r.Trailer); len(trailer) > 0 {
		out.Trailer = trailer
		out.ContentLength = -1 // only a chunked body has trailers
		out.Body = &trailedBody{ReadCloser: closer, from: r, to: trailer}
	}
	return out
}

func announced(trailer http.Header) http.Header {
	if len(trailer) == 0 {
		return nil
	}
	names := make(http.Header, len(trailer))
	for name := range trailer {
		if mayTrail(name) {
			names[name] = nil
		}
	}
	return names
}

// mayTrail reports whether a trailer may be forwarded, in either direction. A trailer must not carry what a header
// could not, such as an answer's cookie.
func mayTrail(name string) bool {
	dashed := wire.CGIName(name)
	return httpguts.ValidTrailerHeader(name) && !HasMeaning(dashed) && overridden(dashed) == "" &&
		name != "Set-Cookie" && name != PostHeader
}

// trailedBody copies the announced trailers at the end of the body, where net/http reads them.
type trailedBody struct {
	io.ReadCloser
	from *http.Request
	to   http.Header
}

func (b *trailedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // io.Reader's contract
		for name := range b.to {
			b.to[name] = b.from.Trailer[name]
		}
	}
	return n, err
}
