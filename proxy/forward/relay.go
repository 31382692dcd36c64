package forward

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/upstream"
)

// PostHeader is set on the answer to a post: the id of its record.
const PostHeader = "Actionproof-Post"

// relayBufferSize is the most that one TLS record or HTTP/2 frame holds, so most reads return no more.
const relayBufferSize = 16 << 10

var relayBuffers = sync.Pool{New: func() any { return new([relayBufferSize]byte) }}

// Relay sends resp to the client as it comes and returns the size of the relayed body. Headers that w already has win
// over the upstream's. A body of unknown length is flushed after each read, so events arrive one by one; trailers
// follow it. Informational responses are not relayed.
//
// An error after the status has been sent has the code upstream_lost, upstream_timeout or client_gone. The handler must
// then panic with [http.ErrAbortHandler], or the broken body would look whole. The caller closes resp.Body.
func Relay(w http.ResponseWriter, resp *http.Response) (int64, error) {
	streaming := resp.ContentLength < 0 || isEventStream(resp.Header)
	CopyHeader(w.Header(), resp)
	w.WriteHeader(resp.StatusCode)
	if !bodyAllowed(resp) {
		return 0, nil
	}
	if resp.Request != nil {
		defer boundLast(resp.Request.Context(), w)()
	}
	n, err := relayBody(w, resp.Body, streaming)
	if err == nil && resp.ContentLength < 0 && resp.Request != nil {
		// An upstream that learns that its client has left may end the body as if it were whole.
		err = upstream.Classify(resp.Request.Context().Err())
	}
	if err != nil {
		return n, err
	}
	relayTrailer(w, resp.Trailer)
	return n, nil
}

// lastWrite bounds the write to the client at the end of a call.
const lastWrite = 5 * time.Second

// boundLast ends a write some time after ctx, until the returned function is called: a client that does not read could
// otherwise keep a call open after its rule or session has ended.
func boundLast(ctx context.Context, w http.ResponseWriter) (lift func()) {
	c, done := http.NewResponseController(w), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = c.SetWriteDeadline(time.Now().Add(lastWrite))
	})
	return func() {
		if !stop() {
			<-done // a deadline set after the handler would end the process over HTTP/2, and hit the next call over HTTP/1
			_ = c.SetWriteDeadline(time.Time{})
		}
	}
}

func isEventStream(h http.Header) bool {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(t), "text/event-stream")
}

// bodyAllowed follows RFC 9110 section 6.4.1.
func bodyAllowed(resp *http.Response) bool {
	head := resp.Request != nil && resp.Request.Method == http.MethodHead
	return !head && resp.StatusCode >= 200 && resp.StatusCode != http.StatusNoContent &&
		resp.StatusCode != http.StatusNotModified
}

// CopyHeader copies resp's header to dst, without what is for the next hop alone. Existing headers in dst stay.
func CopyHeader(dst http.Header, resp *http.Response) {
	options := wire.ConnectionOptions(resp.Header)
	for name, values := range resp.Header {
		_, ours := dst[name]
		named := slices.ContainsFunc(options, func(o string) bool { return strings.EqualFold(o, name) })
		// Over HTTP/2 net/http leaves a length here that it does not believe, such as one of several.
		unknown := name == "Content-Length" && resp.ContentLength < 0
		if !ours && !named && !unknown && name != PostHeader && !slices.Contains(wire.HopByHop, name) {
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
		return refusal.New("client_gone", "the client went away before it had the whole response")
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
			return n, upstream.Classify(err)
		}
	}
}

func relayTrailer(w http.ResponseWriter, trailer http.Header) {
	told := w.Header()["Trailer"]
	for name, values := range trailer {
		if !mayTrail(name) {
			continue
		}
		if !slices.Contains(told, name) {
			name = http.TrailerPrefix + name
		}
		w.Header()[name] = values
	}
}

// Switch writes the 101 of an upstream to an agent's WebSocket.
func Switch(agent io.Writer, resp *http.Response) error {
	h := make(http.Header)
	CopyHeader(h, resp)
	wire.AskWebSocket(h) // as in the request
	head := http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: h}
	return head.Write(agent)
}
