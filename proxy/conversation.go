package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/body"
)

// conversation is one call in the protocol of its endpoint, with its state. The pipeline knows no protocol but by these
// moments.
type conversation interface {
	// choose reads the call's message and returns the one of the endpoint's rules that it is for.
	choose(rules []rule) (rule, error)
	// sent readies the request that is about to go out. An error means that it must not.
	sent(out *http.Request) (*http.Request, error)
	// answer reads the answer and relays it to the agent. ctx is that of the request that was sent.
	answer(ctx context.Context, resp *http.Response) error
	// refuse answers with a refusal as the protocol's clients show it.
	refuse(w http.ResponseWriter, d problem.Details, err error)
	// keep reports whether the record waits for a resumed answer. If so, the conversation finishes the call later.
	keep() bool
	// end notes what became of the call, in the record and in the chain of receipts. handed is when the agent had the
	// whole answer; zero if it has not.
	end(handed time.Time)
}

// kind is a kind of endpoints, at which the message of a call chooses its rule.
type kind struct {
	name string
	// is reports whether a rule is about messages of this kind.
	is func(rule) bool
	// check refuses rules of one endpoint that name the same message, and returns the second of the two.
	check func([]rule) (int, error)
	// begin begins the conversation of a call.
	begin func(*call) conversation
	// headers is how headers begin that only repeat what the message says; empty for none.
	headers string
}

// kinds are all kinds. A rule about none of them is about origin, method and path alone.
var kinds = []*kind{&kindMCP, &kindGraphQL, &kindModel}

// kindOf returns a kind by its name; nil for none.
func kindOf(name string) *kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	return nil
}

// choose ends step 2: it returns the one rule that a call is for. It reads the message first where that chooses.
func (p *Pipeline) choose(c *call, to *endpoint) (r rule, err error) {
	if to.kind == nil {
		return c.conversation.choose(to.rules)
	}
	if c.r.ContentLength != 0 { // over HTTP/2 a request without a body is not told by its Body
		if c.held, err = c.readBody(body.MaxJSON, ContentJSON); err != nil {
			c.closeAfter()
			return rule{}, err
		}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), p.o.Timeouts.Step)
	defer cancel()
	done, err := p.bodies.Turn(ctx, c.session.ID, len(c.text()))
	if err != nil {
		return rule{}, err
	}
	defer done() // also after a panic
	c.conversation = to.kind.begin(c)
	r, err = c.conversation.choose(to.rules)
	c.step("message")
	return r, err
}

// plain is a conversation of which nothing is read.
type plain struct{ *call }

func (m plain) choose(rules []rule) (rule, error)                     { return rules[0], nil }
func (m plain) sent(out *http.Request) (*http.Request, error)         { return out, nil }
func (m plain) answer(ctx context.Context, resp *http.Response) error { return m.relay(ctx, resp) }
func (m plain) keep() bool                                            { return false }

func (m plain) refuse(w http.ResponseWriter, d problem.Details, _ error) { d.Write(w) }

func (m plain) end(handed time.Time) {
	m.count(m.intended())
	m.receipt.EndPost(m.record, handed)
}
