package inference

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
)

// decompress returns a gzip text up to its end or a cut. It reserves the memory with take.
func decompress(body []byte, take func(n int) bool) (out []byte, reason string) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, ReasonEncoding
	}
	for err == nil {
		if len(out) > maxDecoded {
			return nil, ReasonTooLarge
		}
		if len(out) == cap(out) {
			more := max(len(out), keptQueue)
			if !take(more) {
				return nil, ReasonNoMemory
			}
			out = slices.Grow(out, more)
		}
		var n int
		n, err = r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
	}
	if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) { //nolint:errorlint // io.Reader's contract
		return nil, ReasonEncoding
	}
	return out, ReasonNone
}
