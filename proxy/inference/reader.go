package inference

import (
	"errors"
	"io"

	"github.com/actionproof/mediator/proxy/sse"
)

// ErrUnread means that an answer does not follow its API, or has an event that is too large.
var ErrUnread = errors.New("inference: the answer cannot be read")

// Reader reads one answer for a caller that passes on its text. Unlike an [Observer] it reads at once. It is not safe
// for concurrent use.
type Reader struct {
	in     Interaction
	tally  tally
	events *sse.Reader
	answer answer
	failed bool
}

// NewReader returns a reader of an answer to r, which is a stream or one JSON text. said gets each piece of text of the
// first choice. For key see [Read].
func NewReader(r *Request, stream bool, key []byte, said func(k Kind, text string)) *Reader {
	b := &Reader{answer: r.Dialect.answer(), events: sse.NewReader(maxEvent),
		in: Interaction{Request: r, Streamed: stream}}
	b.tally = tally{in: &b.in, key: key, stream: stream, said: said}
	return b
}

// Write reads a piece of a stream.
func (b *Reader) Write(p []byte) (int, error) {
	b.events.Write(p, func(e sse.Event) { b.failed = b.failed || !readEvent(b.answer, &b.tally, e) })
	if b.failed || b.events.Over() {
		return 0, ErrUnread
	}
	return len(p), nil
}

// Whole reads an answer that is no stream.
func (b *Reader) Whole(body []byte) error {
	if !readWhole(b.answer, &b.tally, body) {
		return ErrUnread
	}
	return nil
}

// Held returns the bytes of memory that an unfinished event takes.
func (b *Reader) Held() int { return b.events.Held() }

// Interaction returns what is known of the complete answer, without times.
func (b *Reader) Interaction() Interaction {
	b.tally.conclude(ReasonNone)
	return b.in
}

var _ io.Writer = (*Reader)(nil)
