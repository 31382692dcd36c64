package share

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/actionproof/mediator/test/check"
)

// TestBodiesOfOneCaller lets many bodies of one caller come slowly: most wait, and those of others do not.
func TestBodiesOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodies()
		var ends []*io.PipeWriter
		reading, done := 0, make(chan error)
		send := func(caller string) {
			r, w := io.Pipe()
			ends = append(ends, w)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", countedReads{r, &reading})
			check.Must(t, err)
			body := b.Of(caller, req)
			go func() {
				_, err := io.ReadAll(body)
				done <- err
			}()
			synctest.Wait()
		}
		for range maxBodies + 8 {
			send("flood")
		}
		check.WantEqual(t, reading, maxBodies)
		send("other")
		check.WantEqual(t, reading, maxBodies+1)
		for _, w := range ends {
			check.Must(t, w.Close())
			check.Must(t, <-done)
			synctest.Wait()
		}
		check.WantEqual(t, reading, len(ends))
	})
}

// countedReads counts the readers that have begun.
type countedReads struct {
	io.ReadCloser
	begun *int
}

func (c countedReads) Read(p []byte) (int, error) {
	*c.begun++ // each body is read once, to its end
	return c.ReadCloser.Read(p)
}
