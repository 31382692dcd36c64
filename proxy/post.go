package proxy

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/signer"
)

// posting is one post on its way, from its content to its outcome.
type posting struct {
	*call
	action  *Action
	content *body.Body
	binding evidence.Binding

	envelope evidence.Envelope
	opened   gate.Opened                     // the artifacts of the envelope that were opened, or signed, here
	attested func() (signer.Attested, error) // waits for the signatures that were begun in step 6
	stop     context.CancelFunc              // ends it

	admission  gate.Admission
	credential forward.SecretHeader // as it is bound and sent
	proof      string
	publishes  string       // the kind of document that the agent publishes at the node; empty if it is another post
	statement  string       // what the sidecar has signed of it
	keys       []ledger.Key // to be consumed before the first byte goes out
}

// maxSteps bounds the steps of a post, each of which has Timeouts.Step.
const maxSteps = 10

// post takes a posting call through steps 3 to 10 (docs/architecture.md). Each step fails closed: nothing has been sent, and
// what was consumed stays consumed.
func (p *Pipeline) post(c *call, a *Action) error {
	c.record.Flow, c.record.Rule = flowPost, a.Name
	t := &posting{call: c, action: a, stop: func() {}}
	defer t.close()
	ctx := c.r.Context()
	for _, step := range []struct {
		name string
		take func(context.Context, *posting) error
	}{
		{"deployment", p.deployment},
		{"content", p.readPost},        // 3
		{"challenge", p.freshWork},     // 4
		{"trigger", p.triggerEvidence}, // 5
		{"decision", p.decide},         // 6, and 7 is begun
		{"attest", p.attest},           // 7
		{"gate", p.admit},              // 8
		{"proof", p.requestProof},      // 9
		{"consume", p.consume},         // 9, the durable part
	} {
		if err := p.bounded(ctx, t, step.take); err != nil {
			c.step(step.name)
			return goneMeanwhile(ctx, step.name, err)
		}
		c.step(step.name)
		failpoint.Reach(step.name)
	}
	return p.forward(ctx, t) // 10
}

// goneMeanwhile says of a step that failed when its client had gone that this may be why: who was asked then looks as if it gave no answer.
// A verdict stays what it is.
func goneMeanwhile(ctx context.Context, step string, err error) error {
	d := problem.DetailsOf(err)
	if ctx.Err() == nil || d.Status < http.StatusInternalServerError {
		return err
	}
	return refusal.New("client_gone", "the client went away in the step %s, which ended as %s: %s", step, d.Code, d.Detail)
}

// bounded gives a step its time.
func (p *Pipeline) bounded(ctx context.Context, t *posting, take func(context.Context, *posting) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	return take(ctx, t)
}

func (t *posting) close() {
	t.stop()
	if t.content != nil && t.content != t.held {
		t.content.Close()
	}
}

// deployment refuses while something contradicts the manifest. What was found in this session's own run is no reason here: the session
// goes on to the receipt that says so, and is refused with it.
func (p *Pipeline) deployment(_ context.Context, t *posting) error {
	if len(t.session.Report().Found) > 0 {
		return nil
	}
	return p.o.Deployment()
}
