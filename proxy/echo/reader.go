package echo

import (
	"io"
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
)

// Reader reads a stream up to the secret. It holds back the end of its input while that may begin the secret:
// everything after the last byte that no form contains, such as a quote or newline. Events end with such a byte and are
// not held back. It searches no text that it holds back, or an upstream that sends single bytes would cost much time.
type Reader struct {
	from   io.Reader
	secret *Secret
	held   []byte
	ready  []byte // searched, but did not fit the caller's buffer
	spare  []byte // holds ready
	err    error  // follows ready
}

// Reader returns a reader of from up to the secret. Its error there is answer_withheld. It never returns any part of
// the secret.
func (s *Secret) Reader(from io.Reader) *Reader { return &Reader{from: from, secret: s} }

// spareRead is the size of a read if the caller's buffer has no room beside held.
const spareRead = 4 << 10

func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.ready) == 0 && r.err == nil {
		buf, fits := p, len(p) > len(r.held)
		if !fits {
			r.spare = slices.Grow(r.spare[:0], len(r.held)+spareRead)
			buf = r.spare[:cap(r.spare)]
		}
		n := copy(buf, r.held)
		read, err := r.from.Read(buf[n:])
		buf, r.err = buf[:n+read], err
		end := r.secret.settled(buf, n)
		if err == io.EOF { //nolint:errorlint // io.Reader's contract
			end = len(buf)
		}
		if (end > 0 || err != nil) && r.secret.In(buf) {
			r.err = errEchoed()
			break
		}
		r.held = append(r.held[:0], buf[end:]...)
		if fits && end > 0 {
			return end, nil
		}
		r.ready = buf[:end]
	}
	n := copy(p, r.ready)
	if r.ready = r.ready[n:]; n > 0 {
		return n, nil
	}
	return 0, r.err
}

// settled returns the length of the text in which no form begins that may end behind it. The first held bytes are some
// that forms contain. Of a long text without other bytes it settles as much at once as it holds back.
func (s *Secret) settled(text []byte, held int) int {
	end := len(text)
	for end > held && s.inside[text[end-1]] {
		end--
	}
	if end == held {
		end = 0
	}
	if len(text)-end >= 2*s.held {
		return len(text) - s.held
	}
	return end
}

func errEchoed() error {
	return refusal.New("answer_withheld",
		"the answer repeats the credential that the mediator injected, so it is withheld")
}
