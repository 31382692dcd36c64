package inference

import (
	"errors"
	"io"

	"github.com/actionproof/mediator/proxy/sse"
)

// ErrUnread says that an answer is not as its API has it, or that one of its events is too large.
var ErrUnread = errors.New("inference: the answer cannot be read")

// Reader reads one answer for somebody who passes on what it says. Unlike an [Observer] it gives the text away, and
// keeps up with the answer. It is not safe for concurrent use.
type Reader struct {
	in     Interaction
	tally  tally
	events *sse.Reader
	answer answer
	failed bool
}

// NewReader returns a reader of an answer to r, which is a stream of events or one JSON text. said gets each piece of
// text of the first choice. key is as for [Read].
func NewReader(r *Request, stream bool, key []byte, said func(k Kind, text string)) *Reader {
	b := &Reader{answer: r.Dialect.answer(), events: sse.NewReader(maxEvent),
		in: Interaction{Request: r, Streamed: stream}}
	b.tally = tally{in: &b.in, key: key, stream: stream, said: said}
	return b
}

// Write reads a piece of a stream. After an error it reads nothing more.
func (b *Reader) Write(p []byte) (int, error) {
	b.events.Write(p, func(e sse.Event) { b.failed = b.failed || !readEvent(b.answer, &b.tally, e.Data) })
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

// Held returns how many bytes of memory the reader holds of an event that has not ended.
func (b *Reader) Held() int { return b.events.Held() }

// Interaction returns what is known of the answer, which has ended. It says nothing of times.
func (b *Reader) Interaction() Interaction {
	b.tally.conclude(ReasonNone)
	return b.in
}

var _ io.Writer = (*Reader)(nil)
