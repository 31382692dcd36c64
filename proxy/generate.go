package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/generate"
)

// generateTimeout bounds a call to a model that an agent has asked the mediator for, to the end of its answer.
const generateTimeout = 10 * time.Minute

// isGenerate reports whether a call asks the mediator for a model's answer.
func isGenerate(c *call) bool {
	return c.target.Host == InternalHost && c.r.Method == http.MethodPost && c.r.URL.Path == generate.Path
}

// generate turns a call that asks the mediator for a model's answer into the call to the model. From there on that takes the way of any other call, as
// if the agent had made it. The caller calls done at its end, also after an error.
func (p *Pipeline) generate(c *call) (done func(), err error) {
	c.record.Flow = flowInternal
	ctx, cancel := context.WithTimeout(c.r.Context(), generateTimeout)
	held, err := p.readBody(c, generate.MaxRequest, ContentJSON)
	if err != nil {
		c.closeAfter()
		return cancel, err
	}
	defer held.Close()
	asked, err := generate.Read(held.Text)
	if err != nil {
		return cancel, err
	}
	if asked.Probe != "" {
		prompt, err := c.session.Chain.Probe(asked.Probe)
		if err != nil {
			return cancel, err
		}
		asked.Put(prompt)
	}
	model, err := p.o.Rules.models.Find(asked.Model)
	if err != nil {
		return cancel, err
	}
	request, err := model.Request(ctx, asked, c.r)
	if err != nil {
		return cancel, err
	}
	budget := p.bodies.Answers()
	c.probe = asked.Probe
	c.generated = &generate.Call{
		Stream: asked.Stream, Record: c.record.ID, Key: c.session.Content[:], Take: budget.Take, Receipt: func() (*generate.Receipt, error) { return p.modelReceipt(c) },
	}
	if c.probe != "" {
		c.generated.Said = func(text string) { c.receipt.Answered(text) }
	}
	c.r = request
	c.route(model.Target)
	c.record.Flow, c.record.Message = flowEgress, "generate"
	return func() { cancel(); budget.Free() }, nil
}

// modelReceipt returns the receipt of a call to a model whose answer has ended, and nil where receipts are not made.
func (p *Pipeline) modelReceipt(c *call) (*generate.Receipt, error) {
	if c.receipt == nil {
		return nil, nil
	}
	p.count(c)
	c.receipt.EndModel(c.record.State, c.model.Interaction(), time.Time{}) // the answer brings the receipt, so it cannot have been handed over
	ctx, cancel := context.WithTimeout(c.r.Context(), p.o.Timeouts.Step)
	defer cancel()
	token, err := c.receipt.Receipt(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := evidence.UnverifiedClaims(interaction.Kind, token) // this sidecar has just signed it
	if err != nil {
		return nil, err
	}
	return &generate.Receipt{Token: token, Hash: evidence.HashToken(token), Timing: claims.Timing, Chain: claims.Chain, Challenge: claims.Challenge}, nil
}
