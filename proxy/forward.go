package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/upstream"
)

// forward is step 10: once, with the credential, and never again by itself. It does not depend on the agent's patience: the
// outcome has to be known.
func (p *Pipeline) forward(ctx context.Context, t *posting) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Timeouts.Forward)
	defer cancel()
	out := t.outgoing(ctx, cancel, t.content.Reader())
	out.ContentLength = t.content.Size
	t.credential.inject(out.Header)
	out.Header.Set("Idempotency-Key", t.admission.CapabilityID)
	if t.action.Gate.Presents() {
		out.Header.Set("ActionProof-Capability", t.admission.Capability)
		out.Header.Set("ActionProof-Request-Proof", t.proof)
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

// outgoing returns the call's request as it is to be sent, with body in place of its own; see forwardRequest. cancel cancels ctx.
func (c *call) outgoing(ctx context.Context, cancel context.CancelFunc, body io.Reader) *http.Request {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		c.connected.Store(true)
		if !got.Reused && c.made.Add(1) > maxConnections {
			cancel()
		}
		failpoint.Reach("connected")
	}})
	stripProtocolHeaders(c.r.Header)
	out := forwardRequest(ctx, c.r, c.target, body)
	if c.mcp != nil {
		c.mcp.Prepare(out)
	}
	return c.model.Prepare(out)
}

// send sends a call to its upstream, once, and relays the answer. The record says what became of it. cancel cancels out's context.
func (p *Pipeline) send(c *call, out *http.Request, cancel context.CancelFunc, credential secretHeader) error {
	resp, err := p.o.Transport.RoundTrip(out)
	c.step("upstream")
	if err != nil {
		err = upstream.Classify(cmp.Or(c.streamed.Failed(), c.turnedAway(), err))
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
	if err := credential.answered(resp); err != nil {
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
		c.w.Header().Set(postHeader, c.record.ID)
	}
	c.record.BytesIn, err = relayResponse(c.w, resp)
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

// protocolHeaders belong to the mediator's own protocol: an agent never speaks for it.
var protocolHeaders = []string{
	"Actionproof-Capability", "Actionproof-Request-Proof", "Actionproof-Challenge", "Actionproof-Response",
}

func stripProtocolHeaders(h http.Header) {
	for _, name := range protocolHeaders {
		delete(h, name)
	}
}

// forwardRequest returns r as it is to be sent to target within ctx, with body in place of its own (nil for none) and the length that r
// has; set ContentLength where body has another: 0 for empty, -1 for unknown. Hop-by-hop fields go, and with them what Connection
// names, so set credentials after this and not before. Trailers that r announces follow the body. Nothing is added: no Via, no
// X-Forwarded-For, no User-Agent. Expect is dropped, because the client's wish is met here: reading r's body sends it "100 Continue".
//
// GetBody is never set: with it net/http sends a POST again on its own (see Transport).
func forwardRequest(ctx context.Context, r *http.Request, target upstream.Target, body io.Reader) *http.Request {
	h := r.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	takesTrailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers")
	wire.RemoveHopByHop(h)
	h.Del("Expect")
	h.Del("Host")
	if takesTrailers {
		h.Set("Te", "trailers")
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // keeps net/http from naming itself
	}
	authority := target.Authority()
	out := (&http.Request{
		Method:        r.Method,
		URL:           &url.URL{Scheme: target.Scheme, Host: authority, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Host:          authority,
		Header:        h,
		ContentLength: r.ContentLength,
		Body:          http.NoBody,
	}).WithContext(ctx)
	if body == nil || body == http.NoBody {
		out.ContentLength = 0
		return out
	}
	closer, ok := body.(io.ReadCloser)
	if !ok {
		closer = io.NopCloser(body)
	}
	out.Body = closer
	if trailer := announced(r.Trailer); len(trailer) > 0 {
		out.Trailer = trailer
		out.ContentLength = -1 // only a chunked body has trailers
		out.Body = &trailedBody{ReadCloser: closer, from: r, to: trailer}
	}
	return out
}

// postHeader is the mediator's on the answer to a post: the id of its record.
const postHeader = "Actionproof-Post"

// announced returns the names of a trailer that may be forwarded, without values: those come at the end of the body.
func announced(trailer http.Header) http.Header {
	if len(trailer) == 0 {
		return nil
	}
	names := make(http.Header, len(trailer))
	for name := range trailer {
		if mayTrail(name) {
			names[name] = nil
		}
	}
	return names
}

// mayTrail reports whether a trailer may be forwarded, of a request or of an answer. What would not get through in a header does not behind
// the body: an answer's cookie, where the call had a credential.
func mayTrail(name string) bool {
	dashed := wire.CGIName(name)
	return httpguts.ValidTrailerHeader(name) && !hasMeaning(dashed) && overridden(dashed) == "" && name != "Set-Cookie" && name != postHeader
}

// trailedBody takes over the announced trailers when the body has ended; net/http reads them after that.
type trailedBody struct {
	io.ReadCloser
	from *http.Request
	to   http.Header
}

func (b *trailedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // io.Reader's contract
		for name := range b.to {
			b.to[name] = b.from.Trailer[name]
		}
	}
	return n, err
}
