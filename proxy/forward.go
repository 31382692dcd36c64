package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/upstream"
)

// forward is step 10: once, with the credential, and never again by itself. It does not depend on the agent's patience: the
// outcome has to be known.
func (p *Pipeline) forward(ctx context.Context, t *posting) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Timeouts.Forward)
	defer cancel()
	out := t.outgoing(ctx, cancel, t.content.Reader())
	out.ContentLength = t.content.Size
	t.credential.Inject(out.Header)
	out.Header.Set("Idempotency-Key", t.admission.CapabilityID)
	if t.action.Gate.Presents() {
		out.Header.Set("ActionProof-Capability", t.admission.Capability)
		out.Header.Set("ActionProof-Request-Proof", t.proof)
	}
	if t.statement != "" {
		out.Header.Set(interaction.StatementHeader, t.statement)
	}
	err := p.send(t.call, out, cancel, t.credential)
	if t.record.State == ledger.StateFailed && !t.action.Gate.Presents() { // where the API takes part, it has seen the evidence already
		p.unsent(ctx, t, err)
	}
	return err
}

// unsent ends a post that had no connection to its upstream, and so never left: its event can pay for another. The outcome has to be
// durable first. After a crash in between the event is the poorer by one post; the other way round a post that may have been sent would
// be on record beside the one that its event paid for in its place.
func (p *Pipeline) unsent(ctx context.Context, t *posting, why error) {
	p.refuse(t.call, why)
	t.durable = true
	if p.finish(ctx, t.call) != nil || !t.durable {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Timeouts.Step)
	defer cancel()
	if err := p.o.Triggers.Unsent(ctx, t.record.Event, t.session.Runtime, t.binding.Action, t.record.BindingHash); err != nil {
		p.o.Log.Warn("a post was not sent, and its event has paid for it", zap.String("post", t.record.ID), zap.String("event", t.record.Event), zap.Error(err))
	}
}

// maxConnections is on how many connections a call is tried that are made for it. net/http sends a read anew where its connection was lost
// before the answer, and over HTTP/2 without end, and without a pause, where the upstream says with GOAWAY that it has not looked at it. Kept
// connections that have died meanwhile do not count: there may be many.
const maxConnections = 10

// outgoing returns the call's request as it is to be sent, with body in place of its own; see [forward.Request]. cancel cancels ctx.
func (c *call) outgoing(ctx context.Context, cancel context.CancelFunc, body io.Reader) *http.Request {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		c.connected.Store(true)
		if !got.Reused && c.made.Add(1) > maxConnections {
			cancel()
		}
		failpoint.Reach("connected")
	}})
	out := forward.Request(ctx, c.r, c.target, body)
	if c.mcp != nil {
		c.mcp.Prepare(out)
	}
	return c.model.Prepare(out)
}

// send sends a call to its upstream, once, and relays the answer. The record says what became of it. cancel cancels out's context.
func (p *Pipeline) send(c *call, out *http.Request, cancel context.CancelFunc, credential forward.SecretHeader) error {
	resp, err := p.roundTrip(c, out)
	c.step("upstream")
	if err != nil {
		err = upstream.Classify(cmp.Or(outlived(out.Context()), c.streamed.Failed(), c.turnedAway(), err))
		c.record.State = c.unanswered(err)
		c.permit.Settle(0, err)
		return err
	}
	failpoint.Reach("answered")
	defer resp.Body.Close()
	defer cancel() // before Close, which over HTTP/2 otherwise waits until the agent has sent the rest of the request
	c.permit.Settle(resp.StatusCode, nil)
	c.record.State, c.record.Status = ledger.StateForwarded, resp.StatusCode
	carrier := resp.Body // of a WebSocket, which is not searched
	if err := credential.Answered(resp); err != nil {
		return err
	}
	c.model.Begin(resp)
	if c.generated != nil {
		if err := c.generated.Answer(resp, c.model.Request()); err != nil {
			return err
		}
	}
	c.answered = true
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return p.relayWebSocket(c, resp, carrier)
	}
	if c.mcp != nil {
		c.mcp.Begin(resp)
	}
	if c.begun {
		c.w.Header().Set(forward.PostHeader, c.record.ID)
	}
	if c.record.BytesIn, err = forward.Relay(c.w, resp); err != nil {
		err = cmp.Or(outlived(out.Context()), err)
	}
	c.step("relay")
	c.concludeMCP(resp.Body)
	failpoint.Reach("relayed")
	return err
}

// turnedAway says why a call was given up that no connection took.
func (c *call) turnedAway() error {
	if c.made.Load() <= maxConnections {
		return nil
	}
	return refusal.New("upstream_lost", "the upstream gave up %d connections, one after the other, without an answer", maxConnections)
}

// unanswered is the state of a call that got no answer but err.
func (c *call) unanswered(err error) ledger.State {
	switch {
	case c.connected.Load():
		return ledger.StateIndeterminate // something may have been sent; nobody on this side knows
	case !c.begun && errors.Is(err, refusal.New("egress_address_denied", "")):
		return ledger.StateRefused // by us, before anything was dialled
	default:
		return ledger.StateFailed // without a connection nothing can have been sent
	}
}
