package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/body"
)

// conversation is one call in its endpoint's protocol, with the protocol's own state. It is all that the pipeline knows
// of protocols. The methods are called in this order.
type conversation interface {
	choose(rules []rule) (rule, error)
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

// kind is a kind of endpoint at which the message chooses the rule.
type kind struct {
	name string
	// is reports whether a rule is about messages of this kind.
	is func(rule) bool
	// check refuses two rules for one message and returns the second's index.
	check func([]rule) (int, error)
	// begin may wait for the session's own calls. Choosing the rule must not: other sessions wait for the turn to read.
	begin func(*call) conversation
	// header reports whether a header belongs to the message; nil if none does.
	header func(name string) bool
}

// kinds lists all kinds. Rules of no kind match origin, method and path alone.
var kinds = []*kind{&kindMCP, &kindGraphQL, &kindModel}

func kindOf(name string) *kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	return nil
}

// choose ends step 2: it finds the call's rule, reading the message if needed.
func (p *Pipeline) choose(c *call, to *endpoint) (r rule, err error) {
	if to.kind == nil {
		return c.conversation.choose(to.rules)
	}
	if c.r.ContentLength != 0 { // over HTTP/2 an empty body does not show
		if c.held, err = c.readBody(body.MaxJSON, ContentJSON); err != nil {
			c.closeAfter()
			return rule{}, err
		}
	}
	begun := to.kind.begin(c)
	ctx, cancel := context.WithTimeout(c.r.Context(), p.o.Timeouts.Step)
	defer cancel()
	done, err := p.bodies.Turn(ctx, c.session.ID, len(c.text()))
	if err != nil {
		return rule{}, err
	}
	defer done() // also after a panic
	c.conversation = begun
	r, err = c.conversation.choose(to.rules)
	c.step("message")
	return r, err
}

type plain struct{ *call }

func (m plain) choose(rules []rule) (rule, error)                     { return rules[0], nil }
func (m plain) content(*body.Body) error                              { return nil }
func (m plain) prove(context.Context, evidence.Binding) error         { return nil }
func (m plain) sent(out *http.Request) (*http.Request, error)         { return out, nil }
func (m plain) answer(ctx context.Context, resp *http.Response) error { return m.relay(ctx, resp) }
func (m plain) keep() bool                                            { return false }

func (m plain) refuse(w http.ResponseWriter, d problem.Details, _ error) { d.Write(w) }

func (m plain) end(handed time.Time) {
	m.count(m.intended())
	m.receipt.EndPost(m.record, handed)
}
