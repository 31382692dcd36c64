package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
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
		sent = c.held.Sending()
	case c.r.Body != http.NoBody:
		c.streamed = &body.Streamed{ReadCloser: c.r.Body}
		sent = c.streamed
	}
	ctx, end := context.WithCancelCause(c.r.Context())
	cancel := func() { end(nil) }
	defer cancel()
	defer context.AfterFunc(c.session.Life(), func() { p.outlives(ctx, end) })()
	out := c.outgoing(ctx, cancel, sent)
	if c.held != nil {
		out.ContentLength = c.held.Size
	}
	if c.webSocket {
		wire.AskWebSocket(out.Header)
	}
	credential, err := e.Credential.Now(ctx)
	if err != nil {
		return err
	}
	if e.Credential != nil {
		credential.Inject(out.Header)
		credential.Remove(out.Trailer)
	}
	if err := p.openModel(c, e); err != nil {
		return err
	}
	// An upstream may answer while the request is still on its way, if only its last read. Without this net/http would close the request's
	// body at the first byte of the answer, and the transport would take that for a broken request and close the upstream's connection.
	// HTTP/2 needs no such leave.
	_ = http.NewResponseController(c.w).EnableFullDuplex()
	if c.receipt == nil {
		p.o.Receipts.Going(c.session.Chain)
		c.going = true
	}
	c.record.State = ledger.StateForwarding
	return p.send(c, out, cancel, credential)
}

// outlives ends a call that is still on its way some time after its session has ended: the chain of receipts is closed only when all calls are over,
// and an agent would otherwise keep a session open that it does not want to be judged by.
func (p *Pipeline) outlives(ctx context.Context, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-time.After(p.o.Timeouts.Forward):
		end(refusal.New("session_required", "the session of the call has ended, and the call did not within %s after it", p.o.Timeouts.Forward))
	}
}

// outlived says of a call that has failed if it was ended because its session had; nil if not.
func outlived(ctx context.Context) error {
	var ended *refusal.Refusal
	if errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	return nil
}
