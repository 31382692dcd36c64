package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
)

// egress forwards a call that is no post: streamed both ways, without evidence, recorded with its times.
func (p *Pipeline) egress(c *call, e *Egress) error {
	c.record.Rule = e.Name
	if err := p.o.Record.Full(c.session.ID); err != nil {
		return err
	}
	c.session.Note(strings.TrimSuffix("egress "+c.r.Method+" "+c.record.Host+c.record.Path+" "+c.record.Message, " "))
	var sent io.Reader = c.r.Body
	switch {
	case c.held != nil:
		sent = c.held.Sending()
	case c.r.Body != http.NoBody:
		c.streamed = body.Stream(c.r.Body, p.o.Timeouts.Forward, http.NewResponseController(c.w).SetReadDeadline)
		sent = c.streamed
	}
	ctx, end := context.WithCancelCause(c.r.Context())
	cancel := func() { end(nil) }
	defer cancel()
	defer context.AfterFunc(c.session.Life(), func() { p.outlives(ctx, end) })()
	credential, err := e.Credential.Now(ctx)
	if err != nil {
		return err
	}
	out := c.outgoing(ctx, cancel, sent)
	if c.held != nil {
		out.ContentLength = c.held.Size
	}
	if e.Credential != nil {
		credential.Inject(out.Header)
		credential.Remove(out.Trailer)
	}
	if out, err = c.conversation.sent(out); err != nil {
		return err
	}
	// An upstream may answer while the request is still on its way, if only its last read. Without this net/http would
	// close the request's body at the first byte of the answer, and the transport would take that for a broken request
	// and close the upstream's connection. HTTP/2 needs no such leave.
	_ = http.NewResponseController(c.w).EnableFullDuplex()
	if c.receipt == nil { // the chain is not closed before the call is over, see conclude
		p.o.Receipts.Going(c.session.Chain)
	}
	c.goes()
	return c.send(out, cancel, credential)
}

// outlives ends a call some time after its session has ended: the chain of receipts is closed only when all calls are
// over, and an agent must not keep open a session that it does not want to be judged by.
func (p *Pipeline) outlives(ctx context.Context, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-time.After(p.o.Timeouts.Forward):
		end(refusal.New("session_required",
			"the session of the call has ended, and the call did not within %s after it", p.o.Timeouts.Forward))
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
