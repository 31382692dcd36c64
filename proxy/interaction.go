package proxy

import (
	"context"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
)

// maxRelayedArguments bounds the arguments of a tool's call that are compared with what models have asked for, in bytes.
const maxRelayedArguments = 64 << 10

// openModel makes durable that an observed call to a model is open, before it is sent.
func (p *Pipeline) openModel(c *call, e *Egress) error {
	if c.model == nil {
		return nil
	}
	c.receipt = p.o.Receipts.Model(c.session.Chain, receipts.ModelRequest{Record: c.record, Rule: e.Name, Probe: c.probe, Request: c.asked, Body: c.held.Text})
	c.asked.Asked = nil // nobody reads them again, and the answer can take long
	// An agent that goes away meanwhile must not leave it open whether the ledger has the call.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), p.o.Timeouts.Step)
	defer cancel()
	if err := c.receipt.Send(ctx); err != nil {
		c.receipt = nil
		return err
	}
	return nil
}

// openPost returns what has to be durable with the intent of a post, so that it has a receipt in the end.
func (p *Pipeline) openPost(t *posting) ([]ledger.OpenCall, error) {
	receipt, err := p.o.Receipts.Post(t.session.Chain, receipts.PostRequest{Record: t.record, Body: t.content.Reader()})
	if err != nil {
		return nil, err
	}
	open, err := receipt.Open()
	if err == nil {
		t.receipt = receipt
	}
	return open, err
}

// concludeInteraction notes what became of a call in the session's chain of receipts, and of a call to a model in its record. Only its first call
// counts: who needs the receipt of a call before the call's end calls it when the answer has ended, and then waits for c.receipt.Receipt.
func (p *Pipeline) concludeInteraction(c *call) {
	if c.concluded {
		return
	}
	c.concluded = true
	var handed time.Time
	if c.record.Code == "" {
		handed = c.now()
	}
	sent := c.record.State != ledger.StateRefused
	var said inference.Interaction
	if c.model != nil && (sent || c.receipt != nil) {
		said = c.model.Interaction()
		if sent {
			c.record.Model = said.Record()
		}
	}
	p.count(c)
	if c.model != nil {
		c.receipt.EndModel(c.record.State, said, handed)
	} else {
		c.receipt.EndPost(c.record, handed)
	}
	if c.going {
		p.o.Receipts.Over(c.session.Chain)
	}
}

// count counts a call in its session if it went out, once. It comes before the call's receipt is made, so that the receipt counts it too.
func (p *Pipeline) count(c *call) {
	wentOut := c.record.State != ledger.StateRefused && c.record.State != ledger.StateFailed // which had no connection
	if c.counted || c.session == nil || !wentOut || c.record.Flow == flowInternal {
		return
	}
	c.counted = true
	p.o.Receipts.Count(c.session.Chain, c.sentBytes(), c.model != nil || c.mcp != nil || c.begun)
	p.relayed(c)
}

// sentBytes returns the size of the body of a call.
func (c *call) sentBytes() int64 {
	switch {
	case c.streamed != nil:
		return c.streamed.Bytes()
	case c.held != nil:
		return c.held.Size
	}
	return c.record.BytesOut
}

// relayed notes the call of a tool of an MCP server.
func (p *Pipeline) relayed(c *call) {
	if c.mcp == nil || c.mcp.Sent == nil || !c.mcp.Sent.IsCall() {
		return
	}
	p.o.Receipts.Relay(c.session.Chain, receipts.Relayed{
		Host: c.record.Host, Tool: c.mcp.Sent.Name, Arguments: c.mcp.Sent.BoundedArguments(maxRelayedArguments), Gave: c.given,
	})
}
