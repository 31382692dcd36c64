package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"

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
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
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
