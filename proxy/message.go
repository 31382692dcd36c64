package proxy

import (
	"context"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
)

// judge reads the messages that go to endpoints of one kind, and chooses the rule of each.
type judge interface {
	// read reads a call, whose body is held, and returns the one of rules that it is for. It notes with the call what the way from
	// there needs of its message.
	read(c *call, rules []rule) (rule, error)
}

// choose ends step 2: it returns the one rule of an endpoint that a call is for. Where its message chooses, it reads that first.
func (p *Pipeline) choose(c *call, to *endpoint) (r rule, err error) {
	if to.kind == "" {
		return to.rules[0], nil
	}
	if c.r.ContentLength != 0 { // over HTTP/2 a request without a body is not told by its Body
		if c.held, err = p.readBody(c, body.MaxJSON, ContentJSON); err != nil {
			c.closeAfter()
			return rule{}, err
		}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), p.o.Timeouts.Step)
	defer cancel()
	done, err := p.bodies.Turn(ctx, c.text())
	if err != nil {
		return rule{}, err
	}
	defer done() // also after a panic
	r, err = p.judges[to.kind].read(c, to.rules)
	c.step("message")
	return r, err
}

// text returns the size of the text that is held of the call.
func (c *call) text() int {
	if c.held == nil {
		return 0
	}
	return len(c.held.Text)
}

// release frees the body that was held.
func (c *call) release() {
	if c.held != nil {
		c.held.Close()
	}
}

// over says that nothing of the call is on its way any more, but for what [Pipeline.keepOpen] keeps.
func (c *call) over() {
	if c.mcp != nil {
		c.mcp.Done(c.kept || c.begun && c.record.State != ledger.StateFailed)
	}
}

// writeProblem answers with a refusal, as the clients of the call's endpoint show it.
func (c *call) writeProblem(d problem.Details) {
	c.w.Header().Set(problem.ProxyStatusField, d.ProxyStatus())
	if c.refusal != nil {
		c.refusal(c.w, d)
		return
	}
	d.Write(c.w)
}
