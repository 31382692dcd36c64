package proxy

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
)

// egress forwards a call that is not a post. It streams both ways, needs no evidence, and records the times.
func (p *Pipeline) egress(c *call, e *rules.Egress) error {
	c.session.Note(strings.TrimSuffix("egress "+c.r.Method+" "+c.record.Host+c.record.Path+" "+c.record.Message, " "))
	if e.Credential.CoversBody() && !c.learns() && c.held == nil && c.r.Body != http.NoBody {
		var err error
		if c.held, err = c.readBody(body.Max, ""); err != nil {
			c.closeAfter()
			return err
		}
	}
	var sent io.Reader = c.r.Body
	switch {
	case c.held != nil:
		sent = c.held.Sending()
	case c.r.Body != http.NoBody:
		c.streamed = body.Stream(c.r.Body, p.o.Timeouts.Forward, http.NewResponseController(c.w).SetReadDeadline)
		sent = c.streamed
	}
	secret, certificate := e.Credential, e.Certificate
	if c.learns() {
		secret, certificate = nil, nil
	}
	way, err := c.context(e.Via, certificate)
	if err != nil {
		return err
	}
	valid, stop := e.Purpose.Until(way, e.Name, p.o.Now())
	defer stop()
	ctx, end := context.WithCancelCause(valid)
	cancel := func() { end(nil) }
	defer cancel()
	defer context.AfterFunc(c.session.Life(), func() { p.outlives(ctx, end) })()
	defer c.streamed.Until(ctx, outlived)()
	credential, err := secret.Resolve(ctx, c.r.Header)
	if err != nil {
		return err
	}
	out := c.outgoing(ctx, cancel, sent)
	if c.held != nil {
		out.ContentLength = c.held.Size
	}
	unnamed := e == learning.Egress && c.held != nil // see [call.learn]
	if unnamed {
		maps.DeleteFunc(out.Header, func(name string, _ []string) bool {
			return !forward.IsUsual(name) && !mcp.IsHeader(name)
		})
	}
	if out, err = c.conversation.sent(out); err != nil {
		return err
	}
	if secret != nil || unnamed {
		if err := credential.Apply(out, c.text()); err != nil {
			return err
		}
	}
	if err := e.Sign.Sign(ctx, out); err != nil { // after the credential, which may be in the query
		return err
	}
	// Without full duplex, net/http closes the request's body at the first byte of an early answer. HTTP/2 does not.
	_ = http.NewResponseController(c.w).EnableFullDuplex()
	if c.receipt == nil { // keeps the chain open until the call ends: see conclude
		c.session.Chain.Going()
	}
	c.goes()
	return c.send(out, cancel, credential, nil)
}

// outlives ends a call some time after its session ends. The chain of receipts closes after all calls, so an agent
// could otherwise keep a session open to avoid being judged.
func (p *Pipeline) outlives(ctx context.Context, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-time.After(p.o.Timeouts.Forward):
		end(refusal.New("session_required",
			"the call was still running %s after its session ended", p.o.Timeouts.Forward))
	}
}

// outlived returns why a call had to end: its session had, or its rule expired.
func outlived(ctx context.Context) error {
	if ended := context.Cause(ctx); refusal.CodeOf(ended) != "" {
		return ended
	}
	return nil
}
