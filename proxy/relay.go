package proxy

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/evidence"
)

// hopByHop are the fields that are meant for the next hop only (RFC 9110 section 7.6.1), besides those that Connection names.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

func removeHopByHop(h http.Header) {
	for _, name := range connectionOptions(h) {
		h.Del(name)
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

func connectionOptions(h http.Header) []string {
	var names []string
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// forwardRequest returns r as it is to be sent to target within ctx, with body in place of its own (nil for none) and the length that r
// has; set ContentLength where body has another: 0 for empty, -1 for unknown. Hop-by-hop fields go, and with them what Connection
// names, so set credentials after this and not before. Trailers that r announces follow the body. Nothing is added: no Via, no
// X-Forwarded-For, no User-Agent. Expect is dropped, because the client's wish is met here: reading r's body sends it "100 Continue".
//
// GetBody is never set: with it net/http sends a POST again on its own (see Transport).
func forwardRequest(ctx context.Context, r *http.Request, target Target, body io.Reader) *http.Request {
	h := r.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	takesTrailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers")
	removeHopByHop(h)
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

// announced returns the names of a trailer that may be forwarded, without values: those come at the end of the body. What would not
// get through in a header does not in a trailer.
func announced(trailer http.Header) http.Header {
	if len(trailer) == 0 {
		return nil
	}
	names := make(http.Header, len(trailer))
	for name := range trailer {
		if httpguts.ValidTrailerHeader(name) && !hasMeaning(dashed(name)) && overridden(name) == "" {
			names[name] = nil
		}
	}
	return names
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

// relayBufferSize is what one record of TLS or one frame of HTTP/2 holds at most, so that a read seldom has more.
const relayBufferSize = 16 << 10

var relayBuffers = sync.Pool{New: func() any { return new([relayBufferSize]byte) }}

// relayResponse sends resp to the client as it comes, and returns how many bytes of its body went through. What w's header has
// already wins over what the upstream says. A body whose end is not known is flushed after each read, so that events of a stream
// arrive one by one; trailers follow it. Informational responses are not relayed.
//
// An error after the status has been sent cannot be answered any more. It has the code upstream_lost, upstream_timeout or
// client_gone, and makes the server cut the client's connection once the handler has returned: without that a body that broke in
// the middle would look whole. resp.Body is left to be closed by the caller.
func relayResponse(w http.ResponseWriter, resp *http.Response) (int64, error) {
	if resp.StatusCode < 200 {
		// 101 was never asked for: Upgrade is not forwarded. What would follow is no HTTP that could be mediated.
		truncate(w)
		return 0, evidence.Refuse("upstream_lost", "the upstream answered with status %d, which ends no request", resp.StatusCode)
	}
	streaming := resp.ContentLength < 0 || isEventStream(resp.Header)
	copyResponseHeader(w.Header(), resp)
	w.WriteHeader(resp.StatusCode)
	if !bodyAllowed(resp) {
		return 0, nil
	}
	n, err := relayBody(w, resp.Body, streaming)
	if err != nil {
		truncate(w)
		return n, err
	}
	relayTrailer(w, resp.Trailer)
	return n, nil
}

func isEventStream(h http.Header) bool {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(t), "text/event-stream")
}

// bodyAllowed follows RFC 9110 section 6.4.1.
func bodyAllowed(resp *http.Response) bool {
	head := resp.Request != nil && resp.Request.Method == http.MethodHead
	return !head && resp.StatusCode >= 200 && resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified
}

func copyResponseHeader(dst http.Header, resp *http.Response) {
	options := connectionOptions(resp.Header)
	for name, values := range resp.Header {
		_, ours := dst[name]
		named := slices.ContainsFunc(options, func(o string) bool { return strings.EqualFold(o, name) })
		if !ours && !named && !slices.Contains(hopByHop, name) {
			dst[name] = values
		}
	}
	if _, ok := dst["Content-Type"]; !ok {
		dst["Content-Type"] = nil // keeps net/http from guessing one
	}
	for name := range announced(resp.Trailer) {
		dst.Add("Trailer", name)
	}
}

func relayBody(w http.ResponseWriter, body io.Reader, streaming bool) (n int64, err error) {
	gone := func() error {
		return evidence.Refuse("client_gone", "the client went away before it had the whole response")
	}
	flush := func() error { return nil }
	if streaming {
		flush = http.NewResponseController(w).Flush
		if flush() != nil { // the header; the first event may take long
			return 0, gone()
		}
	}
	buf := relayBuffers.Get().(*[relayBufferSize]byte)
	defer relayBuffers.Put(buf)
	for {
		read, err := body.Read(buf[:])
		if read > 0 {
			written, werr := w.Write(buf[:read])
			n += int64(written)
			if werr != nil || flush() != nil {
				return n, gone()
			}
		}
		if err == io.EOF { //nolint:errorlint // io.Reader's contract
			return n, nil
		}
		if err != nil {
			return n, classifyError(err)
		}
	}
}

// relayTrailer sends what the upstream sent after the body, announced or not.
func relayTrailer(w http.ResponseWriter, trailer http.Header) {
	told := w.Header()["Trailer"]
	for name, values := range trailer {
		if !httpguts.ValidTrailerHeader(name) {
			continue
		}
		if !slices.Contains(told, name) {
			name = http.TrailerPrefix + name
		}
		w.Header()[name] = values
	}
}
