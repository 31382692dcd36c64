package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// forward is step 10: it sends the post with the credential once, and never again. It goes on when the agent leaves,
// because the outcome must be known.
func (t *posting) forward(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.p.o.Timeouts.Forward)
	defer cancel()
	out := t.outgoing(ctx, cancel, t.content.Reader())
	out.ContentLength = t.content.Size
	// An upstream that leaves the body unread would take it for a request, with the credential of the next call.
	out.Close = t.action.Content == rules.ContentRaw
	out.Header.Set("Idempotency-Key", t.admission.CapabilityID)
	if t.action.TakesPart {
		out.Header.Set("ActionProof-Capability", t.admission.Capability)
		out.Header.Set("ActionProof-Request-Proof", t.proof)
	}
	if t.action.TakesPart || t.action.Sign != nil {
		out.Header.Set("Content-Digest", t.contentDigest())
	}
	t.permit.Post = true
	out, err := t.conversation.sent(out)
	if err == nil {
		err = t.credential.Apply(out, t.content.Text)
	}
	if err == nil { // after the credential, which may be in the query
		err = t.action.Sign.Sign(ctx, out, "content-digest")
	}
	if err != nil {
		t.unanswered(err)
	} else {
		err = t.send(out, cancel, t.credential, t.action.AnswerKeys)
	}
	if t.record.State == ledger.StateFailed {
		t.unsent(ctx, err)
	}
	return err
}

// unsent refunds the event for a post that never left. It records the outcome first: a crash in between costs the event
// one post, but never lets it pay for two. There is no refund if an API that takes part has seen the evidence, or if
// the intent may be durable.
func (t *posting) unsent(ctx context.Context, why error) {
	seen := t.action.TakesPart && t.envelope.DeploymentCertificate != ""
	if t.envelope.TriggerReceipt == "" || t.stage == unsure || seen {
		return
	}
	p := t.p
	p.refuse(t.call, why)
	if durable, err := p.settle(ctx, t.call, true); err != nil || !durable {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Timeouts.Step)
	defer cancel()
	r := &t.record
	if err := p.o.Triggers.Unsent(ctx, r.Event, t.session.Runtime, t.binding.Action, r.BindingHash); err != nil {
		p.o.Log.Warn("a post was not sent, but its event has paid for it",
			zap.String("post", r.ID), zap.String("event", r.Event), zap.Error(err))
	}
}

// maxConnections bounds the new connections that one call may try. net/http repeats a read whose connection broke
// before the answer; over HTTP/2 it does so without end if the upstream sends GOAWAY. Dead idle connections do not
// count: there may be many.
const maxConnections = 10

// outgoing returns the request to send, with body instead of the call's own. cancel cancels ctx.
func (c *call) outgoing(ctx context.Context, cancel context.CancelFunc, body io.Reader) *http.Request {
	ctx = httptrace.WithClientTrace(c.spans.Context(ctx),
		&httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			c.connections.got.Store(true)
			c.connections.via.Store(upstream.ViaOf(got.Conn))
			if !got.Reused && c.connections.made.Add(1) > maxConnections {
				cancel()
			}
			failpoint.Reach("connected")
		}})
	out := forward.Request(ctx, c.r, c.target, body)
	if c.p.o.Propagate {
		c.spans.Propagate(out.Header)
	}
	return out
}

func (c *call) send(out *http.Request, cancel context.CancelFunc, credential credential.Use,
	signers httpsig.Keys) error {
	resp, err := c.via.RoundTrip(out)
	c.step("upstream")
	c.streamed.Answered()
	if via, ok := c.connections.via.Load().(upstream.Via); ok {
		c.record.Via = string(via)
	}
	if err != nil {
		err = upstream.Classify(cmp.Or(outlived(out.Context()), c.streamed.Failed(), c.turnedAway(), err))
		c.unanswered(err)
		c.permit.Settle(0, err)
		return err
	}
	failpoint.Reach("answered")
	defer resp.Body.Close()
	defer cancel() // before Close, which over HTTP/2 waits for the rest of the request
	c.permit.Settle(resp.StatusCode, nil)
	c.forwarded(resp.StatusCode)
	if err := c.heard(out, resp, signers); err != nil {
		return err
	}
	if skew := credential.Skew(resp, c.p.o.Now()); skew != 0 {
		c.p.o.Log.Warn("the API has refused a call, and its clock differs from ours: set both by NTP",
			zap.String("post", c.record.ID), zap.String("rule", c.record.Rule), zap.Duration("ahead", skew))
	}
	carrier := resp.Body
	if err := credential.Answered(out, resp); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = carrier // no HTTP follows, so there is nothing to search
	}
	if err = c.conversation.answer(out.Context(), resp); errors.Is(err, refusal.New(answerUnsigned, "")) {
		c.record.Answer = nil
	}
	failpoint.Reach("relayed")
	return err
}

// relay streams an answer. ctx is the outgoing request's.
func (c *call) relay(ctx context.Context, resp *http.Response) (err error) {
	c.answers()
	if c.intended() {
		c.w.Header().Set(forward.PostHeader, c.record.ID)
	}
	if c.record.BytesIn, err = forward.Relay(c.w, resp); err != nil {
		err = cmp.Or(outlived(ctx), err)
	}
	c.step("relay")
	return err
}

func (c *call) turnedAway() error {
	if c.connections.made.Load() <= maxConnections {
		return nil
	}
	return refusal.New("upstream_lost",
		"the upstream closed %d connections in a row without an answer", maxConnections)
}
