package body

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Sending returns the held body for sending. Closing it frees the memory, because the answer can take long.
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

// Streamed is a body that is sent as it arrives. It remembers why it broke, which the transport does not know. Until
// the upstream answers, each piece must come in time.
type Streamed struct {
	io.ReadCloser
	within   time.Duration // for the next piece
	deadline func(time.Time) error

	reading sync.Mutex // one reader at a time: an HTTP/2 body of net/http bears only one
	mu      sync.Mutex // guards all below; the transport has its own goroutine
	set     bool       // reads no longer set the deadline
	left    bool       // nothing may set it: the handler returns
	err     error
	read    int64
}

// Stream makes a body whose pieces must each come within a time. deadline sets the read deadline.
func Stream(body io.ReadCloser, within time.Duration, deadline func(time.Time) error) *Streamed {
	return &Streamed{ReadCloser: body, within: within, deadline: deadline}
}

// Answered says that the upstream has answered: from now on the body may take any time.
func (b *Streamed) Answered() { b.awaits(time.Time{}) }

// Until ends the wait for the client at the end of ctx, if the call must end then: the transport would go on to wait.
// stop must be called before the handler returns. A deadline set after that would end the process, over HTTP/2.
func (b *Streamed) Until(ctx context.Context, must func(context.Context) error) (stop func()) {
	if b == nil {
		return func() {}
	}
	end := context.AfterFunc(ctx, func() {
		if must(ctx) != nil {
			b.awaits(time.Unix(1, 0))
		}
	})
	return func() {
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.set, b.left = true, true
	}
}

// awaits sets the deadline for all further pieces.
func (b *Streamed) awaits(until time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set = true; !b.left {
		_ = b.deadline(until)
	}
}

func (b *Streamed) Read(p []byte) (int, error) {
	b.mu.Lock()
	if !b.set {
		_ = b.deadline(time.Now().Add(b.within))
	}
	b.mu.Unlock()
	b.reading.Lock()
	n, err := b.ReadCloser.Read(p)
	b.reading.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	if err != nil && !b.set {
		_ = b.deadline(time.Time{}) // net/http goes on to watch the connection
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader's contract
		err = readError(err, 0)
		b.err = err
	}
	return n, err
}

// Discard reads and drops up to n bytes. A read that the transport has begun comes first.
func (b *Streamed) Discard(n int64) {
	b.reading.Lock()
	defer b.reading.Unlock()
	_, _ = io.CopyN(io.Discard, b.ReadCloser, n)
}

// Bytes returns how many bytes were read.
func (b *Streamed) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// Failed returns why the body broke, or nil. A nil body has not.
func (b *Streamed) Failed() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
