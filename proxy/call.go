package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/load"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/spans"
	"github.com/actionproof/mediator/proxy/upstream"
)

type call struct {
	p       *Pipeline
	w       http.ResponseWriter // nil for a CONNECT, and if there is no request
	r       *http.Request       // nil for a call that ended before its request
	target  upstream.Target
	session *session.Session // nil until step 1
	record  ledger.Record
	purpose match.Purpose // of the rule; zero until step 2
	stage   stage         // see stage.go
	// conversation speaks the endpoint's protocol; plain until step 2.
	conversation conversation
	via          http.RoundTripper // sends the request
	slot         load.Slot         // among the calls in flight
	permit       upstream.Permit
	// held is the body, if its message chose the rule; otherwise nil.
	held *body.Body
	// streamed is the request's own body, if it is sent. A post has none: its body was read before.
	streamed *body.Streamed
	// does is the effect of a post's message, or nil if its rule ignores messages.
	does        *policy.Message
	certificate credential.Presented // the rule's client certificate, in the call's context
	receipt     *receipts.Call
	spans       *spans.Call
	told        problem.Details // why the call failed, as shown to the agent
	connections connections
	last        time.Time // end of the last step
}

// connections counts a call's connections. The transport's goroutine updates it.
type connections struct {
	got  atomic.Bool  // the call has a connection
	made atomic.Int32 // new ones for this call
	via  atomic.Value // upstream.Via of the last one
}

func (p *Pipeline) newCall(w http.ResponseWriter, r *http.Request) *call {
	now := p.o.Now()
	c := &call{p: p, w: w, r: r, via: p.o.Transport, last: now}
	var h http.Header
	if r != nil {
		h = r.Header
	}
	c.spans = spans.Begin(p.o.Tracer, h, now)
	c.conversation = plain{c}
	c.record = ledger.Record{
		ID: "post_" + evidence.NewOrderedID(now), Flow: flowEgress, State: ledger.StateRefused, Started: now,
		Manifest: p.o.Strict.ManifestHash, Steps: make([]ledger.Step, 0, 4),
	}
	if r != nil && wire.IsMethod(r.Method) { // others are refused and not recorded
		c.record.Method = strings.Clone(r.Method)
	}
	return c
}

func (c *call) route(t upstream.Target) {
	c.target = t
	c.record.Host = t.Address()
	// No query: it may hold secrets. A record holds no part of a text of the request, which would stay in memory with it.
	c.record.Path = strings.Clone(c.r.URL.EscapedPath())
	c.record.Scheme, c.record.QueryNames = t.Scheme, wire.QueryNames(c.r.URL.RawQuery)
	c.record.Carries = rules.Carries(c.r.Header)
}

// of sets the call's session.
func (c *call) of(s *session.Session) {
	c.session = s
	c.record.Session, c.record.Event, c.record.Learning = s.ID, s.Event.ID, s.Learning
}

// context is for requests in the name of the call: they use connections of its session alone, go the way that its rule
// demands, and present the rule's client certificate.
func (c *call) context(demanded upstream.Via, certificate *credential.Certificate) (ctx context.Context, err error) {
	ctx = upstream.WithVia(upstream.WithParty(c.r.Context(), c.session.ID, c.session.Life()), demanded)
	within, cancel := context.WithTimeout(ctx, c.p.o.Timeouts.Step)
	defer cancel()
	c.certificate, err = certificate.Resolve(within)
	return upstream.WithClient(ctx, c.certificate.Client), err
}

func (c *call) step(name string) {
	now := c.p.o.Now()
	c.record.Steps = append(c.record.Steps, ledger.Step{Name: name, Micros: now.Sub(c.last).Microseconds()})
	c.spans.Step(name, now)
	c.last = now
}

func (c *call) check(name string, err error) error {
	err = evidence.Stale(err)
	k := ledger.Check{Name: name, OK: err == nil}
	if err != nil {
		d := problem.DetailsOf(err)
		k.Code, k.Detail = d.Code, d.Detail
	}
	c.record.Checks = append(c.record.Checks, k)
	return err
}

func (c *call) artifact(name, token string) {
	c.record.Artifacts = append(c.record.Artifacts, ledger.Artifact{Name: name, Token: token})
}

// identify finds the session for the record of a call that ended before step 1.
func (p *Pipeline) identify(ctx context.Context, c *call) {
	if c.session != nil {
		return
	}
	route, ok := intercept.RouteFrom(ctx)
	if !ok && c.r != nil {
		route.ProxyAuthorization, route.Session = c.r.Header.Get("Proxy-Authorization"), intercept.SessionOf(ctx)
	}
	if s, err := p.o.Sessions.Of(route); err == nil {
		c.of(s)
	}
}

// readBody reads at most limit bytes of body, before anything is sent. kind is empty if no rule judges the body.
func (c *call) readBody(limit int64, kind string) (*body.Body, error) {
	// A deadline ends a read; a context does not. Connections without deadlines have the server's limits.
	reading := http.NewResponseController(c.w)
	_ = reading.SetReadDeadline(c.p.o.Now().Add(c.p.o.Timeouts.Step))
	read, err := c.p.bodies.Read(c.w, c.r, c.session.Party(), limit, kind == rules.ContentJSON, kind != "")
	_ = reading.SetReadDeadline(time.Time{})
	return read, err
}

// awaitTurn waits for the session's turn to judge a text of this size.
func (c *call) awaitTurn(size int) (done func(), err error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), c.p.o.Timeouts.Step)
	defer cancel()
	return c.p.bodies.Turn(ctx, c.session.Party(), size)
}

func (c *call) text() []byte {
	if c.held == nil {
		return nil
	}
	return c.held.Text
}

func (c *call) release() {
	if c.held != nil {
		c.held.Close()
	}
}

// closeAfter closes the agent's connection after the answer, because the rest of the body has no bound.
func (c *call) closeAfter() {
	if c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// forAgent makes the document for err that the agent may read. It says what the call's rule is for.
func (c *call) forAgent(err error) problem.Details {
	d := problem.ForAgent(err, c.record.ID)
	if !c.purpose.IsZero() {
		d.Rule, _ = json.Marshal(struct {
			Name string `json:"name"`
			match.Purpose
		}{c.record.Rule, c.purpose})
	}
	return d
}

// Bounds on the rest of a body that was refused unread.
const (
	maxUnread     = 64 << 20
	unreadTimeout = 5 * time.Second
)

// answerRefusal answers a refusal at once, and then reads the rest of the client's body, within bounds. Many clients
// read the answer only after sending everything; an early close would lose it.
func (c *call) answerRefusal(err error) {
	d := c.forAgent(err)
	var first *challengeRequired
	if errors.As(err, &first) {
		d.Challenge = first.document
	}
	answer := http.NewResponseController(c.w)
	if c.slot.Taken() {
		_ = answer.EnableFullDuplex() // otherwise net/http reads the body before it answers; HTTP/2 does not need it
	}
	c.conversation.refuse(c.w, d, err) // in the form that the endpoint's clients display
	if !c.slot.Taken() || c.held != nil || c.r.Body == http.NoBody || c.r.Header.Get("Expect") != "" {
		return // a client with Expect now sends no body
	}
	if problem.IsGRPC(c.r) {
		return // the status must come with the end of the answer
	}
	_ = answer.Flush()
	_ = answer.SetReadDeadline(c.p.o.Now().Add(unreadTimeout))
	if c.streamed != nil { // the transport may still read it
		c.streamed.Discard(maxUnread)
		return
	}
	_, _ = io.CopyN(io.Discard, c.r.Body, maxUnread)
}
