package body

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Sending returns a body that was held to be judged, as it is sent. It is closed with its end, and is free from then on: its answer may take long.
func (c *Body) Sending() io.ReadCloser { return &sending{r: c.Reader(), held: c} }

type sending struct {
	mu   sync.Mutex // guards r: the transport may close while it reads
	r    io.Reader
	held *Body
}

func (b *sending) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.r.Read(p)
}

func (b *sending) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r = nil
	b.held.Close()
	return nil
}

// Streamed is a body that is sent as the agent sends it. It keeps why it could not be read to its end: the transport knows only that it has
// nothing to send. Until the upstream answers, each piece has to come in time.
type Streamed struct {
	io.ReadCloser
	within   time.Duration // for the next piece
	deadline func(time.Time) error

	mu       sync.Mutex // guards all below: the transport reads in a goroutine of its own
	answered bool
	err      error
	read     int64
}

// Stream makes a body of which each piece has to come within a time. deadline sets until when it may be read.
func Stream(body io.ReadCloser, within time.Duration, deadline func(time.Time) error) *Streamed {
	return &Streamed{ReadCloser: body, within: within, deadline: deadline}
}

// Answered says that the upstream has answered: from now on the body may come at any time.
func (b *Streamed) Answered() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = true
	_ = b.deadline(time.Time{})
}

// Read reads a piece of the body.
func (b *Streamed) Read(p []byte) (int, error) {
	b.mu.Lock()
	if !b.answered {
		_ = b.deadline(time.Now().Add(b.within))
	}
	b.mu.Unlock()
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	if err != nil && !b.answered {
		_ = b.deadline(time.Time{}) // net/http goes on to watch the connection
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader's contract
		err = readError(err, 0)
		b.err = err
	}
	return n, err
}

// Bytes returns how much of the body was read to be sent, in bytes.
func (b *Streamed) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// Failed returns why the body could not be read; nil where it could, or where there is none.
func (b *Streamed) Failed() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
