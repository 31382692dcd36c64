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

// Request returns r as it is to be sent to target within ctx, with body in place of its own (nil for none) and the length that r
// has; set ContentLength where body has another: 0 for empty, -1 for unknown. Hop-by-hop fields go, and with them what Connection
// names, so set credentials after this and not before. The headers of
// the mediator's own protocol go too. Trailers that r announces follow the body. Nothing is added: no Via, no
// X-Forwarded-For, no User-Agent. Expect is dropped, because the client's wish is met here: reading r's body sends it "100 Continue".
//
// GetBody is never set: with it net/http sends a POST again on its own (see Transport).
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
		Method:        r.Method,
		URL:           &url.URL{Scheme: target.Scheme, Host: authority, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
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

// announced returns the names of a trailer that may be forwarded, without values: those come at the end of the body.
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

// mayTrail reports whether a trailer may be forwarded, of a request or of an answer. What would not get through in a header does not behind
// the body: an answer's cookie, where the call had a credential.
func mayTrail(name string) bool {
	dashed := wire.CGIName(name)
	return httpguts.ValidTrailerHeader(name) && !HasMeaning(dashed) && overridden(dashed) == "" && name != "Set-Cookie" && name != PostHeader
}

// trailedBody takes over the announced trailers when the body has ended; net/http reads them after that.
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
