package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
)

// egress forwards a call that is no post: streamed both ways, without evidence, recorded with its times.
func (p *Pipeline) egress(c *call, e *Egress) error {
	c.record.Rule = e.Name
	if err := p.o.Record.Full(); err != nil {
		return err
	}
	if c.r.Header["Upgrade"] != nil { // of a WebSocket, see mayUpgrade
		if err := p.load.webSocket(c); err != nil {
			return err
		}
	}
	c.session.Note(strings.TrimSuffix("egress "+c.r.Method+" "+c.record.Host+c.record.Path+" "+c.record.Message, " "))
	var sent io.Reader = c.r.Body
	switch {
	case c.held != nil:
		sent = &heldBody{r: c.held.Reader(), held: c.held}
	case c.r.Body != http.NoBody:
		c.streamed = &agentBody{ReadCloser: c.r.Body}
		sent = c.streamed
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	out := c.outgoing(ctx, cancel, sent)
	if c.held != nil {
		out.ContentLength = c.held.Size
	}
	if c.webSocket {
		wire.AskWebSocket(out.Header)
	}
	credential, err := e.Credential.now(ctx)
	if err != nil {
		return err
	}
	if e.Credential != nil {
		credential.inject(out.Header)
		credential.remove(out.Trailer)
	}
	// An upstream may answer while the request is still on its way, if only its last read. Without this net/http would close the request's
	// body at the first byte of the answer, and the transport would take that for a broken request and close the upstream's connection.
	// HTTP/2 needs no such leave.
	_ = http.NewResponseController(c.w).EnableFullDuplex()
	c.record.State = ledger.StateForwarding
	return p.send(c, out, cancel, credential)
}

// heldBody is a body that was held to be judged. It is freed as soon as it has been sent: its answer may take long.
type heldBody struct {
	mu   sync.Mutex // guards r: the transport may close while it reads
	r    io.Reader
	held *body.Body
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.r.Read(p)
}

func (b *heldBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r = nil
	b.held.Close()
	return nil
}

// agentBody is a body as the agent sends it. It keeps why it could not be read to its end: the transport knows only that it has
// nothing to send.
type agentBody struct {
	io.ReadCloser
	mu  sync.Mutex // guards err: the transport reads in a goroutine of its own
	err error
}

func (b *agentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader's contract
		err = body.ReadError(err, 0)
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

// failed returns why the body could not be read; nil where it could, or where there is none.
func (b *agentBody) failed() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
