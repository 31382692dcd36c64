package body

import (
	"cmp"
	"io"
	"net/http"
)

// Watcher sees the body of an answer on its way.
type Watcher interface {
	// Write takes a piece. An error ends the body before it.
	io.Writer
	// End reports the end of the body: [io.EOF] if it is whole. If the Watcher has a method Refused, its error, if any,
	// ends a whole body, so that no client takes it for whole.
	End(err error)
}

// Watch shows w each piece of resp's body before it goes on.
func Watch(resp *http.Response, w Watcher) { resp.Body = &watched{resp.Body, w} }

type watched struct {
	io.ReadCloser
	by Watcher
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		if _, refused := w.by.Write(p[:n]); refused != nil {
			n, err = 0, refused
		}
	}
	if err != nil {
		w.by.End(err)
		//nolint:errorlint // io.Reader's contract
		if by, may := w.by.(interface{ Refused() error }); may && err == io.EOF {
			err = cmp.Or(by.Refused(), err)
		}
	}
	return n, err
}
