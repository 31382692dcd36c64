package frames

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
)

// Reasons why a text is not decompressed.
var (
	ErrEncoding = errors.New("frames: the text is not compressed by gzip")
	ErrTooLarge = errors.New("frames: the text is too large")
	ErrNoMemory = errors.New("frames: no memory is left for the text")
)

// Gunzip returns a text up to its end or a cut, of about most bytes at most. It reserves the memory with take.
func Gunzip(packed []byte, most int, take func(n int) bool) (out []byte, err error) {
	from := bytes.NewReader(packed)
	r, err := gzip.NewReader(from)
	if err != nil {
		return nil, ErrEncoding
	}
	r.Multistream(false)
	for err == nil {
		if len(out) > most {
			return nil, ErrTooLarge
		}
		if len(out) == cap(out) {
			more := max(len(out), 4<<10)
			if !take(more) {
				return nil, ErrNoMemory
			}
			out = slices.Grow(out, more)
		}
		var n int
		n, err = r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
	}
	// Of several texts in a row, some clients read only the first.
	//nolint:errorlint // io.Reader's contract
	if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) || from.Len() > 0 {
		return nil, ErrEncoding
	}
	return out, nil
}
