package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/rules"
)

// conversation is one call in its endpoint's protocol, with the protocol's own state. It is all that the pipeline knows
// of protocols. The methods are called in this order.
type conversation interface {
	choose(among []rules.Rule) (rules.Rule, error)
	// content judges a post's body before anything is signed.
	content(b *body.Body) error
	// prove signs what a post needs besides its request proof, before anything is consumed.
	prove(ctx context.Context, b evidence.Binding) error
	// sent prepares the outgoing request. An error stops the call.
	sent(out *http.Request) (*http.Request, error)
	// answer relays the answer to the agent, and reads it as it passes. ctx is the outgoing request's.
	answer(ctx context.Context, resp *http.Response) error
	// refuse answers a refusal in the form that the protocol's clients display.
	refuse(w http.ResponseWriter, d problem.Details, err error)
	// keep reports whether the record waits for a resumed answer. If so, the conversation finishes the call later.
	keep() bool
	// end completes the record and the receipts. handed is when the agent had the whole answer, or zero.
	end(handed time.Time)
}

// begin starts the conversation at an endpoint where the message chooses the rule. It may wait for the session's own
// calls. Choosing the rule must not: other sessions wait for the turn to read.
func (c *call) begin(at rules.Kind) conversation {
	switch at {
	case rules.MCP:
		return &mcpCall{plain: plain{c}}
	case rules.GraphQL:
		return graphQLCall{plain{c}}
	case rules.Model:
		return beginModel(c)
	}
	return c.beginLearnt()
}

// choose ends step 2: it finds the call's rule, reading the message if needed.
func (p *Pipeline) choose(c *call, to *rules.Endpoint) (r rules.Rule, err error) {
	if to.Kind == "" {
		return c.conversation.choose(to.Rules)
	}
	if c.r.ContentLength != 0 { // over HTTP/2 an empty body does not show
		if c.held, err = c.readBody(body.MaxJSON, rules.ContentJSON); err != nil {
			c.closeAfter()
			return rules.Rule{}, err
		}
	}
	begun := c.begin(to.Kind)
	done, err := c.awaitTurn(len(c.text()))
	if err != nil {
		return rules.Rule{}, err
	}
	defer done() // also after a panic
	c.conversation = begun
	r, err = c.conversation.choose(to.Rules)
	c.step("message")
	return r, err
}

type plain struct{ *call }

func (m plain) choose(among []rules.Rule) (rules.Rule, error)         { return among[0], nil }
func (m plain) content(*body.Body) error                              { return nil }
func (m plain) prove(context.Context, evidence.Binding) error         { return nil }
func (m plain) sent(out *http.Request) (*http.Request, error)         { return out, nil }
func (m plain) answer(ctx context.Context, resp *http.Response) error { return m.relay(ctx, resp) }
func (m plain) keep() bool                                            { return false }

func (m plain) refuse(w http.ResponseWriter, d problem.Details, _ error) { d.Answer(w, m.r) }

func (m plain) end(handed time.Time) {
	m.count(m.intended())
	m.receipt.EndPost(m.record, handed)
}
