package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/signer"
)

type posting struct {
	*call
	action  *rules.Action
	content *body.Body
	binding evidence.Binding

	envelope evidence.Envelope
	opened   gate.Opened                     // artifacts opened or signed here
	attested func() (signer.Attested, error) // waits for the signatures begun in step 6
	stop     context.CancelFunc              // ends that wait

	admission  gate.Admission
	credential credential.Use // bound and sent with the same value
	proof      string
	keys       []ledger.Key // consumed before the first byte goes out
}

// maxSteps bounds the number of steps with [posting.cleared], which each may take Timeouts.Step.
const maxSteps = 11

// steps are the steps before the forward, in order. A failed step stops the post before anything is sent. Consumed keys
// stay consumed; only the event gets its post back ([posting.unsent]).
var steps = [...]struct {
	name string
	take func(*posting, context.Context) error
}{
	{"deployment", (*posting).deployment},
	{"content", (*posting).readContent},     // 3
	{"challenge", (*posting).freshWork},     // 4
	{"trigger", (*posting).triggerEvidence}, // 5
	{"decision", (*posting).decide},         // 6, begins 7
	{"attest", (*posting).attest},           // 7
	{"gate", (*posting).admit},              // 8
	{"credential", (*posting).resolve},      // 9
	{"proof", (*posting).requestProof},      // 9
	{"consume", (*posting).consume},         // 9, made durable
}

func (p *Pipeline) post(c *call, a *rules.Action) error {
	c.record.Flow = flowPost
	t := &posting{call: c, action: a, stop: func() {}}
	defer t.close()
	if c.does == nil || c.does.MCP == nil { // a message to an MCP server is noted by itself
		defer c.posts()()
	}
	ctx, err := c.context(a.Via, a.Certificate)
	if err != nil {
		return err
	}
	for _, step := range steps {
		err := t.bounded(ctx, step.take)
		if c.step(step.name); err != nil {
			err = goneMeanwhile(ctx, step.name, err)
			t.unsent(ctx, err)
			return err
		}
		failpoint.Reach(step.name)
	}
	if err := t.cleared(ctx); err != nil {
		t.unanswered(err)
		t.unsent(ctx, err)
		return err
	}
	return t.forward(ctx) // 10
}

// cleared waits until others have seen the post's intent, if that is demanded. It refuses a post whose rule has expired,
// or whose capability ended while the process was suspended. An API that takes part checks the capability itself.
func (t *posting) cleared(ctx context.Context) error {
	if t.p.o.Witnessed != nil {
		err := t.bounded(ctx, func(t *posting, ctx context.Context) error { return t.p.o.Witnessed(ctx, t.record) })
		if t.step("witness"); err != nil {
			return goneMeanwhile(ctx, "witness", err)
		}
	}
	over := t.p.o.Now().Sub(t.admission.Expires)
	if over < evidence.DefaultSkew || t.action.TakesPart {
		return t.purpose.Check(t.action.Name, t.p.o.Now())
	}
	return refusal.New("expired", "the capability expired %s ago, before the post was sent", over.Round(time.Second))
}

// posts notes a post until the returned function is called: meanwhile no human may answer an MCP server.
func (c *call) posts() (over func()) {
	flight := c.session.Memory.BeginPost()
	return func() {
		result := mcp.ResultLost
		if c.record.State == ledger.StateForwarded {
			result = mcp.ResultOK
		}
		c.session.Memory.End(flight, result, c.wentOut())
	}
}

// goneMeanwhile reports client_gone when the client left before the step failed: the other party then only seems not to
// answer. A verdict stands.
func goneMeanwhile(ctx context.Context, step string, err error) error {
	d := problem.DetailsOf(err)
	if ctx.Err() == nil || d.Status < http.StatusInternalServerError {
		return err
	}
	return refusal.New("client_gone", "the client went away during the step %s, which ended as %s: %s", step, d.Code,
		d.Detail)
}

func (t *posting) bounded(ctx context.Context, take func(*posting, context.Context) error) error {
	ctx = t.spans.Context(ctx)
	ctx, cancel := context.WithTimeout(ctx, t.p.o.Timeouts.Step)
	defer cancel()
	return take(t, ctx)
}

func (t *posting) close() {
	t.stop()
	if t.content != nil && t.content != t.held {
		t.content.Close()
	}
}

// deployment refuses while an observation contradicts the manifest. Findings in the session's own run do not count
// here: the post must reach the session receipt, which reports them.
func (t *posting) deployment(context.Context) error {
	if len(t.session.Report().Found) > 0 {
		return nil
	}
	return t.p.o.Deployment(t.session.Run)
}
